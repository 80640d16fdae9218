"""A badly sized GAN mended with real TensorFlow: as by hand, and it trains; the rest is left with its finding."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

BAD = Path(__file__).parent / "fixes" / "gan_bad.py"
BY_HAND = {
    "layers.Conv2D(63, ": "layers.Conv2D(64, ",
    "filters=31": "filters=32",
    "layers.Conv2D(7, ": "layers.Conv2D(8, ",
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


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_bad_gan_is_mended_as_by_hand_and_trains(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    path = tmp_path / "gan.py"
    shutil.copy(BAD, path)
    audit = ("-m", "tcprobe", "audit-shapes", "--python", warm.python(), "--run", path, "--dtype", "float16")
    mended = run(*audit, "--fix", "--", "4090")
    assert path.read_text(encoding="utf-8") == by_hand(), mended.stderr
    again = json.loads(run(*audit, "--format", "json", "--", "4090").stdout)
    left = [f for a in again["audited"] for f in a["findings"] if f["code"] == "TC101" and f["dimension"] != "inputs"]
    # 7 * 7 * 63 becomes the shape of an image, and likely saves less than 1 %
    assert {(f["size"], f["severity"], f["fix"]) for f in left} == {(3087, "note", None), (1, "error", None)}
    assert [x.split()[0] for x in trained(path, "8", "2")] == ["losses", "losses"]


def test_source_mode_mends_the_same_sizes(tmp_path: Path) -> None:
    """Without TensorFlow, where the batch is not known: the sizes that pay, and nothing else."""
    path = tmp_path / "gan.py"
    shutil.copy(BAD, path)
    audit = ("-m", "tcprobe", "audit-shapes", "--mode", "source", "--dtype", "float16", "--batch-size", "4090")
    shown = run(*audit, "--diff", path)
    assert shown.returncode == 1, shown.stderr
    assert path.read_bytes() == BAD.read_bytes()
    assert len([x for x in shown.stdout.splitlines() if x.startswith(("+ ", "- "))]) == 6
    run(*audit, "--fix", path)
    assert path.read_text(encoding="utf-8") == by_hand()
    assert run(*audit, "--diff", path).stdout == ""
