"""Report a bug in tcprobe: write a log for the bug report, and print one line that names it."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from pathlib import Path

from tcprobe import __version__
from tcprobe.masking import mask_words, without_secrets
from tcprobe.visible import say, tell


def report_bug(error: Exception) -> int:
    """Write the traceback of `error` to the state directory, print one line, and return exit code 3.

    Where it cannot be written, it is printed: this function itself does not fail.
    """
    text = f"tcprobe {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text += f"command: {mask_words(sys.argv)}\n\n" + without_secrets("".join(traceback.format_exception(error)))
    say(f"internal error: {without_secrets(traceback.format_exception_only(error)[-1].strip())}")
    try:
        path = _log()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError, ValueError):  # RuntimeError: no home; ValueError: a null character in its name
        tell(*text.splitlines())
    else:
        tell(f"hint: this is a bug in tcprobe; please report it with {path}")
    return 3


def _log() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "tcprobe" / "last-error.log"
