"""Record what only a GPU can show, and hold tcprobe against it: ``python -m bench.gpu --out DIR``.

Runs `tcprobe calibrate`, `tcprobe profile train_gan` in each precision, and single ops under Nsight Compute through
PyTorch or JAX. Each is a step with a time limit and a folder of its own; one that fails, or for which something is
missing, is named with its reason and stops no other. The same command goes on with what is missing. At the end what was
recorded is checked for contradictions: between counters and kernels' names, within runs, between runs.

Exits 0 without contradictions, 1 with some (each is printed), 2 where nothing is recorded or it cannot begin.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gpu.check import check, recorded
from bench.gpu.machine import CLOCKS, Failed, Machine, look, now, smi
from bench.gpu.steps import Step, steps

SCRATCH = ("config", "run", "orders.json", "results.jsonl", "metrics.txt", "ncu.csv")
"""What a step leaves in its folder that names paths or is large: removed once it is done."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the results, made if missing")
    parser.add_argument("--python", action="append", metavar="PATH", help="interpreter that has frameworks; repeatable")
    parser.add_argument("--only", action="append", metavar="WORD", help="steps whose names begin so; repeatable")
    parser.add_argument("--check", action="store_true", help="record nothing, check what is there")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, and run on the CPU what needs no GPU")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Record and check."""
    given = parse(words)
    try:
        if not given.check:
            record(given, words)
        if not any(one["status"] == "done" for one in recorded(given.out).values()):
            raise Failed(f"nothing is recorded in {given.out}")
        contradictions, outcomes = check(given.out)
    except Failed as error:
        say(f"bench.gpu: {error}")
        return 2
    except (OSError, KeyError, ValueError) as error:
        say(f"bench.gpu: {given.out} is damaged, or no recording: {error!r}")
        return 2
    except KeyboardInterrupt:
        say("bench.gpu: interrupted; the same command goes on")
        return 130
    say(f"launches by counters and names: {', '.join(f'{count} {name}' for name, count in outcomes.items())}")
    for text in contradictions:
        print(f"CONTRADICTION {text}")
    return 1 if contradictions else 0


def record(given: argparse.Namespace, words: Sequence[str]) -> None:
    """Do the steps that are not done; Failed without a GPU, or where the folder holds what was recorded elsewhere."""
    machine = look(given.python or [sys.executable])
    if not machine.smi and not given.dry_run:
        raise Failed("there is no GPU here (nvidia-smi names none): --dry-run rehearses on the CPU")
    begin(given.out, machine, given.dry_run, words)
    found = [s for s in steps(machine, given.dry_run) if not given.only or s.name.startswith(tuple(given.only))]
    if not found:
        raise Failed(f"no step begins with {' or '.join(given.only)}")
    minutes = sum(step.limit_s for step in found if step.lacking is None) / 60
    say(f"{machine.smi.get('name', 'no GPU')}; {len(found)} steps, together at most {minutes:.0f} minutes:")
    for step in found if given.dry_run else ():
        say(f"  {step.name:32} at most {step.limit_s:4.0f} s  {step.lacking or ''}".rstrip())
    there = recorded(given.out)
    for step in found:
        of = there.get(step.name, {})
        if of.get("status") != "done":
            of = do(step, given.out / step.name)
        say(f"{step.name:32} {of['status']:8} {of['seconds']:5.0f} s  {of.get('reason') or ''}".rstrip())


def begin(out: Path, machine: Machine, dry: bool, words: Sequence[str]) -> None:
    """Write where the results come from, or hold it against what is there; each call is noted with its date."""
    place, own = out / "provenance.json", machine.provenance(dry)
    out.mkdir(parents=True, exist_ok=True)
    before = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {**own, "calls": []}
    for what in ("dry_run", "gpu"):
        if before[what] != own[what]:
            raise Failed(f"{out} holds another recording ({what}: {before[what]}): name another folder")
    command = ["python", "-m", "bench.gpu", *(Path(word).name if "/" in word else word for word in words)]
    calls = [*before["calls"], {"date": now(), "command": command, "tcprobe": own["tcprobe"], "commit": own["commit"]}]
    place.write_text(json.dumps({**before, "calls": calls}, indent=1) + "\n", encoding="utf-8")


def do(step: Step, folder: Path) -> dict[str, Any]:
    """Do one step in a folder of its own, and return what its step.json says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    started, before = time.monotonic(), smi(CLOCKS)
    of: dict[str, Any] = {"status": "missing", "reason": step.lacking}
    if step.lacking is None:
        try:
            of = {"status": "done", **step.record(folder, step.limit_s)}
        except Failed as error:
            of = {"status": "failed", "reason": str(error)}
    of |= {"seconds": round(time.monotonic() - started, 1), "date": now(), "before": before, "after": smi(CLOCKS)}
    if of["status"] == "done":
        for name in (*SCRATCH, "log.txt"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).unlink(missing_ok=True)
    (folder / "step.json").write_text(json.dumps(of, indent=1) + "\n", encoding="utf-8")
    return of


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
