"""Entry point of the command line: runs a verb and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from contextlib import suppress

from tcprobe.cli.ending.failure import say_failure
from tcprobe.cli.streams import guard_streams
from tcprobe.errors import Interrupted, TcprobeError, not_ours
from tcprobe.visible import say


def main() -> int:
    """Run the command line and return the exit code.

    0 success, 2 a `TcprobeError`, 3 a bug in tcprobe, 130 interrupted; a verb may exit with another code
    (1 for findings, or the code of a workload that failed).
    """
    guard_streams()
    code = _run()
    with suppress(TcprobeError, OSError):  # after a failure: that one is told
        sys.stdout.flush()
    return code


def _run() -> int:
    try:
        _verb()
    except TcprobeError as error:
        return _fail(error)
    except (KeyboardInterrupt, Interrupted):
        say("interrupted")
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if (known := not_ours(error)) is not None:
            return _fail(known)
        from tcprobe.cli.ending.crash import report_bug

        return report_bug(error)
    return 0


def _verb() -> None:
    """Run the verb, and find out whether all that it printed got out."""
    from tcprobe.cli.app import application

    try:
        application(sys.argv[1:])()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def _fail(error: TcprobeError) -> int:
    say_failure(error)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
