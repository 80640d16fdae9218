"""Golden pairs: a realistic file and what the rules on sizes say of it. `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.rules import RULES
from tests.rules.builders import golden

FOLDER = Path(__file__).with_name("golden")
FILES = sorted(FOLDER.glob("tc1*.py"))
SIZES = [rule for rule in RULES if rule.DOC.code.startswith("TC1")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_what_its_pair_holds(path: Path, request: pytest.FixtureRequest) -> None:
    lines, expected = golden(path, SIZES, bool(request.config.getoption("--update-golden", default=False)))
    assert lines == expected


@pytest.mark.parametrize("rule", SIZES, ids=lambda rule: rule.DOC.code)
def test_every_rule_has_a_pair_in_which_it_speaks_and_one_in_which_it_is_silent(rule: object) -> None:
    code = rule.DOC.code  # type: ignore[attr-defined]
    said = [code in path.with_suffix(".txt").read_text(encoding="utf-8") for path in FILES]
    assert any(said)
    assert not all(said)
