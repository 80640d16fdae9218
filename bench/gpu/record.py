"""Record on a machine with an NVIDIA GPU what only a GPU can show: one command, in one folder of results.

Usage: python -m bench.gpu.record --out DIR [--minutes 20] [--only PART]... [--python PATH]... [--dry-run]

It needs JAX, PyTorch or TensorFlow, whichever there is; no network, nothing installed, no setting of the GPU changed.
Killed, or out of time, it goes on where it was when it is called again with the same DIR. README.md beside this file
describes what is in DIR; docs/contribute-a-gpu.md is the way there, step by step. Exits 0 if something was recorded, 2
if nothing was, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.gpu.day import Clock, OutOfTime, Part, run, status_of
from bench.gpu.machine import Machine, look
from bench.gpu.part import MACHINE, UNWRITABLE, say, told
from bench.gpu.parts import PARTS
from tcprobe.errors import TcprobeError, cannot_write
from tcprobe.jsonfile import read_object

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
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that what runs is ended too; nohup's choice stands
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda ended, _: sys.exit(128 + ended))
    try:
        return _day(asked, Clock(60 * asked.minutes))
    except TcprobeError as error:
        say(told(error))
        return 2
    except OSError as error:
        say(told(cannot_write(error.filename or asked.out, error)))
        return 2
    except KeyboardInterrupt:
        say("interrupted: the same command goes on from here")
        return 130


def _day(asked: argparse.Namespace, clock: Clock) -> int:
    """Record what is missing in a folder; return the exit status."""
    machine = look(asked.python)
    before = _before(asked.out)
    _refuse(machine, asked, before)
    asked.out.mkdir(parents=True, exist_ok=True)
    with alone(asked.out):
        try:
            machine.save(asked.out / MACHINE)
            _provenance(asked.out, machine, asked.dry_run, before)
            _record([part for part in PARTS if not asked.only or part.NAME in asked.only], machine, asked, clock)
            return _summary(asked.out, clock)
        finally:
            with suppress(OSError):
                (asked.out / MACHINE).unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other calls out of a folder of results; a call that was killed keeps nobody out.

    Raises:
        TcprobeError: another call records there. A file system without locks does not tell.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TcprobeError(
                f"{folder}: another call records there", "wait for its end, or name another --out"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


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


def _refuse(machine: Machine, asked: argparse.Namespace, before: dict[str, Any] | None) -> None:
    """Raise TcprobeError where nothing can be recorded there."""
    if not asked.minutes > 0:
        raise TcprobeError(f"--minutes {asked.minutes:g} is no time", "20 is enough for most of it")
    if not machine.frameworks:
        raise TcprobeError("no interpreter has JAX, PyTorch or TensorFlow", "--python names one that has")
    if not machine.smi and not asked.dry_run:
        raise TcprobeError("nvidia-smi sees no NVIDIA GPU", "--dry-run rehearses without one")
    if before is None:
        return
    if before["dry_run"] != asked.dry_run:
        held = "a rehearsal" if before["dry_run"] else "measurements"
        raise TcprobeError(f"{asked.out} holds {held}", "name another --out")
    if before["nvidia_smi"].get("name") != machine.smi.get("name"):
        held = f"measurements of a {before['nvidia_smi'].get('name')}"
        raise TcprobeError(f"{asked.out} holds {held}", "name another --out")


def _before(folder: Path) -> dict[str, Any] | None:
    """Return the provenance of what a folder holds; None where nothing was recorded there.

    Raises:
        TcprobeError: it does not say of what machine its results are.
    """
    path = folder / PROVENANCE
    if not path.exists():
        return None
    found = read_object(path)
    if not {"dry_run", "nvidia_smi", "calls", "date"} <= found.keys():
        raise TcprobeError(f"{path}: damaged, or not of bench.gpu.record", "name another --out")
    return found


def _provenance(folder: Path, machine: Machine, dry: bool, before: dict[str, Any] | None) -> None:
    """Write where the results come from; of several calls the first one's date, and each one's time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    calls = [*(before["calls"] if before else []), now]
    about = {"date": (before or {"date": now[:10]})["date"], "dry_run": dry, "calls": calls, **machine.provenance()}
    begun = folder / f".{PROVENANCE}"
    begun.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    begun.replace(folder / PROVENANCE)


def share(part: Part, machine: Machine) -> float:
    """Return a part's share of the time, against those of the parts that are left."""
    needed = NEEDS.get(part.NAME)
    return part.SHARE if needed is None or machine.framework(needed) else IDLE_SHARE


def _record(parts: list[Part], machine: Machine, asked: argparse.Namespace, clock: Clock) -> None:
    """Give each part its share of the time that is left; what one does not use is the next ones'."""
    for number, part in enumerate(parts):
        left = max(0.0, clock.left() - SUMMARY_S)
        seconds = left * share(part, machine) / sum(share(later, machine) for later in parts[number:])
        say(f"{part.NAME}: {part.WHAT}, at most {seconds:.0f} s")
        given = [part.NAME, str(asked.out.resolve()), f"{max(0.0, seconds - MARGIN_S):.1f}"]
        command = [sys.executable, "-m", "bench.gpu.part", *given, *["--dry-run"][: int(asked.dry_run)]]
        try:
            status = run(command, seconds)
        except OutOfTime:
            say(f"{part.NAME}: out of time")
            continue
        if status == UNWRITABLE:
            break
        if status:
            say(f"{part.NAME}: ended with status {status}; what it had recorded stays")


def _summary(folder: Path, clock: Clock) -> int:
    """Write the summary, and return whether anything was recorded."""
    done = [place for part in PARTS for place in (folder / part.NAME).glob("[!.]*") if status_of(place) == "done"]
    command = [sys.executable, "-m", "bench.gpu.summary", str(folder.resolve())]
    try:
        written = run(command, clock.left() - MARGIN_S) == 0
    except OutOfTime:
        written = False
    says = "summary.md says what they say" if written else f"python -m bench.gpu.summary {folder} says what they say"
    say(f"{folder}: {len(done)} units recorded; {says}")
    return 0 if done else 2


if __name__ == "__main__":
    sys.exit(main())
