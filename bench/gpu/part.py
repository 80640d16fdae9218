"""Record one part in a process of its own: ``python -m bench.gpu.part NAME DIR SECONDS [--dry-run]``, by `record.py`.

So a part that fails or hangs costs the others nothing. Exits 0 when all its units were tried, whatever came of them.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from pathlib import Path

from bench.gpu.day import Clock, Day
from bench.gpu.machine import Machine
from bench.gpu.parts import PARTS

MACHINE = ".machine.json"
"""In the folder of results while the day goes on; it holds paths of the machine."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    clock = Clock(seconds)
    day = Day(folder, Machine.load(folder / MACHINE), "--dry-run" in sys.argv[4:], say)
    part = next(part for part in PARTS if name == part.NAME)
    ends: Counter[str] = Counter()
    for unit in part.units(day):
        try:
            ends[day.do(part.NAME, unit, clock)] += 1
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs this unit alone
            traceback.print_exc()
            ends[day.give_up(part.NAME, unit, error)] += 1
    if ends["not begun"]:
        say(f"{part.NAME}: {ends['not begun']} more were not begun for want of time")


if __name__ == "__main__":
    main()
