"""Record one part in a process of its own: ``python -m bench.gpu.part NAME DIR SECONDS [--dry-run]``, by `record.py`.

So a part that fails or hangs costs the others nothing. Exits 0 when all its units were tried, whatever came of them, 2
where DIR cannot be written.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from bench.gpu.day import Clock, Day
from bench.gpu.machine import Machine
from bench.gpu.parts import PARTS
from tcprobe.errors import WHAT_HELPS, TcprobeError, cannot_write

MACHINE = ".machine.json"
"""In the folder of results while the day goes on; it holds paths of the machine."""

UNWRITABLE = 2
"""Exit status where the folder of results cannot be written."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def told(error: TcprobeError) -> str:
    """Return an error and what helps, a line each."""
    return f"error: {error.message}\nhint: {error.hint}"


def main() -> int:
    """Record what is missing of a part; return 0, or 2 where its folder cannot be written."""
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    clock = Clock(seconds)
    day = Day(folder, Machine.load(folder / MACHINE), "--dry-run" in sys.argv[4:], say)
    part = next(part for part in PARTS if name == part.NAME)
    try:
        ends = Counter(day.do(part.NAME, unit, clock) for unit in part.units(day))
    except OSError as error:
        if error.errno not in WHAT_HELPS:
            raise
        say(told(cannot_write(error.filename or folder, error)))
        return UNWRITABLE
    if ends["not begun"]:
        say(f"{part.NAME}: {ends['not begun']} more were not begun for want of time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
