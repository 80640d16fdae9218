"""Read what Nsight Systems says of its own recording: its diagnostics, and whether it traced CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.profile import Note

DIAGNOSTICS: Final = "DIAGNOSTIC_EVENT"
CAPTURED: Final = "META_DATA_CAPTURE"
TRACED: Final = "CAPTURE_EVENT_TYPE"
"""Key of that table: one row for each kind of event that was recorded, as Cuda and NvtxEvents."""
WARNING: Final = 2  # ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 Info, 2 Warning, 3 Error, 4 Verbose
ERROR: Final = 3
LONGEST: Final = 300
# of those called Info, which mostly count events and name processes
_TELLING: Final = re.compile(
    r"might (?:have )?not|not (?:been )?(?:supported|started|enabled|installed|available)|unsupported|fail|lost|"
    r"dropped",
    re.IGNORECASE,
)


def diagnostic_notes(database: Database) -> Iterator[Note]:
    """Yield what nsys warns of, each once."""
    texts: dict[str, int] = {}
    for severity, text in database.rows(DIAGNOSTICS, "severity", "text"):
        line = " ".join(text.split())[:LONGEST] if isinstance(text, str) else ""
        level = ERROR if severity == ERROR else WARNING if severity == WARNING or _TELLING.search(line) else 0
        if line and level:
            texts[line] = max(level, texts.get(line, 0))
    for line, level in texts.items():
        message = f"the profiler says: {line}"
        yield Note("profiler-error", message, level="error") if level == ERROR else Note("profiler-warning", message)


def traces_cuda(database: Database) -> bool | None:
    """Return whether CUDA was traced; None where the export does not say (before 2023.4)."""
    kinds = [str(value) for name, value in database.rows(CAPTURED, "name", "value") if name == TRACED]
    return any(kind.lower().startswith("cuda") for kind in kinds) if kinds else None
