"""The cell magic ``%%tcprobe``: profile a cell of a notebook, which is one training step."""

from __future__ import annotations

import shlex
from typing import Any, Final

from tcprobe.api.here import profile
from tcprobe.api.profile import Profile
from tcprobe.errors import UsageError

NUMBERS: Final = ("steps", "timed", "warmup")
TEXTS: Final = ("output", "target-gpu")
AS_IN: Final = f"as in %%tcprobe --steps 10; there are {', '.join(f'--{name}' for name in (*NUMBERS, *TEXTS))}, --force"


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls this for ``%load_ext tcprobe``."""

    def tcprobe(line: str, cell: str) -> Profile:
        """Call the cell again and again as one training step, and show the report on it."""
        code = compile(shell.transform_cell(cell), "<cell>", "exec")
        return profile(lambda: exec(code, shell.user_ns), **_options(line))

    shell.register_magic_function(tcprobe, "cell")


def _options(line: str) -> dict[str, Any]:
    """Return the arguments of `tcprobe.profile` that a line gives.

    Raises:
        UsageError: it gives another, or a value that it cannot have.
    """
    found: dict[str, Any] = {}
    words = iter(shlex.split(line))
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if word == "--force":
            found["force"] = True
            continue
        value = value if equals else next(words, "")
        if not word.startswith("--") or name not in (*NUMBERS, *TEXTS) or not value:
            raise UsageError(f"%%tcprobe {line}: {word} makes no sense here", AS_IN)
        if name in NUMBERS and not value.isdecimal():
            raise UsageError(f"%%tcprobe {line}: {value!r} is no number", AS_IN)
        found[name.replace("-", "_")] = int(value) if name in NUMBERS else value
    return found
