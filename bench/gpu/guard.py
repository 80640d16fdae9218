"""Run a command so that it does not outlive who asked for it: ``python guard.py PARENT COMMAND...``.

PARENT is the number of the process that asked. This process leads a session of its own, in which the command and all
that it starts run, in whatever groups; once PARENT is gone, killed or not, all of it is killed. It exits with the
command's own status (128 and the signal, where one ended it). Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.2


def main() -> int:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while os.getppid() == parent:
        try:
            status = process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        return status if status >= 0 else 128 - status
    own = os.getpid()
    for number in (*(one for one in session(own) if one != own), own):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return 137


def session(*leaders: int) -> list[int]:
    """Return the processes of sessions that have not ended, by number, and what these started in further sessions."""
    there = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended since
            state, parent, _, number = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state != "Z":
                there[int(place.name)] = int(parent), int(number)
    found, more = set(), {one for one, (_, number) in there.items() if number in leaders}
    while more:
        found |= more
        more = {one for one, (parent, _) in there.items() if parent in found} - found
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
