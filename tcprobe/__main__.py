"""Entry point of the command line: runs a verb and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys

from tcprobe.errors import TcprobeError
from tcprobe.visible import say, tell


def main() -> int:
    """Run the command line and return the exit code.

    0 success, 2 a `TcprobeError`, 3 a bug in tcprobe, 130 interrupted; a verb may exit with another code
    (1 for findings, or the code of a workload that failed).
    """
    from tcprobe.cli.app import application

    try:
        application(sys.argv[1:])()
    except TcprobeError as error:
        return _fail(error)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from tcprobe.cli.crash import report_bug

        return report_bug(error)
    return 0


def _fail(error: TcprobeError) -> int:
    say(f"error: {error.message}")
    if error.hint:
        tell(f"hint: {error.hint}")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
