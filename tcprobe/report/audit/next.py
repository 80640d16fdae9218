"""Suggest what to type after an audit: the next useful command, in one line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from tcprobe.hardware import lookup_gpu
from tcprobe.masking import mask_words
from tcprobe.report.audit import unjudged
from tcprobe.schema.finding import AuditReport, Finding
from tcprobe.schema.finding_kinds import COST_UNKNOWN

VERB: Final = ("tcprobe", "audit-shapes")
ALONE: Final = ("--fix", "--format", "--output", "-o")
"""Options that rule out ``--diff``, or that show that nobody is watching."""

VERBOSE: Final = frozenset({"--verbose", "-v"})
DONE: Final = ("--fix", "--write-baseline")
"""Options not to be typed again."""


def next_step(report: AuditReport, typed: Sequence[str]) -> str | None:
    """Return what to look at next, ending in its command; None if nothing is left to do.

    Args:
        report: the audit.
        typed: arguments after ``tcprobe audit-shapes``; empty if unknown.
    """
    findings = report.findings()
    severe = [f for f in findings if f.severity in ("error", "warning")]
    if any(f.fix for f in findings) and (severe or any(f.fix and f.fix.safe for f in findings)):
        return f"See the fixes: {_with('--diff', typed)}"
    if severe:
        return f"Read more: tcprobe explain {_first(severe).code}"
    if any(_free_in_tf32(f) for f in findings) and _cores(report):
        return f"See what these sizes cost in float16: {_with('--dtype float16', typed)}"
    if VERBOSE.isdisjoint(typed) and (unjudged.unseen(report) or unjudged.not_judged(report)):
        return f"See what was not judged: {_with('--verbose', typed)}"
    return None


def _first(findings: Sequence[Finding]) -> Finding:
    """Return the finding that saves most, else the first error, else the first finding."""
    return max(findings, key=lambda f: (f.saving_ns.mid if f.saving_ns else 0.0, f.severity == "error"))


def _free_in_tf32(finding: Finding) -> bool:
    """Return whether a size may cost more in 16 bits; where its cost is unknown, it would be there too."""
    if finding.why is not None and finding.why.kind in COST_UNKNOWN:
        return False
    return finding.code.startswith("TC1") and finding.dtype in ("float32", "tf32") and finding.code != "TC104"


def _cores(report: AuditReport) -> bool:
    """Return whether the GPU of the prediction has Tensor Cores."""
    gpus = (lookup_gpu(audited.gpu) for audited in report.audited)
    return any(gpu is not None and gpu.tensor_cores for gpu in gpus)


def _with(option: str, typed: Sequence[str]) -> str:
    """Return the command with one more option; the option alone if the command is unknown or has a similar one."""
    name = option.partition(" ")[0]
    given = {word.partition("=")[0] for word in typed}
    if not typed or name in given or (name == "--diff" and given.intersection(ALONE)):
        return f"add {option}"
    again = [word for word in mask_words(typed) if word not in DONE]
    return f"{shlex.join(VERB)} {option} {shlex.join(again)}"
