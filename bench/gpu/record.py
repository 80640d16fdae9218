"""Record on a machine with an NVIDIA GPU what only a GPU can show: one command, in one folder of results.

Usage: python -m bench.gpu.record --out DIR [--minutes 20] [--only PART]... [--python PATH]... [--dry-run]

It needs JAX, PyTorch or TensorFlow, whichever there is; no network, nothing installed, no setting of the GPU changed.
Killed, or out of time, it goes on where it was when it is called again with the same DIR. README.md beside this file
describes what is in DIR; docs/contribute-a-gpu.md is the way there, step by step. Exits 0 if something was recorded, 2
if nothing was, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.gpu.day import Clock, OutOfTime, Part, run, status_of
from bench.gpu.machine import Machine, look
from bench.gpu.part import MACHINE, say
from bench.gpu.parts import PARTS
from tcprobe.errors import cannot_write

SUMMARY_S = 10.0
"""Kept for the summary at the end."""
MARGIN_S = 5.0
"""Kept at the end of a part, to end what runs and tell how it went."""
PROVENANCE = "provenance.json"
NEEDS = {"runs": "tensorflow"}
"""Part -> the framework without which it has nothing to record."""
IDLE_SHARE = 0.1
"""Of such a part: enough to say so."""


def main() -> int:
    """Record all parts; return the exit status."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended too
    clock = Clock(60 * asked.minutes)
    machine = look(asked.python)
    before = _before(asked.out)
    if (problem := _problem(machine, asked, before)) is not None:
        say(f"error: {problem[0]}\nhint: {problem[1]}")
        return 2
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        machine.save(asked.out / MACHINE)
        _provenance(asked.out, machine, asked.dry_run, before)
        _record([part for part in PARTS if not asked.only or part.NAME in asked.only], machine, asked, clock)
        return _summary(asked.out, clock)
    except OSError as error:
        refused = cannot_write(error.filename or asked.out, error)
        say(f"error: {refused.message}\nhint: {refused.hint}")
        return 2
    except KeyboardInterrupt:
        say("interrupted: the same command goes on from here")
        return 130
    finally:
        with suppress(OSError):
            (asked.out / MACHINE).unlink(missing_ok=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.record", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the results, made if missing")
    parser.add_argument("--minutes", type=float, default=20.0, help="longest time in all (20)")
    names = [part.NAME for part in PARTS]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="PART", help=f"{', '.join(names)}; may be repeated"
    )
    parser.add_argument(
        "--python", action="append", default=[], metavar="PATH", help="interpreter that has frameworks; may be repeated"
    )
    parser.add_argument("--dry-run", action="store_true", help="rehearse on the CPU, with a fake Nsight Compute")
    return parser.parse_args()


def _problem(machine: Machine, asked: argparse.Namespace, before: dict[str, Any] | None) -> tuple[str, str] | None:
    """Return why nothing can be recorded there, and what to do."""
    if not asked.minutes > 0:
        return f"--minutes {asked.minutes:g} is no time", "20 is enough for most of it"
    if not machine.frameworks:
        return "no interpreter has JAX, PyTorch or TensorFlow", "--python names one that has"
    if not machine.smi and not asked.dry_run:
        return "nvidia-smi sees no NVIDIA GPU", "--dry-run rehearses without one"
    if before and before["dry_run"] != asked.dry_run:
        return f"{asked.out} holds {'a rehearsal' if before['dry_run'] else 'measurements'}", "name another --out"
    if before and before["nvidia_smi"].get("name") != machine.smi.get("name"):
        return f"{asked.out} holds measurements of a {before['nvidia_smi'].get('name')}", "name another --out"
    return None


def _before(folder: Path) -> dict[str, Any] | None:
    path = folder / PROVENANCE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _provenance(folder: Path, machine: Machine, dry: bool, before: dict[str, Any] | None) -> None:
    """Write where the results come from; of several calls the first one's date, and each one's time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    calls = [*(before["calls"] if before else []), now]
    told = {"date": (before or {"date": now[:10]})["date"], "dry_run": dry, "calls": calls, **machine.provenance()}
    (folder / PROVENANCE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def share(part: Part, machine: Machine) -> float:
    """Return a part's share of the time, against those of the parts that are left."""
    needed = NEEDS.get(part.NAME)
    return part.SHARE if needed is None or machine.framework(needed) else IDLE_SHARE


def _record(parts: list[Part], machine: Machine, asked: argparse.Namespace, clock: Clock) -> None:
    """Give each part its share of the time that is left; what one does not use is the next ones'."""
    for number, part in enumerate(parts):
        left = clock.left() - SUMMARY_S
        seconds = left * share(part, machine) / sum(share(later, machine) for later in parts[number:])
        say(f"{part.NAME}: {part.WHAT}, at most {seconds:.0f} s")
        given = [part.NAME, str(asked.out.resolve()), f"{max(0.0, seconds - MARGIN_S):.1f}"]
        command = [sys.executable, "-m", "bench.gpu.part", *given, *["--dry-run"][: int(asked.dry_run)]]
        try:
            status = run(command, seconds)
        except OutOfTime:
            say(f"{part.NAME}: out of time")
            continue
        if status:
            say(f"{part.NAME}: ended with status {status}; what it had recorded stays")


def _summary(folder: Path, clock: Clock) -> int:
    """Write the summary, and return whether anything was recorded."""
    done = [place for part in PARTS for place in (folder / part.NAME).glob("[!.]*") if status_of(place) == "done"]
    command = [sys.executable, "-m", "bench.gpu.summary", str(folder.resolve())]
    try:
        written = run(command, max(clock.left(), SUMMARY_S)) == 0
    except OutOfTime:
        written = False
    says = "summary.md says what they say" if written else f"python -m bench.gpu.summary {folder} says what they say"
    say(f"{folder}: {len(done)} units recorded; {says}")
    return 0 if done else 2


if __name__ == "__main__":
    sys.exit(main())
