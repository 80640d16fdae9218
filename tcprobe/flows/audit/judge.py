"""Judge a model: what a step of it costs, what the rules find in it, and what all suggestions save together.

Then what comments silence of that, and which of several files a finding is told with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.constants import Constants
from tcprobe.flows.audit.options import Choice
from tcprobe.hardware import Gpu
from tcprobe.schema.finding import COST_UNKNOWN, SEVERITIES, Audited, Finding, Range
from tcprobe.schema.model import Model, Place, Unseen
from tcprobe.schema.statement import parts

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.source import Source


Unused: TypeAlias = tuple[Place, str]
"""A comment that silences nothing."""


class Judge(Struct, frozen=True):
    """Judges models with the same options."""

    choice: Choice  # the options in effect
    gpu: Gpu  # to predict for
    constants: Constants | None  # that `calibrate` fitted to it; None where it has not been run

    def step(self, model: Model) -> Step:
        """Return what a step of a model costs."""
        from tcprobe.cost.predict import Target
        from tcprobe.rules.model.step import Step

        choice = self.choice
        xla = bool(model.xla) if choice.xla is None else choice.xla
        tf32 = choice.dtype != "float32" and not (choice.dtype is None and model.tf32_off)
        target = Target(self.gpu, choice.library, xla, tf32, constants=self.constants)  # type: ignore[arg-type]
        return Step(_compiled(model, choice.xla), target, choice.dtype)

    def audited(
        self, step: Step, findings: tuple[Finding, ...], silent: frozenset[Finding], known: frozenset[Finding]
    ) -> Audited:
        """Return a model with those of its findings that are wanted, the costliest first.

        Args:
            step: of the model.
            findings: all that the rules find in it.
            silent: those that comments silence.
            known: those that the baseline holds.
        """
        from tcprobe.rules.model.step import rests_on

        model, choice = step.model, self.choice
        wanted = [f for f in findings if choice.wants(f, model.file)]
        kept = sorted((f for f in wanted if f not in silent and f not in known), key=_costliest_first)
        costs = [cost for cost in step.costs if cost is not None]
        return Audited(
            label=model.label,
            file=model.file,
            mode=model.mode,
            findings=tuple(kept),
            suppressed=tuple(f for f in wanted if f in silent),
            step_ns=step.ns,
            total_saving_ns=_total_saving(kept, step),
            batch=model.batch,
            batch_known=model.batch_known,
            batch_varies=model.batch_varies,
            products=len(model.products),
            costed=len(costs),
            layers=len(model.layers),
            gpu=self.gpu.id,
            dtype=choice.dtype,
            library=choice.library,
            xla=step.target.xla,
            tf32_off=model.tf32_off and choice.dtype is None,
            xla_by_default=model.xla_by_default and choice.xla is None,
            basis="calibrated" if any(cost.basis == "calibrated" for cost in costs) else "predicted",
            constants=rests_on(costs),
            keras=model.keras,
            tensorflow=model.tensorflow,
            unseen=model.unseen,
            notes=model.notes,
            policy_assumed=model.policy_assumed,
            batch_by_default=model.batch_by_default,
            known=tuple(f for f in wanted if f in known),
            not_judged=model.not_judged,
            is_short=step.is_short,
            gpu_asked=model.gpu_asked,
            judged=bool(step.sizes.dimensions),
        )


def findings_in(step: Step, sources: Mapping[str, Source], beside: Sequence[Step]) -> tuple[Finding, ...]:
    """Return what all rules find in a model, with severity and, if it is certain for all models, a fix."""
    from tcprobe.audit.severity import grade_all
    from tcprobe.rules.base import Subject
    from tcprobe.rules.precision.dtypes import SPLIT
    from tcprobe.rules.registry import RULES

    subject = Subject(step.model, step, sources)
    raw = dict.fromkeys(finding for rule in RULES for finding in rule.check(subject))
    found = grade_all(raw, step)
    source = sources.get(step.model.file)
    if source is not None and source.notebook is not None:
        return tuple(replace(f, fix=None) for f in found)
    if all(f.suggested is None and f.says.kind != SPLIT for f in found):
        return tuple(found)
    # The modules that make fixes are loaded only if something is to change.
    from tcprobe.audit.fix.fixes import with_fixes
    from tcprobe.audit.source.read import read_model

    return tuple(with_fixes(found, step, sources, beside, read_model))


def _costliest_first(finding: Finding) -> tuple[float, str, int, str]:
    saved = finding.saving_ns.mid if finding.saving_ns else 0.0
    place = finding.place
    return -saved, place.file if place else "", place.line if place else 0, finding.code


def _total_saving(findings: Iterable[Finding], step: Step) -> Range | None:
    """Return what all suggestions save together, in ns per step; None if none saves anything.

    What likely saves nothing is best left: it is no suggestion. Sizes are changed together and predicted anew, since
    two changes may save the same time; savings that are not about sizes are added.
    """
    from tcprobe.rules.model.sizes import LinkedChange
    from tcprobe.rules.model.step import total_range

    saving = [f for f in findings if f.saving_ns is not None and f.saving_ns.mid > 0]
    if not saving:
        return None
    changes: list[LinkedChange] = []
    parts = []
    for f in saving:
        if f.layer and f.dimension and f.size is not None and f.suggested is not None:
            changes += step.link(LinkedChange(f.layer, f.dimension, f.size, f.suggested)).changes
        elif f.saving_ns is not None:
            parts.append(f.saving_ns)
    together = step.saving(step.links.settled(tuple(dict.fromkeys(changes)))) if changes else None
    return total_range([*parts, *([together] if together is not None else [])])


def _compiled(model: Model, xla: bool | None) -> Model:
    """Return the model with every product compiled by XLA, or none, if the user said which."""
    if xla is None:
        return model
    return replace(model, xla=xla, products=tuple(replace(p, compiled=xla) for p in model.products))


def silenced(
    found: Iterable[tuple[Finding, ...]], sources: Mapping[str, Source], unseen: list[Unseen]
) -> tuple[frozenset[Finding], tuple[Unused, ...]]:
    """Return the findings that comments silence, and the comments that silence nothing.

    Comments are judged by everything the rules found, before an option leaves anything out.
    """
    from tcprobe.audit.suppress import judge

    judged = judge(dict.fromkeys(f for findings in found for f in findings), sources, unseen)
    unused = ((replace(p, in_cell=sources[p.file].in_cell(p.line)), text) for p, text in judged.unused)
    return frozenset(judged.suppressed), tuple(unused)


def told_once(audited: Sequence[Audited]) -> list[Audited]:
    """Return audits in which each finding about code that several files or steps use stands once.

    That is where it matters most. Of equal severity, one of known cost stands before one of unknown cost. Where nobody
    knows what it costs, it stands with the file of its own place.
    """
    found: dict[tuple[object, ...], list[tuple[Audited, Finding]]] = {}
    for one in audited:
        for finding in one.findings:
            found.setdefault(_about(finding), []).append((one, finding))
    dropped: dict[int, set[Finding]] = {}
    for rivals in found.values():
        if len({id(one) for one, _ in rivals}) > 1:
            best = max(rivals, key=_weight)
            for one, finding in rivals:
                if one is not best[0]:
                    dropped.setdefault(id(one), set()).add(finding)
    return [
        replace(one, findings=tuple(f for f in one.findings if f not in dropped[id(one)]))
        if id(one) in dropped
        else one
        for one in audited
    ]


def _about(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.place, finding.layer_class, finding.dimension, finding.size


def _weight(rival: tuple[Audited, Finding]) -> tuple[int, bool, bool, float, bool]:
    one, finding = rival
    saved = finding.saving_ns
    severity = -SEVERITIES.index(finding.severity or "note")
    known = not any(part.kind in COST_UNKNOWN for part in parts(finding.why))
    own = finding.place is not None and finding.place.file == one.file
    return severity, known, saved is not None, saved.mid if saved is not None else 0.0, own
