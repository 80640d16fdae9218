"""Profile the packaged workload and small scripts under other TensorFlow versions, and print what each run recorded.

Usage: python bench/interpreters.py PYTHON [PYTHON ...]

Each PYTHON is an interpreter with TensorFlow (2.4.4 on Python 3.8: `pip install tensorflow-cpu==2.4.4
"protobuf<3.21" "numpy<1.24"`). Prints one row per run: version, exit code, seconds, steps found, basis of the step,
profiled window, GEMM-like ops traced and executed, hooks that the version lacks. Exits 1 if a run failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS: dict[str, list[str]] = {
    "good": ["train_gan"],
    "bad sizes": ["train_gan", "--sizes", "bad"],
    "float32": ["--precision", "float32", "train_gan", "--steps", "12", "--batch-size", "8"],
    "mixed_float16": ["--precision", "mixed_float16", "train_gan"],
    "xla": ["--xla", "train_gan", "--steps", "12", "--batch-size", "8"],
}
COLUMNS = ("tensorflow", "run", "exit", "seconds", "steps", "step basis", "window", "ops", "execute", "gaps")


def profile(python: str, args: list[str], folder: Path) -> tuple[int, float]:
    """Run one profile into `folder`; return its exit code and seconds."""
    command = [sys.executable, "-m", "tcprobe", "profile", "--python", python, "--output", str(folder), *args]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
    return done.returncode, time.monotonic() - start


def describe(folder: Path) -> tuple[str, ...]:
    """Return the facts of a run folder: TensorFlow, steps, basis, window, ops, executed ops, gaps."""
    run = json.loads((folder / "run.json").read_text())
    probe = json.loads((folder / "probe" / "probe.json").read_text())
    graph = json.loads((folder / "probe" / "graph.json").read_text())
    training = [f for f in graph["functions"] if f["training"]]
    ops = [op for function in training for op in function["ops"]]
    window = probe["window"] or {}
    steps = probe["steps"]
    return (
        str(run["tensorflow"]), str(steps["count"]), str(steps["basis"]),
        f"{window.get('first_step')}-{window.get('last_step')}", str(len(ops)),
        str(sum(op["executes"] == "yes" for op in ops)), ", ".join(g["hook"] for g in probe["gaps"]) or "-",
    )  # fmt: skip


def main() -> int:
    """Run every workload under every interpreter."""
    failed = 0
    print(" | ".join(COLUMNS))
    with tempfile.TemporaryDirectory() as scratch:
        for number, python in enumerate(sys.argv[1:]):
            for name, args in RUNS.items():
                folder = Path(scratch) / f"{number}-{name.replace(' ', '-')}"
                code, seconds = profile(python, args, folder)
                failed += code != 0
                version, *rest = describe(folder) if (folder / "run.json").exists() else (python, *["?"] * 6)
                print(" | ".join((version, name, str(code), f"{seconds:.0f}", *rest)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
