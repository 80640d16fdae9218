"""Text from files: what would steer a terminal is seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.visible import visible


def test_a_name_cannot_steer_the_terminal() -> None:
    assert visible("a\x1b[31mb\nc\u202ed\u2028e\u200bf") == "a\\x1b[31mb\\nc\\u202ed\\u2028e\\u200bf"
    assert visible("für µs") == "für µs"


@given(st.text())
def test_what_is_shown_stays_on_one_line(text: str) -> None:
    assert len(visible(text).splitlines()) <= 1
