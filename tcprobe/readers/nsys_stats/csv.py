"""Find and read what `nsys stats --format csv` writes: kernels one by one (the GPU trace), or summed by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.foreign import below, head
from tcprobe.readers.nsys_stats.layout import PROCESSING, header_of, named
from tcprobe.readers.rows import start_of
from tcprobe.schema.profile import Profile

FORMAT: Final = "nsys_stats"
WHAT: Final = "the CSV of Nsight Systems (nsys stats --format csv)"
PEEK: Final = 1 << 14
LONG_PEEK: Final = 1 << 20  # of a file that the user names: the program may have printed much before
_ENDINGS: Final = (".csv", ".tsv", ".txt")


def finds(path: Path) -> list[Path]:
    """Return the reports at `path`: itself, or those in a directory and below, sorted.

    In a directory an empty file counts where its name is that of a report and another one of its recording is there.
    """
    if not path.is_dir():
        return [path] if _is_report(path, LONG_PEEK) else []
    files = below(path, lambda name: name.lower().endswith(_ENDINGS)).files
    found = [one for one in files if _is_report(one, PEEK)]
    homes = {(one.parent, named(one).stem) for one in found}
    empty = [one for one in files if named(one).report and head(one, 1) == b""]
    return sorted([*found, *(one for one in empty if (one.parent, named(one).stem) in homes)])


def read(files: list[Path]) -> Profile:
    """Read the reports of one recording; see `read_profile`.

    Raises:
        UsageError: the files are of several recordings.
        InputError: a file is damaged, or no report holds kernels' times.
    """
    from tcprobe.readers.nsys_stats.profile import read_profile

    return read_profile(FORMAT, files)


def _is_report(path: Path, size: int) -> bool:
    return any(header_of(line) or PROCESSING.match(line) for line in start_of(path, size).splitlines())
