"""`audit-shapes --diff` and `--fix`: show or make the edits of all findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from tcprobe.flows.audit.files import named_path
from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.flows.write import Say
from tcprobe.foreign import is_folder, leads_out, real_path
from tcprobe.schema.finding import Fix


def fixes_of(outcome: AuditOutcome) -> list[Fix]:
    """Return the fixes of all findings without duplicates: findings whose sizes belong together share one."""
    return list(dict.fromkeys(f.fix for f in outcome.report.findings() if f.fix is not None))


def diff_of(outcome: AuditOutcome) -> str:
    """Return what `fixed` would change, as a unified diff; empty if nothing."""
    from tcprobe.audit.fix.write import diff

    return diff(fixes_of(outcome), outcome.sources)


def fixed(options: AuditOptions, say: Say) -> AuditOutcome:
    """Audit, make all fixes, say which, audit again, and return what is left.

    All files are written or none: a signal waits until they are, and is told which.

    Raises:
        InputError: a file has changed since it was read; nothing was written.
        OutputError: the system refused to write; nothing was written.
        TcprobeError: as in `audit`.
    """
    from tcprobe.audit.fix.write import write
    from tcprobe.capture.signals import held

    outcome = audit(options, say)
    fixes = _fixable(outcome, say, _beyond(options))
    with held():
        files = write(fixes, outcome.sources)
        _tell(outcome, fixes, say)
        for file in files:
            say(f"wrote {file}")
    return audit(options, lambda _: None) if fixes else outcome


def fixed_input(options: AuditOptions, say: Say) -> tuple[AuditOutcome, bytes]:
    """Do the same with what standard input held; return what is left and the new text, encoded as it was.

    Raises:
        TcprobeError: as in `audit`.
    """
    from tcprobe.audit.fix.write import by_file, edited_bytes

    outcome, content = audit(options, say), options.stdin or b""
    fixes = fixes_of(outcome)
    _tell(outcome, fixes, say)
    if not fixes:
        return outcome, content
    (file,) = outcome.read
    content = edited_bytes(content, file, by_file(fixes)[file], outcome.sources[file])
    return audit(replace(options, stdin=content), lambda _: None), content


def _beyond(options: AuditOptions) -> Callable[[str], bool]:
    """Return what says whether a file lies outside of what the user named.

    What a named file imports belongs to it, unless a link led to it.
    """
    named = [real_path(named_path(name)) for name in options.files]
    homes = [path if is_folder(path) else path.parent for path in named]
    only_files = not any(map(is_folder, named))

    def beyond(file: str) -> bool:
        if only_files and not Path(file).is_symlink():
            return False
        return all(leads_out(file, home) for home in homes)

    return beyond


def _fixable(outcome: AuditOutcome, say: Say, beyond: Callable[[str], bool]) -> list[Fix]:
    """Return the fixes of all files that are not `beyond` and have no other name, and say which files are left."""
    every = fixes_of(outcome)
    left: set[str] = set()
    for file in sorted({edit.place.file for fix in every for edit in fix.edits}):
        if beyond(file):
            say(f"{file}: lies outside of what was named: left as it is; name it to change it")
            left.add(file)
        elif (names := _names(file)) > 1:
            say(f"{file}: has {names} names (hard links), which a change would part: left as it is; --diff shows it")
            left.add(file)
    return [fix for fix in every if left.isdisjoint(edit.place.file for edit in fix.edits)]


def _names(file: str) -> int:
    """Return how many names a file has; 0 where it is gone, which is told when it is read."""
    try:
        return Path(file).stat().st_nlink
    except OSError:
        return 0


def _tell(outcome: AuditOutcome, fixes: list[Fix], say: Say) -> None:
    """Say what the fixes do that were made, or that there are none."""
    from tcprobe.report.audit import words

    for fix in fixes:
        say(f"fixed: {words.fixing(fix)}")
    if not fixes:
        say("nothing to fix")
    say_unfixable(outcome, say)


def say_unfixable(outcome: AuditOutcome, say: Say) -> None:
    """Say that notebooks are left as they are, where one has findings."""
    files = {finding.place.file for finding in outcome.report.findings() if finding.place and finding.place.in_cell}
    if files:
        say(f"notebooks are never changed: {', '.join(sorted(Path(file).name for file in files))}")
