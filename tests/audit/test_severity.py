"""Severity from the predicted saving, worked by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.audit.severity import grade, grade_all, is_of_tests, severity_of
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.kinds import Evidence
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say

FINDING = Finding("TC101", say("not_a_multiple"), Place("/m.py", 1))


class Step:
    """A step of 1 ms, or one whose time is unknown."""

    def __init__(self, ns: float | None = 1e6, is_mostly_known: bool = True, is_short: bool = False) -> None:
        self.ns = ns
        self.is_mostly_known = is_mostly_known
        self.timed_share = 1.0 if is_mostly_known else 0.4
        self.is_short = is_short

    def share_pct(self, saved: Range) -> Range | None:
        return saved.scaled(100 / self.ns) if self.ns else None


@pytest.mark.parametrize(
    ("pct", "severity"),
    [(0.0, "note"), (0.99, "note"), (1.0, "warning"), (4.99, "warning"), (5.0, "error"), (60.0, "error")],
)
def test_the_likely_share_decides(pct: float, severity: str) -> None:
    assert severity_of(Range(0.0, pct, pct)) == severity


def test_what_may_be_saved_at_most_decides_nothing() -> None:
    assert severity_of(Range(0.0, 0.9, 60.0)) == "note"
    assert severity_of(Range(-1.0, 0.0, 3.8)) == "note"
    guessed = replace(FINDING, saving_ns=Range(0, 6_000, 90_000))
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
    for finding, severity in ((costly, "warning"), (mild, "note"), (FINDING, "note")):
        assert grade(finding, Step(is_mostly_known=False)).severity == severity  # 2 % of two fifths of it
    parts = [replace(FINDING, layer=f"head_{n}", saving_ns=Range(0, 3e4, 3e4)) for n in range(3)]
    assert [f.severity for f in grade_all(parts, Step())] == ["error"] * 3
    decided = grade_all(parts, Step(is_mostly_known=False))
    assert [(f.severity, f.saving_pct) for f in decided] == [("warning", None)] * 3  # no share of a step


@pytest.mark.parametrize(
    ("low", "evidence", "size", "suggested", "severities"),
    [
        (-1e3, "between", 51, 56, ["note", "warning"]),  # filters of a convolution
        (-1e3, "judged", 25, 32, ["note", "warning"]),  # units of a recurrent layer
        (-1e3, "between", 510, 512, ["warning", "error"]),  # hardly more work
        (1e3, "between", 51, 56, ["warning", "error"]),  # whatever it is, it pays
        (-1e3, "timed", 51, 56, ["warning", "error"]),
    ],
)
def test_what_may_be_a_loss_and_was_never_timed_counts_less_where_the_layer_grows(
    low: float, evidence: Evidence, size: int, suggested: int, severities: list[str]
) -> None:
    sized = replace(FINDING, evidence=evidence, size=size, suggested=suggested)
    found = [replace(sized, saving_ns=Range(low, mid, 9e5)) for mid in (2e4, 2e5)]
    assert [grade(finding, Step()).severity for finding in found] == severities


@pytest.mark.parametrize(
    ("file", "of_tests"),
    [
        ("/project/tests/models.py", True),
        ("/project/pkg/test/deep/models.py", True),
        ("/project/pkg/test_models.py", True),
        ("/project/pkg/models_test.py", True),
        ("/project/conftest.py", True),
        ("/project/pkg/contest.py", False),
        ("/project/testing/latest.py", False),
        ("/elsewhere/tests/project/model.py", True),
    ],
)
def test_files_of_tests(file: str, of_tests: bool) -> None:
    assert is_of_tests(file, "/project") is of_tests


def test_a_folder_of_tests_that_is_named_is_asked_for() -> None:
    assert not is_of_tests("/project/tests/models.py", "/project/tests")
    assert not is_of_tests("/project/tests/deep/test_models.py", "/project/tests")


def test_nothing_that_a_step_saves_shows_where_the_host_takes_longer() -> None:
    costly = replace(FINDING, saving_ns=Range(5e5, 5e5, 5e5))
    assert [f.severity for f in grade_all([costly], Step(is_short=True))] == ["note"]
    hard_coded = replace(costly, code="TC204")  # a mistake whatever the step
    assert [f.severity for f in grade_all([hard_coded], Step(is_short=True))] == ["error"]


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
