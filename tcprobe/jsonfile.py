"""Read a JSON object from a file that may be missing or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tcprobe.errors import InputError
from tcprobe.foreign import read

MOST_BYTES: Final = 256 << 20  # the graph of a large model takes tens of MB, every other file of ours far less


def read_object(path: Path, within: Path | None = None) -> dict[str, Any]:
    """Return the JSON object in a file; empty where there is none, or the file is missing or damaged.

    `within` is a folder that a link must not lead out of.
    """
    try:
        found = json.loads(read(path, MOST_BYTES, within).decode())
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
