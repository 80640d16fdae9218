"""Profile every style of training script under other TensorFlow versions, and hold what tcprobe says against the truth.

Usage: python bench/workload_styles.py PYTHON [PYTHON ...] [--only STYLE[,STYLE]] [--keep FOLDER] [--cold]

Each PYTHON is an interpreter with TensorFlow. The styles are the scripts of `tests/workload_styles`, each with its
truth: steps, phases, FLOPs and products of a step, layers and their lines, notes. Prints one row per style and version,
and beneath it what is wrong, with both values. Each script also runs without the probe: what it prints and its exit
code must be the same. Runs are forks of a process that has imported TensorFlow, where a style allows it; `--cold`
starts an interpreter for each. Exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import warm
from tests.truths.compare import Verdict
from tests.truths.found import Said
from tests.truths.styles import QUIET, SCRIPTS, counted, judge
from tests.truths.truth import only_cold, read_truth

SECONDS = 180
SIGNS = {"right": "ok", "bound": "bound", "unknown": "unknown", "wrong": "WRONG"}


class Ran(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str


def run(command: list[str], cwd: str) -> Ran:
    """Run a command; one that takes too long ends with code 124."""
    environment = {**os.environ, **QUIET}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=SECONDS, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        return Ran(124, str(late.stdout or ""), str(late.stderr or ""))
    return Ran(done.returncode, done.stdout, done.stderr)


def last(ran: Ran) -> str:
    """Return the last line of what a process wrote to standard error."""
    return next(iter(ran.err.strip().splitlines()[-1:]), "")[:150]


def plain(python: str, script: Path, kept: Path) -> Ran:
    """Run a script without the probe, or read how it ran before, if it has not changed."""
    if kept.exists() and kept.stat().st_mtime > script.stat().st_mtime:
        return Ran(*json.loads(kept.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        ran = run([python, str(script)], folder)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(ran), encoding="utf-8")
    return ran


def profiled(python: str, script: Path, folder: Path) -> tuple[Ran, list[Said]]:
    """Profile a script; return how that ended, and the notes of the report."""
    report = folder.with_suffix(".json")
    report.unlink(missing_ok=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = ["--python", python, "--force", "--output", str(folder), "--json", "-o", str(report)]
    ran = run([sys.executable, "-m", "tcprobe", "profile", *options, str(script)], str(folder.parent))
    if not report.exists():
        return ran, []
    notes = json.loads(report.read_text(encoding="utf-8"))["notes"]
    return ran, [Said(note["code"], note["message"], note["level"]) for note in notes]


def check(python: str, script: Path, folder: Path) -> list[Verdict]:
    """Return what is to be said of one style under one interpreter."""
    ran, notes = profiled(python, script, folder)
    own = plain(python, script, folder.parent / "plain" / f"{script.stem}.json")
    same = ran.code == own.code and ran.out.startswith(own.out)
    text = (
        "same" if same else f"exit code {ran.code} for {own.code}, {ran.out[:60]!r} for {own.out[:60]!r}: {last(ran)}"
    )
    verdicts = [Verdict("output", "right" if same else "wrong", text)]
    if not counted(own.out):
        version = json.loads((folder / "run.json").read_text())["tensorflow"] if folder.exists() else ""
        fails = read_truth(script, str(version), "").fails
        return [*verdicts, Verdict("runs", "right" if fails else "wrong", f"not on this version: {last(own)}")]
    return [*verdicts, *judge(script, folder, own.out, notes)]


def show(version: str, script: Path, verdicts: list[Verdict], seconds: float) -> None:
    """Print one row, and a line for each figure that is not right."""
    values = " | ".join(f"{v.text[:24] if v.state == 'right' else SIGNS[v.state]}" for v in verdicts)
    print(f"{version:7} {script.stem:26} {seconds:4.0f} s | {values}", flush=True)
    for verdict in verdicts:
        if verdict.state != "right":
            print(f"        {SIGNS[verdict.state]:7} {verdict.figure}: {verdict.text}", flush=True)


def version_of(python: str) -> str:
    """Return the version of TensorFlow in an interpreter, without importing it."""
    code = (
        "import importlib.metadata as m\n"
        "for n in ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel'):\n"
        "    try: print(m.version(n)); break\n"
        "    except m.PackageNotFoundError: pass\n"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Hold what tcprobe says of every style against the truth.")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreter with TensorFlow")
    parser.add_argument("--only", default="", help="styles, separated by commas; a word that a name contains")
    parser.add_argument("--keep", type=Path, help="folder for the run folders; they are removed without it")
    parser.add_argument("--cold", action="store_true", help="start an interpreter for every run")
    return parser.parse_args()


def main() -> int:
    """Check every style under every interpreter."""
    args = parse()
    words = [word for word in args.only.split(",") if word]
    scripts = [s for s in SCRIPTS if not words or any(w == s.stem or (w in s.stem and w.endswith("_")) for w in words)]
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for python in args.pythons:
            version = version_of(python)
            for script in scripts:
                start = time.monotonic()
                folder = (args.keep or Path(scratch)) / version / script.stem
                verdicts = check(python if args.cold or only_cold(script) else warm.python(python), script, folder)
                show(version, script, verdicts, time.monotonic() - start)
                totals.update(v.state for v in verdicts)
    warm.stop()
    print(", ".join(f"{totals[state]} {state}" for state in SIGNS))
    return 1 if totals["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
