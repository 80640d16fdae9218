"""The door: what would steer a terminal or hide is seen, and everything printed passes it."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.visible import MOST_MARKS, MOST_SHOWN, columns, hand_over, inert, put, say, shown, tell, visible

ANY = st.text(st.characters(), max_size=40)  # lone surrogates too


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_name_cannot_steer_the_terminal() -> None:
    assert visible("a\x1b[31mb\nc\u202ed\u2028e\u200bf") == "a\\x1b[31mb\\nc\\u202ed\\u2028e\\u200bf"
    assert visible("f\u00fcr \u00b5s \u5c42 \u00a0\U0001f600") == "f\u00fcr \u00b5s \u5c42 \u00a0\U0001f600"


@pytest.mark.parametrize(
    "hidden",
    [
        *("\x00", "\t", "\x7f", "\x9b", "\u00ad", "\u034f", "\u115f", "\u1160", "\u17b4", "\u180b", "\u2060", "\u3164"),
        *(
            "\ue000",
            "\udc80",
            "\ufe0f",
            "\ufeff",
            "\uffa0",
            "\ufff9",
            "\uffff",
            "\U000e0041",
            "\U000e0100",
            "\U0010fffd",
        ),
    ],
    ids=ascii,
)
def test_what_is_not_seen_is_shown(hidden: str) -> None:
    assert visible(f"a{hidden}b") == f"a{hidden.encode('unicode_escape').decode()}b"


def test_marks_stand_on_a_letter_and_do_not_flood() -> None:
    assert visible("\u0301a") == "\\u0301a"  # it would stand on what is before the name
    assert visible("\x1b\u0301") == "\\x1b\\u0301"
    assert visible("e\u0301" + "u\u0302\u0323") == "e\u0301u\u0302\u0323"
    assert visible("a" + "\u0301" * 9) == "a" + "\u0301" * MOST_MARKS + "\\u0301" * (9 - MOST_MARKS)


@given(ANY)
def test_what_is_shown_stays_on_one_line_and_can_be_shown_again(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    shown.encode()


def test_columns_of_a_terminal() -> None:
    assert [columns(text) for text in ("ab", "\u5c42\uff21", "e\u0301", "\U0001f600", "")] == [2, 4, 1, 2, 0]


def test_each_line_is_one_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a\nb", "c\x1b")
    say("\udcff", "\r\x1b[K")
    put("x\ny", "\t")
    out, err = capsys.readouterr()
    assert err == "a\\nb\nc\\x1b\n\r\x1b[Ktcprobe: \\udcff\n"
    assert out == "x\\ny\n\\t\n"


def test_data_is_as_it_is_but_on_a_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"+\tx = '\x1b\xff'\r\n+y\n"
    hand_over(data)
    assert capfdbinary.readouterr().out == data
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    hand_over(data)
    hand_over(b"")
    assert terminal.getvalue() == "+       x = '\\x1b\\xff'\\r\n+y\n"


def test_a_long_text_is_cut_in_its_middle_and_says_how_long_it_is() -> None:
    assert shown("a" * MOST_SHOWN) == "a" * MOST_SHOWN
    cut = shown("a" + "\x1b" * 5_000_000 + "z")
    assert "\\x1b... (5,000,002 characters) ...\\x1b" in cut
    assert (cut[0], cut[-1], len(cut) < MOST_SHOWN) == ("a", "z", True)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("::error file=a::x", "\\x3a:error file=a::x"),
        ("a\n\u00a0 ::add-mask::x", "a\n\u00a0 \\x3a:add-mask::x"),
        (":::error::", "\\x3a::error::"),
        ("a ##[error]x ##vso[task.complete] ###[x]", "a \\x23#[error]x \\x23#vso[task.complete] #\\x23#[x]"),
        ("at::native::f a[1] # x ## [2] #[3]", "at::native::f a[1] # x ## [2] #[3]"),
    ],
)
def test_no_line_commands_a_machine_of_continuous_integration(text: str, made: str) -> None:
    assert inert(text) == made == inert(made)


def test_what_is_printed_commands_no_machine(capsys: pytest.CaptureFixture[str]) -> None:
    tell("::error::a", "b ##[error]c")
    put("::error::a")
    assert capsys.readouterr() == ("\\x3a:error::a\n", "\\x3a:error::a\nb \\x23#[error]c\n")
