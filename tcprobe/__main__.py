"""Entry point of the command line: runs a verb and turns errors into one line and an exit code.

Ctrl-C ends it in silence from its first line on, so nothing is imported before that is arranged, and all else later.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum first
import gc
import os
import sys

COLLECTED = (400_000, 5, 10)
"""Objects between collections of garbage: imports make none, and syntax trees, of which looking through took a third of
an audit's time, hardly any."""
INTERRUPTED = 130
VERSION = (["--version"], ["-V"])


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)  # no verb has begun, or it is done: there is nothing to tidy up


class _Interrupt(KeyboardInterrupt):
    """Of Python's own, raised in what a library gives to `exec`, the interpreter would die and not exit with a code."""


def _interrupt(*_: object) -> None:
    raise _Interrupt


def _on_interrupt(before: object, after: object) -> None:
    """Replace the handler of Ctrl-C; one of somebody else stays, and so does its being ignored (nohup)."""
    if _signal.getsignal(_signal.SIGINT) is before:
        _signal.signal(_signal.SIGINT, after)


if __name__ == "__main__" or "".join(sys.argv[:1]).endswith("/tcprobe"):  # by -m, or the script that pip makes
    _on_interrupt(_signal.default_int_handler, _end)


def main() -> int:
    """Run the command line and return the exit code.

    0 success, 2 a `TcprobeError`, 3 a bug in tcprobe, 130 interrupted; a verb may exit with another code
    (1 for findings, or the code of a workload that failed).
    """
    gc.set_threshold(*COLLECTED)
    from contextlib import suppress

    from tcprobe.cli.ending import guard_streams
    from tcprobe.errors import TcprobeError

    guard_streams()
    try:
        code = _run()
    finally:
        gc.freeze()  # the interpreter would look through all there is once more as it ends
    with suppress(TcprobeError, OSError):  # after a failure: that one is told
        sys.stdout.flush()
    return code


def _run() -> int:
    from tcprobe.cli.ending import say_failure
    from tcprobe.errors import Interrupted, TcprobeError, not_ours
    from tcprobe.visible import say

    try:
        _verb()
    except TcprobeError as error:
        return say_failure(error)
    except (KeyboardInterrupt, Interrupted):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return 1
    except Exception as error:
        if (known := not_ours(error)) is not None:
            return say_failure(known)
        from tcprobe.cli.ending import report_bug

        return report_bug(error)
    return 0


def _verb() -> None:
    """Run the verb, which tidies up after Ctrl-C, and find out whether all that it printed got out."""
    if sys.argv[1:] in VERSION:  # without what reads command lines, which takes most of a start
        from tcprobe import __version__
        from tcprobe.visible import put

        put(f"tcprobe {__version__}")
        return
    from tcprobe.cli.app import application, words

    given = words(sys.argv[1:])
    app = application(given)
    try:
        _on_interrupt(_end, _interrupt)
        app(given)
    except SystemExit:
        sys.stdout.flush()
        raise
    finally:
        _on_interrupt(_interrupt, _end)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
