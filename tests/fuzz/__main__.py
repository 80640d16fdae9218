"""``python -m tests.fuzz``: try inputs changed by chance; exit code 1 if one breaks something."""

from __future__ import annotations

import argparse
import importlib.util
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.fuzz import figures, keep
from tests.fuzz.inputs import Input, kept, load, unpacked
from tests.fuzz.made import MADE
from tests.fuzz.runner import LIMITS, Finding, Tally, ending, run, scratch, told, watched
from tests.fuzz.source import generated
from tests.fuzz.targets import TARGETS, Target
from tests.support import ROOT

FOUND = ROOT / ".fuzz"
REPLAY_SECONDS = 300


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    names = asked.only or list(TARGETS)
    if asked.keep:
        return (
            keep.keep(TARGETS[names[0]], asked.keep, asked.name) if len(names) == 1 else parser.error("--only which?")
        )
    if asked.replay:
        return int(sum(len(_replayed(TARGETS[name]).findings) for name in names) > 0)
    if asked.minutes is None and asked.inputs is None:
        parser.error("--minutes, --inputs or --replay?")
    engine = asked.engine or ("atheris" if asked.minutes and importlib.util.find_spec("atheris") else "mutate")
    seed = asked.seed or str(int(time.time()))
    print(f"seed {seed}, engine {engine}, {sum(len(kept(t)) for t in TARGETS)} kept inputs", flush=True)
    until = time.time() + 60 * asked.minutes if asked.minutes else float("inf")
    broken = 0
    for left, name in zip(range(len(names), 0, -1), names, strict=True):
        share = time.time() + (until - time.time()) / left
        tried = _guided if engine == "atheris" else _generated
        tally = tried(TARGETS[name], share, seed, asked)
        broken += len(tally.findings)
        if asked.record:
            figures.record(name, tally, engine)
    if asked.record:
        from tests.pages.__main__ import write

        write()
    return int(broken > 0)


def _replayed(target: Target) -> Tally:
    """Try all inputs that are kept: seeds, the corpus, and what is made because it is large."""
    every = {f"seed {number}": seed for number, seed in enumerate(target.seeds())} | kept(target.name)
    every |= {name.partition("/")[2]: made for name, made in MADE.items() if name.startswith(f"{target.name}/")}
    names = list(every)
    tally = run(target, lambda at: (names[at], every[names[at]]), range(len(names)), time.time() + REPLAY_SECONDS)
    if tally.inputs < len(names):
        tally.findings.append(Finding(names[-1], "not reached in time", ""))
    _tell(target, tally, every.__getitem__, lambda _: f"python -m tests.fuzz --replay --only {target.name}")
    return tally


def _generated(target: Target, until: float, seed: str, asked: argparse.Namespace) -> Tally:
    """Try the inputs that follow from a seed."""
    numbers = count(asked.first) if asked.inputs is None else range(asked.first, asked.first + asked.inputs)
    source = generated(target, seed, asked.long)
    tally = run(target, source, numbers, until)
    again = f"python -m tests.fuzz --engine mutate --only {target.name} --seed {seed} --inputs 1"
    again += " --long" if asked.long else ""
    _tell(target, tally, lambda key: source(int(key))[1], lambda key: f"{again} --first {key}")
    return tally


def _guided(target: Target, until: float, seed: str, asked: argparse.Namespace) -> Tally:
    """Let atheris choose, in processes one after the other: what one dies of becomes a finding, the next goes on."""
    folder, tally = scratch(), Tally()
    try:
        (folder / "board").write_bytes(bytes(8))
        for number in count():
            part = _by_atheris(target, until, folder, number)
            stuck = not part.inputs or any(found in tally.findings for found in part.findings)
            tally.add(part)
            if stuck or time.time() >= until:
                break
        _tell(target, tally, lambda key: load(folder / key) if key else Input({}), lambda key: "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tally


def _by_atheris(target: Target, until: float, folder: Path, number: int) -> Tally:
    """Let one process of atheris try inputs; see `tests.fuzz.guided`."""
    tries = folder / "tries"
    tries.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(until), str(folder), str(number)]
    with (
        (folder / "board").open("r+b") as file,
        mmap.mmap(file.fileno(), 8) as board,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child,
    ):
        stop = watched(child.pid, board, LIMITS.wait_s)
        _, said = child.communicate()
        waited, code = stop(), child.returncode
    answers = folder / f"told-{number}"
    tally = told(answers.read_text(encoding="utf-8").splitlines() if answers.exists() else ())
    if code:
        made = (unpacked(tries.read_bytes()) if tries.exists() else None) or Input({})
        made.write(folder / made.digest)
        kind = "waits for something" if waited else ending(-code if code < 0 else code << 8)
        tally.findings.append(Finding(made.digest, kind, said[-2000:]))
    return tally


def _tell(target: Target, tally: Tally, input_of: Callable[[str], Input], again: Callable[[str], str]) -> None:
    """Print a line for the target, and for each class of findings where its smallest input lies."""
    rate = tally.inputs / tally.seconds if tally.seconds else 0.0
    slow = f"slowest {tally.slowest_s:.2f} s (input {tally.slowest or '-'}), peak {tally.peak_bytes / 1e6:.0f} MB"
    many = f"{tally.inputs:,} inputs, {rate:.0f} a CPU second"
    print(f"{target.name}: {many}, {slow}, {len(tally.findings)} findings", flush=True)
    classes: dict[str, list[Finding]] = defaultdict(list)
    for finding in tally.findings:
        classes[finding.kind].append(finding)
    for kind, found in sorted(classes.items()):
        key, made = min(((f.key, input_of(f.key)) for f in found[:50]), key=lambda pair: pair[1].size)
        folder = FOUND / target.name / made.digest
        made.write(folder)
        print(f"  {len(found)}x {kind}: {next(f.detail for f in found if f.key == key)}")
        if command := again(key):
            print(f"     {command}")
        print(f"     {folder.relative_to(ROOT)} ({made.size:,} bytes)", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="time on the clock for all targets together")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="a target; may be given several times")
    parser.add_argument("--inputs", type=int, help="inputs for each target")
    parser.add_argument("--replay", action="store_true", help="seeds and kept inputs alone")
    parser.add_argument("--seed", help="what all chance follows from; by default the time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--long", action="store_true", help="texts up to ten times as long, and more of them")
    parser.add_argument(
        "--record", action="store_true", help="add the figures to tests/fuzz/figures.json, docs/reliability.md"
    )
    parser.add_argument(
        "--engine",
        choices=("atheris", "mutate"),
        help="what makes the inputs; by default atheris where it is installed",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make this input small and keep it in the corpus")
    parser.add_argument("--name", help="its name there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
