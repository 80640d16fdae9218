"""How much a finding matters: by the share of the predicted step that mending it saves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from tcprobe.rules.model.step import Step, added
from tcprobe.schema.finding import ERROR_PCT, WARNING_PCT, Finding, Range, Severity
from tcprobe.schema.kinds import Evidence
from tcprobe.schema.place import Place

_Edit: TypeAlias = tuple[str, Place | None, str | None, int | None, int | None]
"""Rule, place, dimension, size and suggestion: one change of the source mends all findings that agree in these."""


def grade(finding: Finding, step: Step) -> Finding:
    """Return the finding with its severity, and with its share of the step where that follows from its saving.

    A severity that the rule gave stays. Else it is an error where the likely saving is `ERROR_PCT` of the step or
    more, a warning where some saving is likely and may be `WARNING_PCT` or more, a note below that and where no
    saving is known. The upper end counts because what convolutions lose is known as a wide range only; not where
    an end of that range is a judgement. Where most products of the step have no time, it is no error: what they take
    is not in the share.
    """
    pct = finding.saving_pct
    if pct is None and finding.saving_ns is not None:
        pct = step.share_pct(finding.saving_ns)
    return replace(finding, saving_pct=pct, severity=finding.severity or _of(step, pct, finding.evidence))


def grade_all(findings: Iterable[Finding], step: Step) -> list[Finding]:
    """Return the findings, each decided; what one edit mends is judged by what it saves in all layers together.

    A layer made in a loop is one line of the source: its findings agree in rule, place, size and suggestion.
    """
    found = list(findings)
    decided = [grade(finding, step) for finding in found]
    together: dict[_Edit, list[Range]] = {}
    for finding in decided:
        if finding.place is not None and finding.saving_pct is not None:
            together.setdefault(_edit(finding), []).append(finding.saving_pct)
    return [
        after
        if before.severity or _edit(after) not in together
        else replace(after, severity=_of(step, added(together[_edit(after)]), after.evidence))
        for before, after in zip(found, decided, strict=True)
    ]


def _edit(finding: Finding) -> _Edit:
    return finding.code, finding.place, finding.dimension, finding.size, finding.suggested


def _of(step: Step, pct: Range | None, evidence: Evidence | None) -> Severity:
    severity = severity_of(pct, evidence)
    return severity if step.is_mostly_known or severity != "error" else "warning"


def severity_of(saving_pct: Range | None, evidence: Evidence | None = None) -> Severity:
    """Return the severity of a saving in percent of the step; a note where it is unknown.

    Args:
        saving_pct: the saving.
        evidence: what it rests on; where that is a judgement, the likely saving alone decides.
    """
    if saving_pct is None or saving_pct.mid <= 0:
        return "note"
    most = saving_pct.mid if evidence == "judged" else max(saving_pct.mid, saving_pct.high)
    if most < WARNING_PCT:
        return "note"
    return "error" if saving_pct.mid >= ERROR_PCT else "warning"
