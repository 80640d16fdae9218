"""Raw traces as they are kept: the longest that is small enough, without what names the machine."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.gpu.private import cleaned_trace

MOST: Final = 2 * 10**6
"""Bytes of a raw trace, compressed."""
WORTH: Final = 40 * MOST
"""Bytes beyond which no trace was seen to shrink to so little: it is not tried."""
TELLING: Final = "name LIKE '%HOST%' OR name LIKE '%ENVIRONMENT%' OR name LIKE '%USER%' OR name LIKE '%DISPLAY_NAME%'"
TABLES: Final = ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
"""Of nsys: names and values that describe the machine and the process."""


def keep(traces: Sequence[tuple[int, Path]], place: Path, private: Sequence[Path]) -> tuple[str, int] | None:
    """Compress the first trace that is whole and small enough.

    Args:
        traces: steps and file, the preferred first.
        place: folder to write it to, as `trace` and the file's own suffix.
        private: folders whose place on the machine is nobody's business.

    Returns:
        Its name and steps; None where none is.
    """
    for steps, path in traces:
        if path.stat().st_size > WORTH:
            continue
        try:
            data = gzip.compress(anonymous(path, private), 6, mtime=0)
        except ValueError:
            continue  # cut off
        if len(data) <= MOST:
            name = f"trace{suffix(path)}.gz"
            (place / name).write_bytes(data)
            return name, steps
    return None


def suffix(path: Path) -> str:
    """Return by what tcprobe knows the format: .xplane.pb, .json, .sqlite."""
    return ".xplane.pb" if path.name.endswith(".xplane.pb") else path.suffix


def anonymous(path: Path, private: Sequence[Path]) -> bytes:
    """Return a trace without the machine's name, its environment, and where folders lie.

    Raises:
        ValueError: it is cut off.
    """
    if path.suffix == ".sqlite":
        _forget(path)
    data = path.read_bytes()
    if path.name.endswith(".xplane.pb"):
        return cleaned_trace(data, *private)
    for folder in private:
        told = str(folder).encode() + b"/"
        data = data.replace(told, b"." + b"/" * (len(told) - 1))  # the pages of an export keep their lengths
    return re.sub(rb'("host_?name": *")[^"]*', rb"\1-", data) if path.suffix == ".json" else data


def _forget(path: Path) -> None:
    """Blank what an export of nsys says of the machine, its user, the environment, and what was printed."""
    database = sqlite3.connect(path)
    there = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there.intersection(TABLES):
        database.execute(f"UPDATE {table} SET value = '-' WHERE {TELLING}")
    if "ProcessStreams" in there:
        ids = "SELECT filenameId FROM ProcessStreams UNION SELECT contentId FROM ProcessStreams"
        database.execute(f"UPDATE StringIds SET value = '-' WHERE id IN ({ids})")
    if "PROCESSES" in there:
        ours = "SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL" if "CUPTI_ACTIVITY_KIND_KERNEL" in there else ""
        database.execute(f"DELETE FROM PROCESSES WHERE globalPid NOT IN ({ours})")
    database.commit()
    database.execute("VACUUM")
    database.close()
