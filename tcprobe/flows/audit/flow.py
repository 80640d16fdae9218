"""`audit-shapes` as a function: from files to models, to findings, to a report.

Heavy modules, and those that source mode does not need, are imported where they are used: start-up is most of the
time of a one-file audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.errors import ToolError, UsageError
from tcprobe.flows.audit.files import (
    STDIN,
    AuditFile,
    AuditFiles,
    FailedFile,
    find_targets,
    first_named,
    repository,
    standard_input,
)
from tcprobe.flows.audit.models import Auditor, PartialAudit
from tcprobe.flows.audit.options import (
    AuditOptions,
    Baseline,
    Choice,
    choose_options,
    counted,
    read_baseline,
    write_entries,
)
from tcprobe.flows.write import Say
from tcprobe.foreign import is_there
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.progress import advance, begin, shown
from tcprobe.schema.finding import Audited, AuditReport, Baselined, Identity, UnjudgedFile

if TYPE_CHECKING:
    from tcprobe.source.source import Source

MANY_FILES: Final = 32
"""From this many files on, more processes save more time than they cost to start."""


class AuditOutcome(Struct, frozen=True):
    """The result of an audit."""

    report: AuditReport  # what a document shows
    sources: Mapping[str, Source]  # the parsed files that fixes edit, by absolute path
    choice: Choice  # the options in effect
    read: frozenset[str] = frozenset()  # every file that was read, by absolute path

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings at or above the threshold, 2 a file could not be audited or nothing in it judged."""
        if self.report.failed or any(unjudged.fails for unjudged in self.report.unjudged):
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

    first = first_named(options.files, options.stdin_name)
    choice = choose_options(options, find_settings(first), [rule.code for rule in RULES])
    if choice.known is not None:
        choice = replace(choice, known=read_baseline(choice.known.file, choice.write_baseline))
    targets = _targets(choice)
    if not targets.files and not targets.failed:
        say("nothing to audit: everything named is excluded")
    gpu = find_gpu(choice.target_gpu)
    called = bool(choice.args) or any(target.factory for target in targets.files)
    traced = _is_traced(choice, options.python is not None, targets, called, say)
    auditor = Auditor(choice, gpu, traced, None if called else say)
    with shown():
        failed = [*targets.failed, *_add(auditor, choice, gpu, targets, traced)]
    _check_names(choice, auditor.found)
    root = repository(targets.files[0].path if targets.files else first.absolute()) or Path.cwd()
    report, read = auditor.report(str(root), tuple(failed)), frozenset(auditor.found.read)
    report = replace(report, unjudged=tuple(_unjudged(report, targets.files, choice.allow_unjudged)))
    return AuditOutcome(_with_baseline(report, choice, read), auditor.sources, choice, read)


def write_baseline(outcome: AuditOutcome, old: Baseline) -> int:
    """Write all findings of an audit to the baseline that it had, suppressed ones left out; return their places.

    What the baseline holds of other files, and of rules that were left out, stays; of files that are no more it goes.

    Raises:
        OutputError: the system refused to write; then the old baseline is still there.
    """
    from tcprobe.flows.write import write_files

    kept = {e: n for e, n in old.counts.items() if not _looked_for(e, old, outcome.choice, outcome.read)}
    counts = Counter(kept) + counted(old, outcome.report)
    write_files([(old.file, partial(write_entries, counts))], force=True)
    return counts.total()


def _with_baseline(report: AuditReport, choice: Choice, read: frozenset[str]) -> AuditReport:
    """Return the report with the baseline, if there is one, and how many of its findings are found no more."""
    known = choice.known
    if known is None:
        return report
    looked_for = Counter({e: n for e, n in known.counts.items() if _looked_for(e, known, choice, read)})
    gone = looked_for - counted(known, report, known_only=True)
    return replace(report, baseline=Baselined(str(known.file), gone.total()))


def _looked_for(entry: Identity, baseline: Baseline, choice: Choice, read: frozenset[str]) -> bool:
    """Say whether an audit would have found an entry of the baseline that is still there."""
    path = baseline.path_of(entry)
    return choice.wants_rule(entry.code, path) if path in read else not is_there(path)


def _targets(choice: Choice) -> AuditFiles:
    """Return the files to audit.

    Raises:
        UsageError: standard input is to be read with files, or was not given.
        MissingInput, EmptyInput, UnreadableInput: as `find_targets`.
    """
    if STDIN not in choice.files:
        if choice.stdin_name:
            raise UsageError("--stdin-filename names what - reads", "tcprobe audit-shapes --stdin-filename model.py -")
        return find_targets(choice.files, choice.exclusion)
    if len(choice.files) > 1 or choice.stdin is None:
        raise UsageError("- reads standard input and stands alone", "tcprobe audit-shapes - < model.py")
    targets = standard_input(choice.stdin, choice.stdin_name)
    return AuditFiles(()) if choice.exclusion.of_named(targets.files[0].path) else targets


def _unjudged(report: AuditReport, files: Sequence[AuditFile], allowed: bool) -> Iterator[UnjudgedFile]:
    """Yield the files that hold layers of which none could be judged.

    One that the user named fails, unless no reading of it can tell: where files decide that it reads as it runs.
    """
    judged = {a.file: False for a in report.audited if a.not_judged or any(u.place is not None for u in a.unseen)}
    judged |= {audited.file: True for audited in report.audited if audited.judged or audited.findings}
    for file in files:
        if judged.get(str(file.path)) is False:
            own = [a for a in report.audited if a.file == str(file.path)]
            is_open = all(u.read for a in own for u in a.unseen) and not any(a.not_judged for a in own)
            yield UnjudgedFile(str(file.path), file.itself and not allowed and not is_open)


def _add(auditor: Auditor, choice: Choice, gpu: Gpu, targets: AuditFiles, traced: bool) -> list[FailedFile]:
    """Audit the files; return those that cannot be audited, and why. If nothing else was named, raise instead."""
    files = targets.files
    if len(files) == 1 and not targets.failed:
        begin(f"auditing {files[0].path.name}")
        auditor.add(files[0])
        return []
    begin(f"auditing {len(files):,} files", len(files))
    if traced or len(files) < MANY_FILES:
        return auditor.add_all(files)
    from tcprobe.flows.audit.parallel import AT_ONCE, audit_in_parallel, cores

    if cores() == 1:
        return auditor.add_all(files)
    failed = []
    for part, unread in audit_in_parallel(choice, gpu, files):
        auditor.take(part)
        failed += unread
        advance(AT_ONCE)
    return failed


def _refuse_to_run(target: AuditFile, asked: bool) -> None:
    """Raise UsageError if a file that is only ever read is to be run."""
    if asked and target.content is not None:
        raise UsageError("standard input is read, never run", "--mode source, or name a file")
    if asked and target.itself:
        raise UsageError(f"{target.named}: a notebook is read, never run", "--mode source, or name a script")


def _check_names(choice: Choice, found: PartialAudit) -> None:
    """Check that some input has each name that the command line gives a shape for.

    Raises:
        UsageError: none has; the hint names those that there are.
    """
    for name in (shape.name for shape in choice.input_shapes):
        if name is not None and name not in found.answered:
            known = ", ".join(sorted(found.inputs))
            hint = f"inputs without a shape: {known}" if known else "the code tells the shapes of all that it names"
            raise UsageError(f"--input-shape {name}=...: no input, model or class has this name", hint)


def _share(audited: Audited) -> float:
    """Return what all suggestions save of the step, in percent; 0 if unknown, as where most of it has no time."""
    if 2 * audited.costed < audited.products:
        return 0.0
    saved, step = audited.total_saving_ns, audited.step_ns
    return 100 * saved.mid / step.mid if saved is not None and step is not None and step.mid > 0 else 0.0


def _is_traced(choice: Choice, by_python: bool, targets: AuditFiles, called: bool, say: Say) -> bool:
    """Decide whether to trace: yes for one file if TensorFlow is installed, else read the source.

    Args:
        choice: the options in effect.
        by_python: whether the user named an interpreter, which is for tracing alone.
        targets: the files.
        called: whether a factory is to be called, or given arguments.
        say: told where the source is read instead.

    Raises:
        UsageError: the request needs tracing, but source mode was asked for.
        ToolError: the request needs TensorFlow, which is not installed.
    """
    if choice.run and targets.several:
        raise UsageError("--run takes one script", "arguments of the script stand after --")
    if choice.mode == "source":
        if called:
            raise UsageError("a factory is called only in traced mode", "leave --mode source out")
        return False
    wanted = choice.mode == "traced" or choice.run
    for target in targets.files:
        if target.content is not None or target.notebook:
            _refuse_to_run(target, wanted or bool(choice.args) or target.factory is not None)
            if not targets.several:
                return False
    if targets.several and not wanted:
        count = len(targets.files)
        if count:
            say(f"{count} file{'' if count == 1 else 's'}: shapes are read from the source; --mode traced runs them")
        return False
    from tcprobe.audit.trace.traced import why_untraceable

    missing = why_untraceable(choice.python)
    if missing is None:
        return True
    if wanted or by_python or called:
        raise ToolError(f"tracing needs TensorFlow: {missing}", "--python names another interpreter")
    say(f"shapes are read from the source alone: {missing}")
    return False
