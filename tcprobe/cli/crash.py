"""Report a bug in tcprobe: write a log for the bug report, and print one line that names it."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from pathlib import Path

from tcprobe import __version__
from tcprobe.cli.options import without_secrets
from tcprobe.masking import mask_words


def report_bug(error: Exception) -> int:
    """Write the traceback of `error` to the state directory, print one line, and return exit code 3."""
    text = f"tcprobe {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text += f"command: {mask_words(sys.argv)}\n\n" + without_secrets("".join(traceback.format_exception(error)))
    print(f"tcprobe: internal error: {without_secrets(f'{type(error).__name__}: {error}')}", file=sys.stderr)
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "tcprobe" / "last-error.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError:
        print(text, file=sys.stderr)
    else:
        print(f"hint: this is a bug in tcprobe; please report it with {path}", file=sys.stderr)
    return 3
