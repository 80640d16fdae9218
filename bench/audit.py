"""Time `tcprobe audit-shapes` against its peers in one run: source mode and flake8, traced mode and TensorFlow.

Usage: python bench/audit.py [--files 200] [--runs 5]

Source mode reads the same files as flake8 (Keras' own sources, which use its layers most). Whole processes are timed,
with start-up; flake8 runs with its default settings (one process per core) and with one job. Traced mode of a small
model is shown beside importing TensorFlow and Keras alone. Runs are interleaved; the best of each counts.
Exits 1 if source mode is slower than flake8 with its default settings.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import keras

model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(4090, activation="relu"), keras.layers.Dense(10)])
"""
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": ""}


def seconds(command: list[str], cwd: Path) -> float:
    """Return the wall time of one run; SystemExit if the command failed."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=QUIET, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:5])} failed: {done.stderr[-500:]}")
    return time.perf_counter() - start


def best(commands: dict[str, list[str]], runs: int, cwd: Path) -> dict[str, float]:
    """Return the best times of `runs` rounds; a first round, which warms caches and bytecode, does not count."""
    rounds = [{name: seconds(command, cwd) for name, command in commands.items()} for _ in range(runs + 1)]
    return {name: min(times[name] for times in rounds[1:]) for name in commands}


def sources(folder: Path, count: int) -> list[str]:
    """Copy `count` of Keras' source files into `folder`, those that name layers first; return their names."""
    spec = importlib.util.find_spec("keras")
    if spec is None or spec.origin is None:
        raise SystemExit("keras is not installed: its sources are what is read")
    files = [p for p in Path(spec.origin).parent.rglob("*.py") if p.stat().st_size > 500]
    texts = {p: p.read_text(encoding="utf-8", errors="replace").count("layers.") for p in files}
    chosen = sorted(files, key=lambda p: (-texts[p], str(p)))[:count]
    for number, path in enumerate(chosen):
        shutil.copyfile(path, folder / f"m{number:03d}_{path.name}")
    return sorted(p.name for p in folder.glob("*.py"))


def show(title: str, times: dict[str, float], reference: str) -> None:
    """Print each time and its ratio to the reference."""
    print(title)
    for name, time_s in times.items():
        print(f"  {name:44} {time_s:6.2f} s   {time_s / times[reference]:5.2f} x")


def main() -> int:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200, help="files to read in source mode")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the best counts")
    options = parser.parse_args()
    audit = [sys.executable, "-m", "tcprobe", "audit-shapes"]
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as scratch:
        folder = Path(scratch)
        names = sources(folder, options.files)
        lines = sum((folder / n).read_bytes().count(b"\n") for n in names)
        flake8 = "flake8"
        files = {
            flake8: [sys.executable, "-m", "flake8", *names],
            "flake8 --jobs 1": [sys.executable, "-m", "flake8", "--jobs", "1", *names],
            "tcprobe audit-shapes --mode source": [*audit, "--mode", "source", *names],
        }
        times = best(files, options.runs, folder)
        show(f"{len(names)} files, {lines:,} lines", times, flake8)
        one = {
            "flake8, one file": [*files[flake8][:3], names[0]],
            "tcprobe, one file": [*audit, "--mode", "source", names[0]],
        }
        show("one file", best(one, options.runs, folder), "flake8, one file")
        (folder / "small.py").write_text(MODEL)
        imports = "import TensorFlow and Keras"
        traced = {
            imports: [sys.executable, "-c", "import tensorflow, keras; keras.Sequential"],
            "tcprobe audit-shapes --mode traced": [*audit, "--mode", "traced", "small.py"],
        }
        show("traced mode of a small model", best(traced, options.runs, folder), imports)
    return int(times["tcprobe audit-shapes --mode source"] > times[flake8])


if __name__ == "__main__":
    sys.exit(main())
