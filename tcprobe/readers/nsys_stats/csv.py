"""Read what `nsys stats --format csv` writes: kernels one by one (the GPU trace), or summed by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.readers.nsys_stats.files import scan
from tcprobe.schema.profile import Profile

FORMAT: Final = "nsys_stats"
WHAT: Final = "the CSV of Nsight Systems (nsys stats --format csv)"


def finds(path: Path) -> list[Path]:
    """Return the CSV reports at `path`, with the empty ones beside them, which `read` warns of."""
    return scan(path)


def read(files: list[Path]) -> Profile:
    """Read the reports of one recording; see `read_profile`.

    Raises:
        UsageError: the files are of several recordings.
        InputError: a file is damaged, or no report holds kernels' times.
    """
    from tcprobe.readers.nsys_stats.profile import read_profile

    return read_profile(FORMAT, files)
