"""Find the CSV reports of nsys among other files by what they hold, and tell by their names which belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcprobe.foreign import below, head
from tcprobe.readers.nsys_stats.layout import header_of, processing_of
from tcprobe.readers.rows import start_of

PEEK: Final = 1 << 14
LONG_PEEK: Final = 1 << 20  # of a file that the user names: the program may have printed much before
_ENDINGS: Final = (".csv", ".tsv", ".txt")
_REPORTS: Final = (
    *("cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum", "cuda_gpu_trace", "gpukernsum", "gputrace"),
    *("nvtx_kern_sum", "nvtx_gpu_proj_trace", "nvtx_gpu_proj_sum", "nvtx_pushpop_trace", "nvtx_pushpop_sum"),
    *("nvtx_sum", "nvtxkernsum", "nvtxgpuproj", "nvtxpptrace", "nvtxppsum", "nvtxsum"),
)
_NAME: Final = re.compile(rf"(?P<stem>.*?)_?(?P<report>{'|'.join(_REPORTS)})(?P<arguments>_[\w:-]*)?")


@dataclass(frozen=True, slots=True)
class Named:
    """What the name of a file says, as ``nsys stats --output`` makes it: STEM_REPORT_ARGUMENTS.csv.

    Attributes:
        stem: of the recording; the whole name of a file that is named otherwise.
        report: its name, empty where the file is named otherwise.
        arguments: such as ``base`` or ``nvtx-name_base``.
    """

    stem: str
    report: str = ""
    arguments: str = ""


def named(path: Path) -> Named:
    """Return what a file's name says."""
    found = _NAME.fullmatch(path.stem)
    return Named(found["stem"], found["report"], (found["arguments"] or "")[1:]) if found else Named(path.stem)


def scan(path: Path) -> list[Path]:
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


def _is_report(path: Path, size: int) -> bool:
    return any(header_of(line) or processing_of(line) for line in start_of(path, size).splitlines())
