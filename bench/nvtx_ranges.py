"""Run every style of training script with a tool that listens to NVTX, and print what it heard.

Usage: python bench/nvtx_ranges.py PYTHON [PYTHON ...] [--only STYLE[,STYLE]]

The styles are the scripts of `tests/workload_styles`, the tool is `tests/nvtx/tool.c`; it hears what begins and ends.
Prints one row per style and version: steps in steps.csv, ranges of steps and their first and last number, ranges before
the first step, phases in steps, threads, and whether all is as it must be: every range ended in its thread, each step
marked once at most, in order, by a number of steps.csv. Exits 1 where something is not.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import warm
from tests.nvtx import Tool, build, paths
from tests.probe.running import run
from tests.truths.styles import QUIET, SCRIPTS
from tests.truths.truth import only_cold

STEP = re.compile(r"step (\d+)")
EAGER = {"forward", "backward", "optimizer", "input", "validation"}


def check(python: str, script: Path, tool: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Run one style; return the columns of its row, and what is wrong."""
    listening = Tool(tool, folder / "heard")
    settings = {"python": python if only_cold(script) else warm.python(python), "profile": False}
    text = script.read_text(encoding="utf-8")
    done = run(folder, text, cwd=folder, environment={**os.environ, **QUIET, **listening.environment()}, **settings)
    known = [number for number, _ in done.steps]
    if not listening.log.exists():  # training in another process, or none at all
        return [str(len(known)), "0", "-", "0", "-", "0"], ["the tool heard nothing"] if known else []
    wrong: list[str] = []
    heard: list[str] = []
    threads = listening.threads()
    for thread, events in threads.items():
        try:
            heard += paths(events)
        except (AssertionError, IndexError):
            wrong.append(f"thread {thread} leaves a range open, or ends one twice")
    marked = [int(match[1]) for name in heard if (match := STEP.fullmatch(name))]
    if sorted(set(marked)) != marked or set(marked) - set(known):
        wrong.append(f"steps {marked} are marked twice, out of order, or none of {known}")
    first = next((place for place, name in enumerate(heard) if STEP.fullmatch(name)), len(heard))
    inside = sorted({name.split("/")[1] for name in heard if name.startswith("step ") and "/" in name})
    eager = [name for name in inside if name in EAGER]
    span = f"{marked[0]}-{marked[-1]}" if marked else "-"
    phases = ", ".join(eager) or f"{len(inside)} of calls"
    return [str(len(known)), str(len(marked)), span, str(first), phases, str(len(threads))], wrong


def main() -> int:
    """Run all; return 0 where nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    wanted = [script for script in SCRIPTS if not args.only or script.stem in args.only.split(",")]
    print("style | python | steps | marked | numbers | ranges before | phases | threads | verdict")
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        tool = build(Path(scratch))
        for number, python in enumerate(args.python):
            for script in wanted:
                folder = Path(scratch) / str(number) / script.stem
                folder.mkdir(parents=True)
                columns, wrong = check(python, script, tool, folder)
                bad += bool(wrong)
                print(" | ".join([script.stem, python, *columns, "; ".join(wrong) or "balanced"]), flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
