"""`audit-shapes --diff` and `--fix`: show or make the edits of all findings."""

from __future__ import annotations

from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.flows.write.say import Say
from tcprobe.schema.finding import Fix


def fixes_of(outcome: AuditOutcome) -> list[Fix]:
    """Return the fixes of all findings without duplicates: findings whose sizes belong together share one."""
    return list(dict.fromkeys(f.fix for f in outcome.report.findings() if f.fix is not None))


def diff_of(outcome: AuditOutcome) -> str:
    """Return what `fixed` would change, as a unified diff; empty if nothing."""
    from tcprobe.audit.fix.source.text import diff

    return diff(fixes_of(outcome), outcome.sources)


def fixed(options: AuditOptions, say: Say) -> AuditOutcome:
    """Audit, make all fixes, say which, audit again, and return what is left.

    Raises:
        InputError: a file has changed since it was read; nothing was written.
        OutputError: the system refused to write.
        TcprobeError: as in `audit`.
    """
    from tcprobe.audit.fix.source.write import write
    from tcprobe.report.audit import words

    outcome = audit(options, say)
    fixes = fixes_of(outcome)
    if not fixes:
        say("nothing to fix")
        return outcome
    files = write(fixes, outcome.sources)
    for fix in fixes:
        say(f"fixed: {words.fixing(fix)}")
    for file in files:
        say(f"wrote {file}")
    return audit(options, lambda _: None)
