"""What a command costs as a process of its own: seconds and the peak of its memory."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

# Installed programs have their bytecode; a setting that keeps Python from writing it would be measured instead.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"TF_CPP_MIN_LOG_LEVEL": "3"}
QUIET = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process and those that it waited for cost: seconds of wall and user time, the largest peak in bytes."""

    wall_s: float
    user_s: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"wall {self.wall_s:6.2f} s  user {self.user_s:6.2f} s  peak {self.peak_bytes / 1e6:6.0f} MB"


def measure(command: list[str], codes: tuple[int, ...] = (0,)) -> Cost:
    """Run `command` once as a process of its own; SystemExit where it ends with none of `codes`."""
    program = shutil.which(command[0])
    if program is None:
        raise SystemExit(f"{command[0]} is not on PATH")
    start = time.perf_counter()
    child = os.posix_spawn(program, command, ENVIRONMENT, file_actions=QUIET)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if code not in codes:
        raise SystemExit(f"{' '.join(command[:4])} failed: {code}")
    return Cost(wall, usage.ru_utime, usage.ru_maxrss * 1024)


def best(command: list[str], runs: int) -> Cost:
    """Return the least times and the largest memory of `runs` runs."""
    costs = [measure(command) for _ in range(runs)]
    return Cost(min(c.wall_s for c in costs), min(c.user_s for c in costs), max(c.peak_bytes for c in costs))
