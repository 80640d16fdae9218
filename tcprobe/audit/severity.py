"""How much a finding matters: by the share of the predicted step that mending it saves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import replace

from tcprobe.rules.model.step import Step, added
from tcprobe.schema.finding import ERROR_PCT, WARNING_PCT, Finding, Range, Severity
from tcprobe.schema.model import Place

_Edit: TypeAlias = tuple[str, Place | None, str | None, int | None, int | None]
"""Rule, place, dimension, size and suggestion: one change of the source mends all findings that agree in these."""
MUCH_PCT: Final = 5
"""Of a layer's size: so much more is more work for certain; a judgement."""
_SIZES: Final = "TC1"  # how codes of rules on sizes begin
_TEST_FILE: Final = re.compile(r"test_.*|.*_test\.(py|ipynb)|conftest\.py")
_TEST_FOLDERS: Final = frozenset({"test", "tests"})


def grade(finding: Finding, step: Step) -> Finding:
    """Return the finding with its severity, and with its share of the step where that follows from its saving.

    A severity that the rule gave stays. Else the likely saving decides: it is an error from `ERROR_PCT` of the step,
    a warning from `WARNING_PCT`, a note below that and where no saving is known. Where most products of the step have
    no time, there is no share of the step; that of the part that has one makes no error, and is taken for as much of
    the step as has a time. One that may be a loss, for the layer grows by more than `MUCH_PCT` and no timing of such
    products says what it gains, counts one degree less.
    Where the step likely takes
    less than `HOST_NS`, the host takes longer, and nothing shows of what sizes save; a precision that is set wrongly
    stays one.
    """
    pct = finding.saving_pct
    if pct is None and finding.saving_ns is not None:
        pct = step.share_pct(finding.saving_ns)
    return replace(finding, saving_pct=pct, severity=finding.severity or _of(finding, step, pct))


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
    graded = [
        after
        if before.severity or _edit(after) not in together
        else replace(after, severity=_of(after, step, added(together[_edit(after)])))
        for before, after in zip(found, decided, strict=True)
    ]
    return graded if step.is_mostly_known else [replace(finding, saving_pct=None) for finding in graded]


def is_of_tests(file: str, folder: str) -> bool:
    """Return whether a file holds tests, by its name and those of its folders below the one that is audited.

    Not where that is a folder of tests itself: then they are what shall be judged.
    """
    path = Path(file)
    if Path(folder).name in _TEST_FOLDERS:
        return False
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path
    return _TEST_FILE.fullmatch(path.name) is not None or not _TEST_FOLDERS.isdisjoint(inside.parts[:-1])


def _edit(finding: Finding) -> _Edit:
    return finding.code, finding.place, finding.dimension, finding.size, finding.suggested


def _of(finding: Finding, step: Step, pct: Range | None) -> Severity:
    if step.is_short and finding.code.startswith(_SIZES):
        return "note"
    if pct is not None and not step.is_mostly_known:
        pct = pct.scaled(step.timed_share)
    severity = severity_of(pct)
    guessed = pct is not None and pct.low < 0 and finding.evidence in ("between", "judged") and _grows(finding)
    if severity == "warning" and guessed:
        return "note"
    return "warning" if severity == "error" and (guessed or not step.is_mostly_known) else severity


def _grows(finding: Finding) -> bool:
    size, suggested = finding.size, finding.suggested
    return size is not None and suggested is not None and 100 * suggested > (100 + MUCH_PCT) * size


def severity_of(saving_pct: Range | None) -> Severity:
    """Return the severity of a likely saving in percent of the step; a note where it is unknown."""
    if saving_pct is None or saving_pct.mid < WARNING_PCT:
        return "note"
    return "error" if saving_pct.mid >= ERROR_PCT else "warning"
