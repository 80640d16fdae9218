"""Golden pairs of the precision rules: every rule on every file, in source mode. `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.precision.builders import CODES, everything, golden, read, root

FILES = sorted(root().glob("tc2*.py"))
GPUS = {"tc206_bfloat16": "t4"}


def lines(path: Path) -> str:
    """Return what all precision rules say of a file."""
    given = read(path.read_text(encoding="utf-8"), str(path), GPUS.get(path.stem, "a100-sxm-40"))
    return golden(everything(given))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_what_its_pair_holds(path: Path, request: pytest.FixtureRequest) -> None:
    pair = path.with_suffix(".txt")
    if request.config.getoption("--update-golden", default=False):
        pair.write_text(lines(path), encoding="utf-8")
    assert lines(path) == pair.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", CODES)
def test_every_rule_has_a_pair_that_it_finds_something_in(code: str) -> None:
    own = [path for path in FILES if path.stem.startswith(code)]
    assert any(code.upper() in path.with_suffix(".txt").read_text(encoding="utf-8") for path in own)
