"""Find and read what `ncu --csv` prints: page raw and page details, of a report or live, of versions since 2019."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.foreign import below, head
from tcprobe.readers.ncu.lines import NAMED, REPORT, SAYS, SAYS_MARKS, header_of
from tcprobe.readers.rows import start_of
from tcprobe.schema.profile import Profile

FORMAT: Final = "ncu_csv"
WHAT: Final = "the CSV of Nsight Compute (ncu --csv --page raw)"
PEEK: Final = 1 << 16  # a header of 4,000 metrics has 150 KB, and begins with the columns that tell it
LONG_PEEK: Final = 1 << 24  # of a file that the user names: a program may print much before the first row
_ENDINGS: Final = (".csv", ".csv.gz")
_REPORT_ENDING: Final = ".ncu-rep"


def finds(path: Path) -> list[Path]:
    """Return the files at `path`: itself, or those in a directory and below, sorted.

    In a directory only ``*.csv`` and ``*.csv.gz`` with a header count; where there is none, ``*.ncu-rep``. A file that
    is named counts also where ncu only says why it has no row.
    """
    if not path.is_dir():
        return [path] if _is_report(path) or _has_header(path, LONG_PEEK, said=True) else []
    found = below(path, lambda name: name.lower().endswith((*_ENDINGS, _REPORT_ENDING))).files
    tables = [one for one in found if one.name.lower().endswith(_ENDINGS) and _has_header(one, PEEK)]
    return tables or [one for one in found if one.name.lower().endswith(_REPORT_ENDING) and _is_report(one)]


def read(files: list[Path]) -> Profile:
    """Read the launches that one file holds, or page raw and page details of one report; see `read_profile`.

    Raises:
        UsageError: there are other files, and nothing tells what they have to do with each other.
        InputError: the file is damaged, or holds no launch.
    """
    from tcprobe.readers.ncu.profile import read_profile

    return read_profile(FORMAT, files)


def _is_report(path: Path) -> bool:
    return head(path, len(REPORT)) == REPORT


def _has_header(path: Path, size: int, said: bool = False) -> bool:
    text = start_of(path, size)
    if not any(mark in text for mark in (NAMED, *(SAYS_MARKS if said else ()))):  # 16 MB of others' are not split
        return False
    return any(header_of(line) or (said and SAYS.match(line)) for line in text.splitlines())
