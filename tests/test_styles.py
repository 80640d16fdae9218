"""Scripts in the styles people write: what they mark as badly sized is found, and nothing else is.

A line's comment ``# expect: TC101 units 4090 -> 4096`` names the warnings and errors of that line; a line without one
has none. A notebook's lines are those of its cells. ``-> 2056 (traced 2048)``: traced mode, which knows the batch,
suggests another size. ``TC101 output_dim 250 -> 256 (source)``: traced mode does not see that this size follows.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.support import ROOT

STYLES = ROOT / "tests" / "styles"
SCRIPTS = sorted(p.name for p in (*STYLES.glob("*.py"), *STYLES.glob("*.ipynb")))
RUN = {  # they train only as a script
    "alternating_gan.py",
    "gradient_accumulation.py",
    "multi_gpu.py",
    "seq2seq.py",
    "subclassed.py",
    "transfer_learning.py",
    "tutorial_gan.py",
    "wgan_gp.py",
}
SOURCE = " (source)"
KNOWN = ("gpt.py", "seq2seq.py", "tutorial_gan.py", "unet.py", "vit.py", "wgan_gp.py")
EXPECTED = re.compile(r"# expect: (.*)$")
OF_MODES = re.compile(r"(\d+) \(traced (\d+)\)")
At = tuple[int, int]
"""Number of the cell, from 1, and line in it; a script is cell 0."""


def lines(path: Path) -> Iterator[tuple[At, str]]:
    """Yield the lines of a script, or of a notebook's cells."""
    text = path.read_text(encoding="utf-8")
    cells = ["", *("".join(c["source"]) for c in json.loads(text)["cells"])] if path.suffix == ".ipynb" else [text]
    for cell, part in enumerate(cells):
        yield from (((cell, number), line) for number, line in enumerate(part.splitlines(), 1))


def marked(path: Path, traced: bool = False) -> set[tuple[At, str]]:
    """Return where what is expected of one mode."""
    found = set()
    for at, line in lines(path):
        if match := EXPECTED.search(line):
            wanted = OF_MODES.sub(r"\2" if traced else r"\1", match[1])
            marks = [text.strip() for text in wanted.split(",")]
            found |= {(at, text.removesuffix(SOURCE)) for text in marks if not (traced and text.endswith(SOURCE))}
    return found


def described(finding: dict[str, Any]) -> tuple[At, str]:
    sizes = f" {finding['dimension']} {finding['size']} -> {finding['suggested']}"
    place = finding["place"] or {"line": 0}
    cell = {"cell": place.get("cell") or 0, "line": place["line"]}
    return (cell["cell"], cell["line"]), finding["code"] + (sizes if finding["code"] in ("TC101", "TC105") else "")


def audit(*arguments: str) -> list[dict[str, Any]]:
    """Return what one audit has judged, a model each; fails where it judged none."""
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--format", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=STYLES, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return list(json.loads(done.stdout)["audited"])


@cache
def traced(name: str) -> list[dict[str, Any]]:
    """Return what traced mode judges in a script."""
    pytest.importorskip("tensorflow")
    return audit("--python", warm.python(), *(("--run",) if name in RUN else ("--mode", "traced")), name)


@cache
def read() -> dict[str, list[dict[str, Any]]]:
    """Return what source mode judges in each of them."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SCRIPTS}
    for audited in audit("--mode", "source", *SCRIPTS):
        found[Path(audited["file"]).name].append(audited)
    return found


def findings(audited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [f for a in audited for f in a["findings"]]


def serious(audited: list[dict[str, Any]]) -> set[tuple[At, str]]:
    return {described(f) for f in findings(audited) if f["severity"] in ("error", "warning")}


SLOW = frozenset(
    ("transfer_learning.py", "wgan_gp.py", "seq2seq.py", "gradient_accumulation.py", "multi_gpu.py", "vit.py",
     "alternating_gan.py", "tutorial_gan.py", "gpt.py", "transformer.py")
)  # fmt: skip
"""Styles whose tracing takes longest; their source is read all the same."""
TRACED = [
    pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in SCRIPTS if name.endswith(".py")
]
"""Those that are run: a notebook never is."""


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", TRACED)
def test_traced_mode_finds_what_is_marked_and_nothing_else(name: str) -> None:
    assert serious(traced(name)) == marked(STYLES / name, traced=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_source_mode_raises_no_false_alarm(name: str) -> None:
    assert serious(read()[name]) <= marked(STYLES / name)


def test_source_mode_finds_nearly_all_that_is_marked() -> None:
    expected = {(name, *mark) for name in SCRIPTS for mark in marked(STYLES / name)}
    missed = {(name, *mark) for name in SCRIPTS for mark in marked(STYLES / name) - serious(read()[name])}
    assert len(expected) == 41
    assert len(missed) <= 0.05 * len(expected), sorted(missed)


@pytest.mark.parametrize("name", KNOWN)
def test_source_mode_times_every_product(name: str) -> None:
    counts = [(a["costed"], a["products"]) for a in read()[name]]
    assert counts
    assert all(costed == products > 0 for costed, products in counts), counts


@pytest.mark.tensorflow
@pytest.mark.long
def test_the_tutorials_gan_is_named_by_the_same_finding_in_both_modes() -> None:
    """Its generator is first called on noise of numpy's; what costs most is the one filter of its last convolution."""

    def costliest(audited: list[dict[str, Any]]) -> tuple[object, ...]:
        (found,) = (f for f in findings(audited) if f["severity"] == "error")
        said = ("code", "kind", "why_kind", "place", "layer_class", "dimension", "size", "suggested", "dtype", "basis")
        return tuple(found[key] for key in said)

    name = "tutorial_gan.py"
    found = costliest(read()[name])
    assert found == costliest(traced(name))
    assert found[4:9] == ("Conv2D", "filters", 1, 8, "float16")
