"""Scripts of other styles mended with real TensorFlow: they run, audit clean, and change no more."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT

pytestmark = pytest.mark.tensorflow
STYLES = ROOT / "tests" / "styles"
TRAIN = """
import numpy, runpy
model = runpy.run_path({path!r})["build_transformer"]()
model(numpy.zeros((1, 256), "int32"))
print("units", model.layers[-1].units, "rows", model.layers[1].input_dim)
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


def mended(name: str, folder: Path, *options: str) -> Path:
    """Return a copy with its fixes, which audits clean and stays as it is."""
    pytest.importorskip("tensorflow")
    path = folder / name
    shutil.copy(STYLES / name, path)
    audit = (warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--python", warm.python(), *options, path, "--fix")
    first = run(*audit)
    assert first.returncode == 0, first.stdout + first.stderr
    text = path.read_bytes()
    again = run(*audit)
    assert (again.returncode, path.read_bytes()) == (0, text), again.stdout + again.stderr
    return path


def changed(name: str, path: Path) -> list[str]:
    before, after = (p.read_text(encoding="utf-8").splitlines() for p in (STYLES / name, path))
    return [new.strip() for old, new in zip(before, after, strict=True) if old != new]


@pytest.mark.long
def test_a_transformer(tmp_path: Path) -> None:
    """The vocabulary grows in one constant for tokens and logits; the hidden size is a constructor's argument."""
    path = mended("transformer.py", tmp_path, "--mode", "traced")
    assert changed("transformer.py", path) == ["VOCABULARY = 50304", "x = Block(WIDTH, HEADS, 2736)(x)"]
    trained = run(warm.python(), "-c", TRAIN.format(path=str(path)))
    assert trained.stdout == "units 50304 rows 50304\n", trained.stderr


def test_a_subclassed_model(tmp_path: Path) -> None:
    """The size is the default of a constructor, which nobody gives."""
    path = mended("subclassed.py", tmp_path, "--run")
    assert changed("subclassed.py", path) == ["def __init__(self, width=1024):"]
    trained = run(warm.python(), path)
    assert trained.returncode == 0, trained.stderr
