"""Read what `ncu --csv` prints: page raw and page details, of a report or live, of versions since 2019."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.readers.ncu.files import scan
from tcprobe.schema.profile import Profile

FORMAT: Final = "ncu_csv"
WHAT: Final = "the CSV of Nsight Compute (ncu --csv --page raw)"


def finds(path: Path) -> list[Path]:
    """Return the CSV files of Nsight Compute at `path`; without one its own reports, for `read` to say what to do."""
    return scan(path)


def read(files: list[Path]) -> Profile:
    """Read the launches that one file holds; see `read_profile`.

    Raises:
        UsageError: there are several files, and nothing tells what they have to do with each other.
        InputError: the file is damaged, or holds no launch.
    """
    from tcprobe.readers.ncu.profile import read_profile

    return read_profile(FORMAT, files)
