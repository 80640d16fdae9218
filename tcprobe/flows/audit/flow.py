"""`audit-shapes` as a function: files to models, models to findings, findings to a report.

What is heavy, or not needed in source mode, is imported where it is used: starting is most of what an audit of one
file takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcprobe.errors import UsageError
from tcprobe.flows.audit.files import AuditFile, Targets, find_targets, repository
from tcprobe.flows.audit.models import Auditor
from tcprobe.flows.audit.options import AuditOptions, Choice, choose
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.finding import Audited, AuditReport

if TYPE_CHECKING:
    from tcprobe.source.source import Source

Say = Callable[[str], None]
MANY_FILES: Final = 32
"""From so many on, more processes save more than they cost to start."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an audit found.

    Attributes:
        report: for a document.
        sources: the parsed files that fixes edit, by absolute path.
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
    auditor = Auditor(options, choice, gpu, traced)
    failed = _add(auditor, options, choice, gpu, targets.files, traced)
    root = repository(targets.files[0].path) or Path.cwd()
    return Outcome(auditor.report(str(root), tuple(failed)), auditor.sources, choice)


def _add(
    auditor: Auditor, options: AuditOptions, choice: Choice, gpu: Gpu, files: Sequence[AuditFile], traced: bool
) -> list[tuple[str, str]]:
    """Audit the files; return those that cannot be audited, with the reason. An only file that cannot raises it."""
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
    if options.run and several:
        raise UsageError("--run takes one script", "arguments of the script stand after --")
    wanted = choice.mode == "traced" or options.run
    if several and not wanted:
        say(f"{len(targets.files)} files: shapes are read from the source; --mode traced runs them")
        return False
    from tcprobe.audit.trace.traced import available

    missing = available(choice.python)
    if missing is None:
        return True
    if wanted or options.python or options.args or any(t.factory for t in targets.files):
        from tcprobe.errors import ToolError

        raise ToolError(f"tracing needs TensorFlow: {missing}", "--python names another interpreter")
    say(f"shapes are read from the source alone: {missing}")
    return False
