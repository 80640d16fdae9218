"""Scripts in the styles people write: what they mark as badly sized is found, and nothing else is.

A line's comment ``# expect: TC101 units 4090 -> 4096`` names the warnings and errors of that line; a line without one
has none. ``-> 2056 (traced 2048)``: traced mode, which knows the batch, suggests another size.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.support import ROOT

STYLES = ROOT / "tests" / "styles"
SCRIPTS = sorted(p.name for p in STYLES.glob("*.py"))
RUN = {"alternating_gan.py", "subclassed.py"}
EXPECTED = re.compile(r"# expect: (.*)$")
OF_MODES = re.compile(r"(\d+) \(traced (\d+)\)")


def marked(path: Path, traced: bool = False) -> set[tuple[int, str]]:
    """Return (line, what is expected there) of one mode."""
    found = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := EXPECTED.search(line):
            wanted = OF_MODES.sub(r"\2" if traced else r"\1", match[1])
            found |= {(number, text.strip()) for text in wanted.split(",")}
    return found


def described(finding: dict[str, Any]) -> tuple[int, str]:
    sizes = f" {finding['dimension']} {finding['size']} -> {finding['suggested']}"
    line = finding["place"]["line"] if finding["place"] else 0
    return line, finding["code"] + (sizes if finding["code"] in ("TC101", "TC105") else "")


def audit(*arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of one audit, by the name of their file; fails where there was none."""
    command = [sys.executable, "-m", "tcprobe", "audit-shapes", "--format", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=STYLES, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for audited in json.loads(done.stdout)["audited"]:
        found.setdefault(Path(audited["file"]).name, []).extend(audited["findings"])
    return found


@cache
def read() -> dict[str, list[dict[str, Any]]]:
    """Return what source mode finds in all of them."""
    return audit("--mode", "source", *SCRIPTS)


def serious(findings: list[dict[str, Any]]) -> set[tuple[int, str]]:
    return {described(f) for f in findings if f["severity"] in ("error", "warning")}


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", SCRIPTS)
def test_traced_mode_finds_what_is_marked_and_nothing_else(name: str) -> None:
    pytest.importorskip("tensorflow")
    arguments = ("--run", name) if name in RUN else ("--mode", "traced", name)
    (findings,) = audit("--python", warm.python(), *arguments).values()
    assert serious(findings) == marked(STYLES / name, traced=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_source_mode_raises_no_false_alarm(name: str) -> None:
    assert serious(read()[name]) <= marked(STYLES / name)


def test_source_mode_finds_all_that_is_marked_but_in_two_scripts() -> None:
    missed = {name: marked(STYLES / name) - serious(read()[name]) for name in SCRIPTS}
    assert {name for name in SCRIPTS if missed[name]} <= {"transformer.py", "tuner.py"}
    assert sum(len(marked(STYLES / name)) for name in SCRIPTS) == 20
    assert sum(map(len, missed.values())) <= 3
