"""Record three units into a folder, and be killed at the K-th of its moments: ``driver.py FOLDER K``; 0 for never."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bench.gpu.day import Clock, Day, Unit
from bench.gpu.machine import Machine

NOTHING = Machine(None, {}, 0, (), None, None)


def main() -> None:
    folder, last = Path(sys.argv[1]), int(sys.argv[2])
    moments = 0

    def moment() -> None:
        nonlocal moments
        moments += 1
        if moments == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def recorder(name: str) -> Callable[[Path, float], None]:
        def record(place: Path, seconds: float) -> None:
            for part in range(2):
                moment()
                (place / f"{part}.txt").write_text(name, encoding="utf-8")
                moment()

        return record

    def say(text: str) -> None:
        moment()
        print(text, file=sys.stderr)

    day = Day(folder, NOTHING, True, say)
    for name in ("one", "two", "three"):
        day.do("part", Unit(name, recorder(name), about={"framework": name}), Clock(60))


if __name__ == "__main__":
    main()
