"""The door: what would steer a terminal or hide is seen, and everything printed passes it."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.visible import MOST_MARKS, columns, hand_over, put, say, tell, visible

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
