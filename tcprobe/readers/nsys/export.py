"""Export a report of Nsight Systems's own to SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tcprobe.errors import WrongFormat


@contextmanager
def to_sqlite(path: Path) -> Iterator[Path]:
    """Yield an SQLite export of a report.

    Raises:
        WrongFormat: always, so far.
    """
    raise WrongFormat(path, "is Nsight Systems's own report", f"export it: nsys export --type sqlite {path.name}")
    yield path
