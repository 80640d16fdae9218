"""Read nsys's CSV reports of one recording into a `Profile`: the trace of the GPU, or else a sum by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, UsageError, WrongFormat
from tcprobe.foreign import head
from tcprobe.readers.nsys_stats.files import named
from tcprobe.readers.nsys_stats.notes import RICHER, no_kernels_said, notes_of
from tcprobe.readers.nsys_stats.sheet import Printed, Sheet, read_printed
from tcprobe.readers.nsys_stats.tables import device_table, kernels_table, trace_tables
from tcprobe.readers.one_run import few, name_one, newest_first
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile

_SUMS: Final = "nsys stats summed the kernels by name; its report cuda_gpu_trace has each launch"
_HOST: Final = "nsys stats' reports on the GPU hold nothing of the host"
_ABSENT: Final = {
    "step_marks": _HOST,
    "host_ops": _HOST,
    "ranges": "nsys stats' reports on NVTX give no launches of a range",
    "op_details": "nsys names no ops",
}
_OF_SUMS: Final = dict.fromkeys(("launches", "launch_configs", "memory_ops", "iterations", "gaps"), _SUMS)


def read_profile(format_name: str, files: Sequence[Path]) -> Profile:
    """Read the reports of one recording.

    Nothing is added up: of several reports the one that tells most is read, a trace before a sum, whole names before
    short ones.

    Args:
        format_name: the reader's name, for the metadata.
        files: what was found.

    Raises:
        UsageError: they are of several recordings.
        InputError: a file is damaged, or holds NVTX ranges alone.
    """
    _check_one(files)
    empty = [path for path in files if head(path, 1) == b""]
    printed = [read_printed(path) for path in files if path not in empty]
    _check_source(files, printed)
    sheets = [sheet for one in printed for sheet in one.sheets]
    used = max((sheet for sheet in sheets if sheet.header.kind != "ranges" and sheet.rows), key=_worth, default=None)
    if used is None:
        _check_told(files, printed)
    tables = [] if used is None else _tables(used)
    metadata = Metadata(
        format_name,
        tuple(str(path) for path in files),
        "Nsight Systems (nsys stats)",
        gpu_used=True,
        notes=notes_of(used, printed, empty),
    )
    profile = Profile(metadata).with_tables(*tables)
    return profile.with_absent(**{name: why for name, why in _absent(used).items() if name not in profile.tables})


def _check_one(files: Sequence[Path]) -> None:
    stems = dict.fromkeys(named(path).stem for path in files)
    if len(stems) > 1:
        of_kernels = [path for path in files if "nvtx" not in named(path).report and head(path, 1)]
        said = f"{files[0].parent}: nsys reports of {len(stems)} recordings lie here: {few(list(stems))}"
        raise UsageError(said, name_one(newest_first(set(of_kernels or files))))


def _check_source(files: Sequence[Path], printed: Sequence[Printed]) -> None:
    sources = [source for one in printed for source in one.sources]
    distinct = list(dict.fromkeys(Path(source).stem for source in sources))
    if len(distinct) > 1:
        said = f"{files[0]}: holds nsys reports of {len(distinct)} recordings: {few(distinct)}"
        raise UsageError(said, "run nsys stats for one of them at a time")


def _check_told(files: Sequence[Path], printed: Sequence[Printed]) -> None:
    """Raise unless files without a kernel say that none was recorded."""
    sheets = [sheet for one in printed for sheet in one.sheets]
    if any(sheet.header.kind != "ranges" for sheet in sheets) or no_kernels_said(printed):
        return
    trace = "nsys stats --report cuda_gpu_trace --format csv"
    if sheets:
        found = "holds what nsys stats says of NVTX ranges, and no kernel's time of its own"
        raise EmptyInput(files[0], found, f"{RICHER}, or the report of its kernels: {trace}")
    found = "holds no report on kernels as CSV: nsys stats prints tables for people unless told otherwise"
    raise WrongFormat(files[0], found, f"{RICHER}, or what this writes: {trace}")


def _worth(sheet: Sheet) -> tuple[bool, bool, bool, bool]:
    """Return what makes one report better than another of the same recording, weightiest first."""
    trace = sheet.header.kind == "trace"
    return trace, "base" not in sheet.arguments, "nvtx" not in sheet.arguments, "gridxyz" in sheet.header.names


def _tables(used: Sheet) -> list[Table]:
    if used.header.kind == "trace":
        tables = trace_tables(used)
        return tables if len(tables[0]) else tables[2:]
    return [kernels_table(used), device_table({0: ""}, [0])]


def _absent(used: Sheet | None) -> dict[str, str]:
    if used is None:
        reason = "nsys recorded no kernel"
        return {**_ABSENT, **dict.fromkeys(_OF_SUMS, reason), "kernels": reason, "devices": reason}
    return _ABSENT if used.header.kind == "trace" else {**_ABSENT, **_OF_SUMS}
