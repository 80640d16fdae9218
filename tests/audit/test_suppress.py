"""Comments that silence findings: which they reach, which not, and which are for nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.audit.suppress import Judged, comments_of, judge
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Place, Unseen
from tcprobe.schema.statement import say

PATH = "/m.py"


@dataclass
class Source:
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def at(line: int, end_line: int | None = None, code: str = "TC101") -> Finding:
    return Finding(code, say("not_a_multiple", line=line), Place(PATH, line, 1, end_line, 9 if end_line else None))


def judged(text: str, *findings: Finding, unseen: tuple[Unseen, ...] = ()) -> Judged:
    return judge(findings, {PATH: Source(text)}, unseen)


def silenced(text: str, *findings: Finding) -> list[int]:
    return [f.place.line for f in judged(text, *findings).suppressed if f.place]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: TC101",
        "#noqa:TC101",
        "# NOQA: tc101",
        "# noqa: E501,TC101",
        "# noqa: E501 TC101",
        "# noqa: TC1",
        "# noqa: TC",
        "# noqa",
        "# type: ignore  # noqa: TC101",
        "# noqa: TC101 - the table has 63 columns",
        "# tcprobe: ignore",
        "# tcprobe: ignore[TC101]",
        "# tcprobe:ignore[TC205, TC101]",
    ],
)
def test_what_silences(comment: str) -> None:
    assert silenced(f"x = Dense(63)  {comment}\n", at(1)) == [1]


@pytest.mark.parametrize(
    "comment",
    ["# noqa: TC102", "# noqa: E501", "# tcprobe: ignore[TC2]", "# noqas", "# a noqa", "# flake8: noqa", "# tcprobe"],
)
def test_what_does_not(comment: str) -> None:
    assert silenced(f"x = Dense(63)  {comment}\n", at(1)) == []


def test_text_in_a_string_is_no_comment() -> None:
    assert comments_of('x = "# noqa: TC101"\ny = """\n# tcprobe: ignore\n"""\n', PATH) == []


def test_comments_to_other_tools_are_not_told_from_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcprobe.audit.suppress.tokenize.generate_tokens", None)  # takes a third of the parsing
    assert judged("x = Dense(63)  # noqa: E501\n", at(1)) == Judged((), ())


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_any_line_of_the_call(line: int) -> None:
    lines = ["x = Dense(", "    units=63,", "    name='d',", ")(x)"]
    lines[line - 1] += "  # noqa: TC101"
    assert silenced("\n".join(lines), at(1, 4)) == [1]
    assert silenced("\n".join(lines), at(1)) == [1]


def test_a_finding_at_an_argument_belongs_to_its_call() -> None:
    text = "x = Dense(\n    63,\n    kernel_initializer=Init(),  # noqa: TC101\n)(x)\n"
    assert silenced(text, at(2, 2)) == [2]


def test_one_layer_of_a_list_alone() -> None:
    text = "m = Sequential([\n    Conv2D(31, 3),  # noqa: TC101\n    Dense(63),\n])\n"
    assert silenced(text, at(2, 2), at(3, 3)) == [2]


def test_the_whole_list_behind_its_closing_bracket() -> None:
    text = "m = Sequential([\n    Conv2D(31, 3),\n    Dense(63),\n])  # noqa: TC101\n"
    assert silenced(text, at(2, 2), at(3, 3)) == [2, 3]


def test_the_next_statement_is_not_reached() -> None:
    assert silenced("x = Dense(63)  # noqa: TC101\ny = Dense(63)\n", at(1), at(2)) == [1]


def test_a_head_does_not_speak_for_its_body() -> None:
    text = "with scope():  # noqa: TC101\n    x = Dense(63)\nclass A(Model):  # noqa: TC101\n    d = Dense(63)\n"
    assert silenced(text, at(2), at(4)) == []


def test_a_head_of_several_lines_speaks_to_its_last() -> None:
    assert silenced("with scope(\n    Dense(63)\n):  # noqa: TC101\n    y = Dense(63)\n", at(2), at(4)) == [2]


def test_a_comment_above_is_not_one_on_the_line() -> None:
    assert silenced("# noqa: TC101\nx = Dense(63)\n", at(2)) == []


def test_findings_without_a_place_or_a_parsed_file_stay() -> None:
    nowhere, elsewhere = (
        Finding("TC102", say("too_small")),
        Finding("TC101", say("not_a_multiple"), Place("/other.py", 1)),
    )
    assert judged("x = 1  # noqa\n", nowhere, elsewhere).suppressed == ()


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# noqa: TC101", "# noqa: TC101 silences nothing"),
        ("# tcprobe: ignore", "# tcprobe: ignore silences nothing"),
        ("# tcprobe: ignore[TC205]", "# tcprobe: ignore[TC205] silences nothing"),
        ("# noqa: E501, TC101", "# noqa: E501, TC101 (TC101) silences nothing"),
    ],
)
def test_what_silences_nothing_is_told(comment: str, said: str) -> None:
    ((place, text),) = judged(f"x = 1  {comment}\n").unused
    assert (place.line, place.column, text) == (1, 8, said)


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: E501", "# noqa: T201, TCH001", "# noqa: TC001", "# noqa: TC"])
def test_what_may_be_meant_for_others_never_is(comment: str) -> None:
    assert judged(f"x = 1  {comment}\n").unused == ()


@pytest.mark.parametrize("comment", ["# tcprobe: ignore[TC207]", "# noqa: TC209", "# tcprobe: ignore[TC207, TC209]"])
def test_what_silences_a_retired_rule_may_stay(comment: str) -> None:
    assert judged(f"x = 1  {comment}\n").unused == ()


def test_of_two_codes_the_idle_one_is_told() -> None:
    ((_, text),) = judged("x = Dense(63)  # noqa: TC101, TC205\n", at(1)).unused
    assert text == "# noqa: TC101, TC205 (TC205) silences nothing"


def test_a_comment_on_what_could_not_be_judged_is_not_called_unused() -> None:
    unseen = Unseen("Dense at m.py:1: units", "comes from a function argument", Place(PATH, 1, 5, 1, 13))
    assert judged("x = Dense(n)  # noqa: TC101\n", unseen=(unseen,)).unused == ()


@given(st.text(alphabet=" #:noqatcpreigTC0123456789[],\t", max_size=40))
def test_no_comment_is_too_odd(text: str) -> None:
    made = judged(f"x = Dense(63)  #{text}\n", at(1))
    assert made.suppressed in ((), (at(1),))


@pytest.mark.parametrize("piece", ["# tcprobe: ignore[", "# noqa: TC1 ", "#   ", "TC1 ,", "# noqa:A "])
def test_a_comment_of_any_length_is_read_once(piece: str) -> None:
    found = comments_of(f"x = 1  # noqa: TC101 {piece * 100_000}\n", PATH)
    assert found[0].codes[0] == "TC101"
    assert sum(len(comment.text) for comment in found) < 20_000
