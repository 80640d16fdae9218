"""A badly sized GAN mended with real TensorFlow: it builds, trains a step, and audits clean."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.read import parse_source, read_source
from tests import warm

BAD = Path(__file__).parent / "fixes" / "gan_bad.py"
STYLES = BAD.parent / "styles_bad.py"
BY_HAND = {
    "layers.Dense(7 * 7 * 63)": "layers.Dense(7 * 7 * 64)",
    "layers.Reshape((7, 7, 63))": "layers.Reshape((7, 7, 64))",
    "layers.Conv2D(63, ": "layers.Conv2D(64, ",
    "filters=31": "filters=32",
    "layers.Conv2D(7, ": "layers.Conv2D(8, ",
    'layers.Conv2D(1, 5, padding="same"),  # the image\n': (
        'layers.Conv2D(8, 5, padding="same"),  # the image\n'
        "            layers.Lambda(lambda images: images[..., :1]),\n"
    ),
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)


def trained(*command: str | Path) -> list[str]:
    """Return the lines that a script prints as it trains."""
    done = subprocess.run([warm.python(), *map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def by_hand() -> str:
    text = BAD.read_text(encoding="utf-8")
    for before, after in BY_HAND.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


def severities(done: subprocess.CompletedProcess[str]) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    report: dict[str, Any] = json.loads(done.stdout)
    for audited in report["audited"]:
        for f in audited["findings"]:
            found.setdefault(f["severity"], []).append((f["dimension"], f["size"]))
    return {severity: sorted(sizes, key=str) for severity, sizes in found.items()}


@pytest.mark.tensorflow
def test_a_bad_gan_is_mended_as_by_hand_trains_and_audits_clean(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    path = tmp_path / "gan.py"
    shutil.copy(BAD, path)
    audit = ("-m", "tcprobe", "audit-shapes", "--python", warm.python(), "--run", path, "--dtype", "float16")
    mended = run(*audit, "--fix", "--", "4090")
    assert path.read_text(encoding="utf-8") == by_hand(), mended.stderr
    again = run(*audit, "--format", "json", "--", "4090")
    assert again.returncode == 0, again.stderr
    assert set(severities(again)) <= {"note"}
    assert [x.split()[0] for x in trained(path, "8", "2")] == ["losses", "losses"]


def test_source_mode_mends_the_same_sizes(tmp_path: Path) -> None:
    """Without TensorFlow, where the batch is not known: the sizes that pay, and nothing else."""
    path = tmp_path / "gan.py"
    shutil.copy(BAD, path)
    audit = ("-m", "tcprobe", "audit-shapes", "--mode", "source", "--dtype", "float16", "--batch-size", "4090")
    shown = run(*audit, "--diff", path)
    assert shown.returncode == 1, shown.stderr
    assert path.read_bytes() == BAD.read_bytes()
    assert len([x for x in shown.stdout.splitlines() if x.startswith(("+ ", "- "))]) == 13
    run(*audit, "--fix", path)
    assert path.read_text(encoding="utf-8") == by_hand()
    assert run(*audit, "--diff", path).stdout == ""


def test_the_file_mended_by_hand_is_the_same_but_for_its_sizes() -> None:
    before, after = read_source(BAD), parse_source(by_hand(), str(BAD))
    assert len(after.calls()) == len(before.calls()) + 1
    numbers = [[n.value for n in ast.walk(s.tree) if isinstance(n, ast.Constant)] for s in (before, after)]
    assert len(numbers[1]) == len(numbers[0]) + 2  # of the slice: Ellipsis and 1


@pytest.mark.long
@pytest.mark.tensorflow
def test_other_styles_are_mended_and_still_train(tmp_path: Path) -> None:
    """Residual branches change together, and a reshape in a subclassed model's own code with its units."""
    pytest.importorskip("tensorflow")
    path = tmp_path / "styles.py"
    shutil.copy(STYLES, path)
    for factory in ("build_residual", "build_subclassed"):
        options = ("--dtype", "float16", "--batch-size", "4096", "--fix", "--python", warm.python())
        done = run("-m", "tcprobe", "audit-shapes", f"{path}:{factory}", *options)
        assert "wrote" in done.stderr, done.stderr
    expected = STYLES.read_text(encoding="utf-8")
    for before, after in (("63", "64"), ("31", "32"), ("47", "48"), ("127", "128")):
        expected = re.sub(rf"\b{before}\b", after, expected)
    assert path.read_text(encoding="utf-8") == expected
    lines = [x for x in trained(path) if x.startswith("sizes")]
    assert lines == ["sizes 10 48 64", "sizes 10 64 128 8192"]
