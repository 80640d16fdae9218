"""The packaged workload, audited as a user would: what is serious, what is a note, and at which line."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests import warm
from tests.support import ROOT

pytestmark = pytest.mark.tensorflow
SCRIPT = ROOT / "workloads" / "train_gan.py"
LINES = SCRIPT.read_text(encoding="utf-8").splitlines()
COSTLY = {("units", 3087), ("filters", 63), ("filters", 31), ("filters", 7), ("filters", 1)}
HARMLESS = {("inputs", 100), ("units", 1), ("channels", 1)}


def audit(*arguments: str, options: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings of ``audit-shapes --run train_gan.py -- ARGUMENTS``."""
    pytest.importorskip("tensorflow")
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", *options, "--format", "json", "--run", str(SCRIPT)]
    command += ["--python", warm.python()]
    done = subprocess.run([*command, "--", *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    (audited,) = json.loads(done.stdout)["audited"]
    return done.returncode, audited["findings"]


def sizes(findings: list[dict[str, Any]], *severities: str) -> set[tuple[str, int]]:
    return {(f["dimension"], f["size"]) for f in findings if f["severity"] in severities}


def test_bad_sizes_are_serious_and_the_rest_are_notes() -> None:
    code, findings = audit("--sizes", "bad")
    assert code == 1
    assert {("filters", 63), ("filters", 31)} <= sizes(findings, "error", "warning") <= COSTLY
    assert COSTLY | HARMLESS | {("batch", 4090)} == sizes(findings, "error", "warning", "note")
    by_size = {(f["dimension"], f["size"]): f for f in findings}
    assert [by_size[k]["suggested"] for k in sorted(COSTLY)] == [None, 8, 32, 64, 3136]  # one filter: not in TF32
    assert "Dense(7 * 7 * sizes.depth)" in LINES[by_size["units", 3087]["place"]["line"] - 1]
    assert "Conv2D(third" in LINES[by_size["filters", 7]["place"]["line"] - 1]


@pytest.mark.long
def test_bad_sizes_cost_more_in_sixteen_bits() -> None:
    code, findings = audit("--sizes", "bad", "--precision", "mixed_float16", options=("--no-xla",))
    assert code == 1
    assert sizes(findings, "error", "warning") <= COSTLY | {("inputs", 100)}
    worst = findings[0]
    assert (worst["dimension"], worst["size"], worst["severity"]) == ("filters", 1, "error")


def test_good_sizes_are_clean_but_for_the_last_convolution() -> None:
    code, findings = audit()
    assert sizes(findings, "error", "warning") <= {("filters", 1)}
    assert code == (1 if sizes(findings, "error", "warning") else 0)
    assert sizes(findings, "error", "warning", "note") == HARMLESS | {("filters", 1)}
