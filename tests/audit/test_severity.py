"""Severity from the predicted saving, worked by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.audit.severity import grade, grade_all, severity_of
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

FINDING = Finding("TC101", say("not_a_multiple"), Place("/m.py", 1))


class Step:
    """A step of 1 ms, or one whose time is unknown."""

    def __init__(self, ns: float | None = 1e6, is_mostly_known: bool = True) -> None:
        self.ns = ns
        self.is_mostly_known = is_mostly_known

    def share_pct(self, saved: Range) -> Range | None:
        return saved.scaled(100 / self.ns) if self.ns else None


@pytest.mark.parametrize(
    ("pct", "severity"),
    [(0.0, "note"), (0.99, "note"), (1.0, "warning"), (4.99, "warning"), (5.0, "error"), (60.0, "error")],
)
def test_the_likely_share_decides(pct: float, severity: str) -> None:
    assert severity_of(Range(0.0, pct, pct)) == severity


def test_a_saving_that_may_be_large_enough_is_a_warning_and_never_an_error() -> None:
    assert severity_of(Range(0.0, 0.3, 3.8)) == "warning"
    assert severity_of(Range(0.0, 0.3, 60.0)) == "warning"
    assert severity_of(Range(-1.0, 0.0, 3.8)) == "note"


def test_an_end_that_is_a_judgement_decides_nothing() -> None:
    """As of a grouped convolution, whose worst time is four times an ungrouped one's."""
    assert severity_of(Range(0.0, 0.3, 60.0), "judged") == "note"
    assert severity_of(Range(0.0, 1.3, 60.0), "judged") == "warning"
    assert severity_of(Range(0.0, 0.3, 60.0), "between") == "warning"
    guessed = replace(FINDING, saving_ns=Range(0, 6_000, 90_000), evidence="judged")
    assert grade(guessed, Step()).severity == "note"
    assert [f.severity for f in grade_all([guessed, replace(guessed, layer="b")], Step())] == ["warning"] * 2


def test_the_share_follows_from_the_saving() -> None:
    decided = grade(replace(FINDING, saving_ns=Range(10_000, 20_000, 30_000)), Step())
    assert decided.saving_pct == Range(1.0, 2.0, 3.0)
    assert decided.severity == "warning"


def test_without_a_saving_or_a_step_it_is_a_note_and_no_share_is_made_up() -> None:
    for finding, step in ((FINDING, Step()), (replace(FINDING, saving_ns=Range(1e6, 1e6, 1e6)), Step(None))):
        decided = grade(finding, step)
        assert (decided.severity, decided.saving_pct) == ("note", None)


def test_a_share_of_what_little_is_known_is_no_error() -> None:
    costly, mild = (replace(FINDING, place=None, saving_ns=Range(ns, ns, ns)) for ns in (5e5, 2e4))
    for finding, severity in ((costly, "warning"), (mild, "warning"), (FINDING, "note")):
        assert grade(finding, Step(is_mostly_known=False)).severity == severity
    parts = [replace(FINDING, layer=f"head_{n}", saving_ns=Range(0, 3e4, 3e4)) for n in range(3)]
    assert [f.severity for f in grade_all(parts, Step())] == ["error"] * 3
    assert [f.severity for f in grade_all(parts, Step(is_mostly_known=False))] == ["warning"] * 3


def test_a_severity_of_the_rule_stays() -> None:
    assert grade(replace(FINDING, severity="error"), Step()).severity == "error"
    costly = replace(FINDING, severity="note", saving_ns=Range(1e6, 1e6, 1e6))
    assert grade(costly, Step()).severity == "note"


def test_layers_of_one_line_are_judged_by_what_they_save_together() -> None:
    heads = [replace(FINDING, layer=f"head_{n}", saving_ns=Range(1_000, 6_000, 9_000)) for n in range(10)]
    alone = replace(FINDING, place=Place("/m.py", 9), saving_ns=Range(1_000, 6_000, 9_000))
    own = replace(heads[0], layer="own", severity="note")
    decided = grade_all([*heads, alone, own], Step())
    assert [f.severity for f in decided] == ["error"] * 10 + ["note", "note"]
    assert decided[0].saving_pct == Range(0.1, 0.6, 0.9)
