"""`audit-shapes` as a function: files to models, models to findings, findings to a report.

What is heavy, or not needed in source mode, is imported where it is used: starting is most of what an audit of one
file takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tcprobe.errors import TcprobeError, UsageError
from tcprobe.finding import Audited, AuditReport, Finding, Range
from tcprobe.flows.audit_files import Target, Targets, find_targets, repository
from tcprobe.flows.audit_options import AuditOptions, Choice, choose
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.model import Model
from tcprobe.place import Place

if TYPE_CHECKING:
    from tcprobe.rules.step import Step
    from tcprobe.syntax.source import Source

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an audit found.

    Attributes:
        report: for a reporter.
        sources: the parsed files that took part, by absolute path; fixes edit these.
        choice: the options as they counted.
    """

    report: AuditReport
    sources: Mapping[str, Source]
    choice: Choice

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings at or above the threshold, 2 a file could not be audited."""
        if self.report.failed:
            return 2
        findings = self.report.findings()
        return int(self.choice.fails(findings, max((_share(a) for a in self.report.audited), default=0.0)))


def audit(options: AuditOptions, say: Say) -> Outcome:
    """Audit files and return what was found.

    Args:
        options: what the user asked.
        say: takes one sentence on what is done, where it is not what the user may expect.

    Raises:
        TcprobeError: an option cannot be used, or the only file cannot be audited; of several files those that
            cannot are in the report instead.
    """
    from tcprobe.audit.settings import find_settings
    from tcprobe.rules import RULES

    targets = find_targets(options.files)
    choice = choose(options, find_settings(targets.files[0].path), [rule.DOC.code for rule in RULES])
    gpu = find_gpu(choice.target_gpu)
    traced = _is_traced(options, choice, targets, say)
    auditor = _Auditor(options, choice, gpu, traced)
    failed: list[tuple[str, str]] = []
    for target in targets.files:
        try:
            auditor.add(target)
        except TcprobeError as error:
            if len(targets.files) == 1:
                raise
            failed.append((str(target.path), error.message.removeprefix(f"{target.named}: ")))
    root = repository(targets.files[0].path) or Path.cwd()
    return Outcome(auditor.report(str(root), tuple(failed)), auditor.sources, choice)


def _share(audited: Audited) -> float:
    """Return what all suggestions save of the step, in percent; 0 where that is unknown."""
    saved, step = audited.total_saving_ns, audited.step_ns
    return 100 * saved.mid / step.mid if saved is not None and step is not None and step.mid > 0 else 0.0


def _is_traced(options: AuditOptions, choice: Choice, targets: Targets, say: Say) -> bool:
    """Decide how shapes are found: traced for one file where TensorFlow is, else from the source.

    Raises:
        UsageError: what was asked needs tracing, and the source alone was asked for.
        ToolError: what was asked needs TensorFlow, which is not there.
    """
    if choice.mode == "source":
        if options.args or any(t.factory for t in targets.files):
            raise UsageError("a factory is called only in traced mode", "leave --mode source out")
        return False
    several = targets.folder or len(targets.files) > 1
    wanted = choice.mode == "traced" or options.run
    if several and not wanted:
        say(f"{len(targets.files)} files: shapes are read from the source; --mode traced runs them")
        return False
    from tcprobe.audit.traced import available

    missing = available(choice.python)
    if missing is None:
        return True
    if wanted or options.args or any(t.factory for t in targets.files):
        from tcprobe.errors import ToolError

        raise ToolError(f"tracing needs TensorFlow: {missing}", "--python names another interpreter")
    say(f"shapes are read from the source alone: {missing}")
    return False


class _Auditor:
    """Audits one file after the other with the same options."""

    def __init__(self, options: AuditOptions, choice: Choice, gpu: Gpu, traced: bool) -> None:
        self._options = options
        self._choice = choice
        self._gpu = gpu
        self._traced = traced
        self._made: list[_Made] = []
        self.sources: dict[str, Source] = {}

    def add(self, target: Target) -> None:
        """Audit the models of a file.

        Raises:
            TcprobeError: the file cannot be audited; nothing of it is kept then.
        """
        from tcprobe.audit.source import with_arguments
        from tcprobe.syntax.source import Source

        path = str(target.path)
        sources = {path: self.sources.get(path) or Source.read(target.path)}
        models = self._models(target, sources[path])
        if self._traced:
            sources |= _read(models, {**self.sources, **sources})
            models = [with_arguments(model, sources) for model in models]
        made = [self._audited(model, sources) for model in models]
        self.sources |= sources
        self._made += made

    def _models(self, target: Target, source: Source) -> list[Model]:
        if not self._traced:
            from tcprobe.audit.source import read_model

            return read_model(source, self._choice.batch_size)
        from tcprobe.audit.traced import TraceRequest, trace

        options = self._options
        return trace(
            TraceRequest(
                file=str(target.path),
                factory=target.factory,
                args=options.args,
                run=options.run,
                argv=options.argv,
                batch=self._choice.batch_size,
                timeout_s=options.timeout_s,
                python=self._choice.python,
            )
        )

    def _audited(self, model: Model, sources: Mapping[str, Source]) -> _Made:
        from tcprobe.audit.severity import decide
        from tcprobe.rules import RULES
        from tcprobe.rules.base import Subject

        step = self._step(model)
        subject = Subject(model, step, sources)
        found = [decide(finding, step) for rule in RULES for finding in rule.check(subject)]
        findings = _with_fixes(list(dict.fromkeys(found)), step, sources)
        return _Made(self._summary(model, step), step, tuple(findings))

    def _step(self, model: Model) -> Step:
        from tcprobe.gemm.cost import Target as CostTarget
        from tcprobe.rules.step import Step

        choice = self._choice
        xla = bool(model.xla) if choice.xla is None else choice.xla
        target = CostTarget(self._gpu, choice.library, xla, choice.dtype != "float32")  # type: ignore[arg-type]
        return Step(_compiled(model, choice.xla), target, choice.dtype)

    def _summary(self, model: Model, step: Step) -> Audited:
        costs = [cost for cost in step.costs if cost is not None]
        return Audited(
            label=model.label,
            file=model.file,
            mode=model.mode,
            step_ns=step.ns,
            batch=model.batch,
            batch_known=model.batch_known,
            products=len(model.products),
            costed=len(costs),
            layers=len(model.layers),
            gpu=self._gpu.id,
            dtype=self._choice.dtype,
            library=self._choice.library,
            xla=step.target.xla,
            basis="calibrated" if any(cost.basis == "calibrated" for cost in costs) else "predicted",
            keras=model.keras,
            tensorflow=model.tensorflow,
            unseen=model.unseen,
            notes=model.notes,
        )

    def report(self, root: str, failed: tuple[tuple[str, str], ...]) -> AuditReport:
        """Return all audits, without the findings that comments silence and those that were not selected."""
        silent, unused = self._silenced()
        audited = tuple(self._sorted_out(made, silent) for made in self._made)
        return AuditReport(audited, unused, failed, root)

    def _silenced(self) -> tuple[frozenset[Finding], tuple[tuple[Place, str], ...]]:
        """Return the findings that comments silence, and the comments that silence nothing."""
        commented = {path: s for path, s in self.sources.items() if _may_silence(s.text)}
        if not commented:
            return frozenset(), ()
        from tcprobe.audit.suppress import judge

        everything = dict.fromkeys(finding for made in self._made for finding in made.findings)
        judged = judge(tuple(everything), commented, [u for made in self._made for u in made.audited.unseen])
        return frozenset(judged.suppressed), judged.unused

    def _sorted_out(self, made: _Made, silent: frozenset[Finding]) -> Audited:
        wanted = [f for f in made.findings if self._choice.wants(f, made.audited.file)]
        kept = sorted((f for f in wanted if f not in silent), key=_costliest_first)
        return replace(
            made.audited,
            findings=tuple(kept),
            suppressed=tuple(f for f in wanted if f in silent),
            total_saving_ns=total_saving(kept, made.step),
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """One model: its audit without findings, its step, and all that the rules found."""

    audited: Audited
    step: Step
    findings: tuple[Finding, ...]


def _may_silence(text: str) -> bool:
    """Say whether a file may hold a comment that silences; most hold none and need no tokens."""
    lower = text.lower()
    return "noqa" in lower or "tcprobe:" in lower


def _with_fixes(findings: list[Finding], step: Step, sources: Mapping[str, Source]) -> list[Finding]:
    """Return the findings with their fixes; what makes them is loaded only where a size is to change."""
    if all(f.suggested is None for f in findings):
        return findings
    from tcprobe.audit.fix import with_fixes

    return with_fixes(findings, step.model, step, sources)


def _costliest_first(finding: Finding) -> tuple[float, str, int, str]:
    saved = finding.saving_ns.mid if finding.saving_ns else 0.0
    place = finding.place
    return -saved, place.file if place else "", place.line if place else 0, finding.code


def total_saving(findings: Iterable[Finding], step: Step) -> Range | None:
    """Return what all suggestions save together, in ns a step; None where none saves anything.

    Sizes are changed together and predicted anew, since what one change saves another may save again; savings that
    are no matter of size are added.
    """
    saving = [f for f in findings if f.saving_ns is not None and f.saving_ns.mid > 0]
    changes, parts = [], []
    for f in saving:
        if f.layer and f.dimension and f.size is not None and f.suggested is not None:
            changes += step.linked(f.layer, f.dimension, f.size, f.suggested)
        elif f.saving_ns is not None:
            parts.append(f.saving_ns)
    together = step.saving(step.links.settled(tuple(dict.fromkeys(changes)))) if changes else None
    parts += [together] if together is not None else []
    if not parts:
        return None
    return Range(sum(p.low for p in parts), sum(p.mid for p in parts), sum(p.high for p in parts))


def _compiled(model: Model, xla: bool | None) -> Model:
    """Return the model with every product compiled by XLA, or none, where the user said which."""
    if xla is None:
        return model
    return replace(model, xla=xla, products=tuple(replace(p, compiled=xla) for p in model.products))


def _read(models: Iterable[Model], known: Mapping[str, Source]) -> dict[str, Source]:
    """Return the other files whose code built layers or called ops; one that does not parse is left out."""
    from tcprobe.syntax.source import Source

    found: dict[str, Source] = {}
    places = [layer.place for model in models for layer in model.layers]
    places += [product.place for model in models for product in model.products]
    for file in dict.fromkeys(place.file for place in places if place is not None):
        try:
            found[file] = known.get(file) or Source.read(file)
        except TcprobeError:
            continue
    return found
