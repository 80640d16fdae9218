"""How a command ends that fails: two lines for what the user can act on, a log for a bug; no secret in either."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tcprobe import __version__
from tcprobe.errors import TcprobeError
from tcprobe.masking import mask_words, without_secrets
from tcprobe.visible import say, tell


def say_failure(error: TcprobeError) -> int:
    """Say what failed, and what to do about it; return its exit code."""
    say(f"error: {without_secrets(error.message)}")
    if error.hint:
        tell(f"hint: {without_secrets(error.hint)}")
    return error.exit_code


def report_bug(error: Exception) -> int:
    """Write the traceback of `error` to the state directory, print one line, and return exit code 3.

    Where it cannot be written, it is printed: this function itself does not fail.
    """
    import platform
    import traceback

    text = f"tcprobe {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text += f"command: {mask_words(sys.argv)}\n\n" + without_secrets("".join(traceback.format_exception(error)))
    say(f"internal error: {without_secrets(traceback.format_exception_only(error)[-1].strip())}")
    try:
        home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
        path = home / "tcprobe" / "last-error.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError, ValueError):  # RuntimeError: no home; ValueError: a null character in its name
        tell(*text.splitlines())
    else:
        tell(f"hint: this is a bug in tcprobe; please report it with {path}")
    return 3
