"""``python -m tests.fuzz``: try inputs changed by chance; exit code 1 if one breaks something."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.fuzz import figures, keep
from tests.fuzz.inputs import kept
from tests.fuzz.runner import Finding, Tally, run
from tests.fuzz.source import generated
from tests.fuzz.targets import TARGETS, Target
from tests.support import ROOT

FOUND = ROOT / ".fuzz"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.keep:
        return keep.keep(TARGETS[asked.only[0]], asked.keep, asked.name)
    seed = asked.seed or str(int(time.time()))
    print(f"seed {seed}, engine {asked.engine}: {sum(len(kept(t)) for t in TARGETS)} kept inputs", flush=True)
    names = asked.only or list(TARGETS)
    failed = False
    until = time.time() + 60 * asked.minutes if asked.minutes else float("inf")
    for left, name in zip(range(len(names), 0, -1), names, strict=True):
        share = time.time() + (until - time.time()) / left
        target = TARGETS[name]
        numbers = count(asked.first) if asked.inputs is None else range(asked.first, asked.first + asked.inputs)
        tally = run(target, generated(target, seed, asked.long), numbers, share)
        failed |= bool(tally.findings)
        _tell(target, tally, seed, asked.long)
        if asked.record:
            figures.record(target.name, tally, "mutate")
    return int(failed)


def _tell(target: Target, tally: Tally, seed: str, long: bool) -> None:
    """Print a line for the target, and one for each class of findings with the command that repeats it."""
    rate = tally.inputs / tally.seconds if tally.seconds else 0.0
    slow = f"slowest {tally.slowest_s:.2f} s (input {tally.slowest}), peak {tally.peak_bytes / 1e6:.0f} MB"
    many = f"{tally.inputs:,} inputs, {rate:.0f} a CPU second"
    print(f"{target.name}: {many}, {slow}, {len(tally.findings)} findings", flush=True)
    classes: dict[str, list[Finding]] = defaultdict(list)
    for finding in tally.findings:
        classes[finding.kind].append(finding)
    source = generated(target, seed, long)
    for kind, found in sorted(classes.items()):
        number, made = min(((f.key, source(int(f.key))[1]) for f in found), key=lambda pair: pair[1].size)
        folder = FOUND / target.name / made.digest
        made.write(folder)
        detail = next(f.detail for f in found if f.key == number)
        print(f"  {len(found)}x {kind}: {detail}")
        more = " --long" if long else ""
        print(f"     python -m tests.fuzz --only {target.name} --seed {seed} --first {number} --inputs 1{more}")
        print(f"     {folder.relative_to(ROOT)} ({made.size:,} bytes)", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="time on the clock for all targets together")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="a target; may be given several times")
    parser.add_argument("--inputs", type=int, help="inputs for each target")
    parser.add_argument("--seed", help="what all chance follows from; by default the time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--long", action="store_true", help="texts up to a hundred times as long")
    parser.add_argument("--record", action="store_true", help="add the figures to tests/fuzz/figures.json")
    parser.add_argument("--engine", choices=("atheris", "mutate"), default="mutate", help="what makes the inputs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make this input small and keep it in the corpus")
    parser.add_argument("--name", help="its name there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
