"""`audit-shapes` as a function: from files to models, to findings, to a report.

Heavy modules, and those that source mode does not need, are imported where they are used: start-up is most of the
time of a one-file audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcprobe.errors import UsageError
from tcprobe.flows.audit.files import AuditFile, AuditFiles, find_targets, repository
from tcprobe.flows.audit.models import Auditor, PartialAudit
from tcprobe.flows.audit.options import AuditOptions, Choice, choose_options
from tcprobe.flows.write.say import Say
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.finding import Audited, AuditReport

if TYPE_CHECKING:
    from tcprobe.source.source import Source

MANY_FILES: Final = 32
"""From this many files on, more processes save more time than they cost to start."""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The result of an audit.

    Attributes:
        report: what a document shows.
        sources: the parsed files that fixes edit, by absolute path.
        choice: the options in effect.
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


def audit(options: AuditOptions, say: Say) -> AuditOutcome:
    """Audit files.

    Args:
        options: what the user asked for.
        say: called with one sentence if something is done that the user may not expect.

    Raises:
        TcprobeError: an option cannot be used, or the only file cannot be audited; with several files, those that
            cannot be audited are in the report instead.
    """
    from tcprobe.audit.settings import find_settings
    from tcprobe.rules.registry import RULES

    targets = find_targets(options.files)
    choice = choose_options(options, find_settings(targets.files[0].path), [rule.DOC.code for rule in RULES])
    gpu = find_gpu(choice.target_gpu)
    traced = _is_traced(options, choice, targets, say)
    auditor = Auditor(options, choice, gpu, traced)
    failed = _add(auditor, options, choice, gpu, targets.files, traced)
    if not traced:
        _check_names(options, auditor.part())
    root = repository(targets.files[0].path) or Path.cwd()
    return AuditOutcome(auditor.report(str(root), tuple(failed)), auditor.sources, choice)


def _add(
    auditor: Auditor, options: AuditOptions, choice: Choice, gpu: Gpu, files: Sequence[AuditFile], traced: bool
) -> list[tuple[str, str]]:
    """Audit the files; return those that cannot be audited, and why. If there is only one, raise instead."""
    if len(files) == 1:
        auditor.add(files[0])
        return []
    from tcprobe.flows.audit.parallel import add_all, audit_in_parallel, cores

    if traced or len(files) < MANY_FILES or cores() == 1:
        return add_all(auditor, files)
    failed = []
    for part, unread in audit_in_parallel(options, choice, gpu, files):
        auditor.take(part)
        failed += unread
    return failed


def _check_names(options: AuditOptions, found: PartialAudit) -> None:
    """Check that some input has each name that the command line gives a shape for.

    Raises:
        UsageError: none has; the hint names those that there are.
    """
    for name in (shape.name for shape in options.input_shapes):
        if name is not None and name not in found.answered:
            known = ", ".join(sorted(found.inputs))
            hint = f"inputs without a shape: {known}" if known else "the code tells the shapes of all that it names"
            raise UsageError(f"--input-shape {name}=...: no input, model or class has this name", hint)


def _share(audited: Audited) -> float:
    """Return what all suggestions save of the step, in percent; 0 if unknown."""
    saved, step = audited.total_saving_ns, audited.step_ns
    return 100 * saved.mid / step.mid if saved is not None and step is not None and step.mid > 0 else 0.0


def _is_traced(options: AuditOptions, choice: Choice, targets: AuditFiles, say: Say) -> bool:
    """Decide whether to trace: yes for one file if TensorFlow is installed, else read the source.

    Raises:
        UsageError: the request needs tracing, but source mode was asked for.
        ToolError: the request needs TensorFlow, which is not installed.
    """
    if choice.mode == "source":
        if options.args or any(t.factory for t in targets.files):
            raise UsageError("a factory is called only in traced mode", "leave --mode source out")
        return False
    several = targets.folder or len(targets.files) > 1
    if options.run and several:
        raise UsageError("--run takes one script", "arguments of the script stand after --")
    wanted = choice.mode == "traced" or options.run
    if several and not wanted:
        say(f"{len(targets.files)} files: shapes are read from the source; --mode traced runs them")
        return False
    from tcprobe.audit.trace.traced import why_untraceable

    missing = why_untraceable(choice.python)
    if missing is None:
        return True
    if wanted or options.python or options.args or any(t.factory for t in targets.files):
        from tcprobe.errors import ToolError

        raise ToolError(f"tracing needs TensorFlow: {missing}", "--python names another interpreter")
    say(f"shapes are read from the source alone: {missing}")
    return False
