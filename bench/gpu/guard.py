"""Run a command so that it does not outlive who asked for it: ``python guard.py PARENT COMMAND...``.

PARENT is the number of the process that asked. This process leads a group of its own, in which the command and all
that it starts run; once PARENT is gone, killed or not, the group is killed. It exits with the command's own status
(128 and the signal, where one ended it). Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

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
    os.killpg(0, signal.SIGKILL)
    return 137


if __name__ == "__main__":
    sys.exit(main())
