"""Whole reports, compared with files that a person has read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.report.builders import PROFILES, run
from tests.report.builders import rendered as rendered_document
from tests.report.seeds import differing

Compare = Callable[[str, str], None]


def rendered(format_: str, name: str, width: int | None = None) -> str:
    return rendered_document(format_, run(PROFILES[name]()), width)


@pytest.mark.parametrize("name", PROFILES)
def test_text_without_a_terminal(name: str, golden: Compare) -> None:
    golden(f"{name}.txt", rendered("text", name))


@pytest.mark.parametrize("name", PROFILES)
def test_text_on_a_terminal_of_100_columns(name: str, golden: Compare) -> None:
    text = rendered("text", name, 100)
    golden(f"{name}_100.txt", text)
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize("name", PROFILES)
def test_markdown(name: str, golden: Compare) -> None:
    golden(f"{name}.md", rendered("markdown", name))


def test_one_table_only(golden: Compare) -> None:
    golden("gpu_by_layer.txt", rendered_document("text", run(PROFILES["gpu"](), 2, ("layer",))))


def test_answer_advice_figures_and_warnings_fit_one_screen() -> None:
    text = rendered("text", "gpu", 100)
    first = text[: text.index("\nNext ")]
    assert first.count("\n") < 22 and max(map(len, first.splitlines())) <= 80
    for said in ("Tensor Cores: ", "Where the step goes", "What to do first", "How sure"):
        assert said in first


def test_the_same_profile_gives_the_same_bytes_whatever_the_order_of_sets() -> None:
    assert differing("run ") == []


@pytest.mark.parametrize("name", PROFILES)
def test_what_was_not_measured_is_never_zero(name: str) -> None:
    text = rendered("text", name)
    assert "nan" not in text.lower().split()
    assert "None" not in text
    if name == "cpu":
        assert " 0.0 %" not in text
        assert "Tensor Cores: NOT MEASURED" in text
