"""Read nsys's CSV reports of one recording into a `Profile`: the trace of the GPU, or else a sum by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.errors import EmptyInput, InputError, UsageError, WrongFormat
from tcprobe.foreign import head
from tcprobe.readers.nsys_stats.layout import named
from tcprobe.readers.nsys_stats.sheet import Printed, Sheet, device_table, kernels_table, trace_tables
from tcprobe.readers.one_run import check_one, few
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Note, Profile

RICHER: Final = "give tcprobe the recording itself (.nsys-rep, or its .sqlite)"
MOST_SAID: Final = 3
_NO_KERNELS: Final = re.compile(r"kernel data|GPU trace data", re.IGNORECASE)
_SUMMED: Final = (
    Note("device-unknown", "nsys stats sums over GPUs, and names none", RICHER, "note"),
    Note(
        "warm-up-inside",
        "all kernels of the recording count: nothing tells warm-up and autotuning from steps",
        f"{RICHER}, which knows more",
        "note",
    ),
)
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
    of_kernels = [path for path in files if "nvtx" not in named(path).report and head(path, 1)]
    check_one(of_kernels or files, [named(path).stem for path in files], "nsys reports of {} recordings")
    empty = [path for path in files if head(path, 1) == b""]
    printed = Printed()
    for path in files:
        if path not in empty:
            printed.add(path)
    if len(distinct := list(dict.fromkeys(Path(source).stem for source in printed.sources))) > 1:
        said = f"{files[0]}: holds nsys reports of {len(distinct)} recordings: {few(distinct)}"
        raise UsageError(said, "run nsys stats for one of them at a time")
    of_kernel = [sheet for sheet in printed.sheets if sheet.header.kind != "ranges"]
    used = max((sheet for sheet in of_kernel if sheet.rows), key=_worth, default=None)
    why = next(filter(_NO_KERNELS.search, printed.skipped), None)
    if not of_kernel and why is None:
        raise _untold(files[0], bool(printed.sheets))
    tables = _tables(used) if used else []
    notes = [*_empty(empty), *_of_kernels(used, printed)] if used else [_no_kernels(why), *_empty(empty)]
    paths = tuple(str(path) for path in files)
    metadata = Metadata(format_name, paths, "Nsight Systems (nsys stats)", gpu_used=True, notes=tuple(notes))
    return Profile(metadata).with_tables(*tables).with_absent(**_absent(used))


def _untold(path: Path, ranges: bool) -> InputError:
    """Return the error for files without a kernel that do not say that none was recorded."""
    trace = "nsys stats --report cuda_gpu_trace --format csv"
    if ranges:
        found = "holds what nsys stats says of NVTX ranges, and no kernel's time of its own"
        return EmptyInput(path, found, f"{RICHER}, or the report of its kernels: {trace}")
    found = "holds no report on kernels as CSV: nsys stats prints tables for people unless told otherwise"
    return WrongFormat(path, found, f"{RICHER}, or what this writes: {trace}")


def _worth(sheet: Sheet) -> tuple[bool, bool, bool, bool]:
    """Return what makes one report better than another of the same recording, weightiest first."""
    trace = sheet.header.kind == "trace"
    given = sheet.header.arguments
    return trace, "base" not in given, "nvtx" not in given, "gridxyz" in sheet.header.names


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


def _of_kernels(used: Sheet, printed: Printed) -> Iterator[Note]:
    """Yield what weakens the figures of the report that they are of."""
    yield from _of_names(used.header.arguments)
    yield from _cut_off(used)
    if used.coarse_ns > 1:
        said = f"times are rounded to {used.coarse_ns:,.0f} ns"
        yield Note("rounded-times", said, "run nsys stats again without --timeunit", "note")
    if used.header.kind == "sum":
        yield from _SUMMED
    if any(sheet.header.kind == "ranges" for sheet in printed.sheets):
        yield Note(
            "ranges-not-read",
            "nsys's reports on NVTX were not read: they count a kernel under each range around it, or give the "
            "span from a range's first kernel to its last, and neither is kernel time",
            f"{RICHER}: it gives each kernel to the innermost range that launched it",
            "note",
        )


def _no_kernels(said: str | None) -> Note:
    how = f"nsys says '{said[:200]}'" if said else "its report has no row"
    return Note(
        "no-kernels",
        f"nsys recorded no GPU kernel ({how}): Tensor Core use was not measured",
        "check that the workload uses the GPU, and record CUDA (nsys profile --trace=cuda,nvtx)",
        "error",
    )


def _empty(empty: Sequence[Path]) -> Iterator[Note]:
    for path in empty[:MOST_SAID]:
        yield Note(
            "empty-report",
            f"{path.name} has no byte: its report failed, though nsys ends with status 0 then",
            "run nsys stats for it again, and read what it prints",
        )


def _of_names(arguments: str) -> Iterator[Note]:
    if "base" in arguments:
        yield Note(
            "short-kernel-names",
            "the report gives kernels by their base names (:base), which tell less of them than whole names",
            "run nsys stats again without :base",
        )
    if "nvtx" in arguments:
        yield Note(
            "prefixed-kernel-names",
            "names of kernels begin with those of NVTX ranges (:nvtx-name): a word of a range may count as a kernel's",
            "run nsys stats again without :nvtx-name",
        )


def _cut_off(used: Sheet) -> Iterator[Note]:
    again = "run nsys stats again, and wait until it has ended"
    if not used.rows[-1].endswith("\n"):
        yield Note("cut-off", f"{used.path.name} ends without a line end: it may be cut off", again)
    elif used.header.kind == "sum":
        listed = float(np.nansum(used.numbers("time")))
        if listed and listed < 99.0 - 0.05 * len(used.lines):
            yield Note("cut-off", f"{used.path.name} holds {listed:.0f} % of the kernel time that nsys summed", again)
