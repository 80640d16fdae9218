"""Say what the figures of nsys's reports include, and what they lack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.readers.nsys_stats.sheet import Printed, Sheet
from tcprobe.schema.profile import Note

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


def notes_of(used: Sheet | None, printed: Sequence[Printed], empty: Sequence[Path]) -> tuple[Note, ...]:
    """Return all notes, the gravest first.

    Args:
        used: the report that the figures are of; None where none holds a kernel.
        printed: all that was read.
        empty: files without a byte beside them.
    """
    if used is None:
        return (_no_kernels(printed), *_empty(empty))
    found = [*_empty(empty), *_of_names(used), *_cut_off(used, printed), *_rounded(used)]
    if used.header.kind == "sum":
        found += _SUMMED
    if any(sheet.header.kind == "ranges" for one in printed for sheet in one.sheets):
        found.append(
            Note(
                "ranges-not-read",
                "nsys's reports on NVTX were not read: they count a kernel under each range around it, or give the "
                "span from a range's first kernel to its last, and neither is kernel time",
                f"{RICHER}: it gives each kernel to the innermost range that launched it",
                "note",
            )
        )
    return tuple(found)


def no_kernels_said(printed: Sequence[Printed]) -> str | None:
    """Return nsys's words where it says that a recording holds no kernel."""
    return next((why for one in printed for why in one.skipped if _NO_KERNELS.search(why)), None)


def _no_kernels(printed: Sequence[Printed]) -> Note:
    said = no_kernels_said(printed)
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


def _of_names(used: Sheet) -> Iterator[Note]:
    if "base" in used.arguments:
        yield Note(
            "short-kernel-names",
            "the report gives kernels by their base names (:base), which tell less of them than whole names",
            "run nsys stats again without :base",
        )
    if "nvtx" in used.arguments:
        yield Note(
            "prefixed-kernel-names",
            "names of kernels begin with those of NVTX ranges (:nvtx-name): a word of a range may count as a kernel's",
            "run nsys stats again without :nvtx-name",
        )


def _cut_off(used: Sheet, printed: Sequence[Printed]) -> Iterator[Note]:
    again = "run nsys stats again, and wait until it has ended"
    if any(not one.whole for one in printed if used in one.sheets):
        yield Note("cut-off", f"{used.path.name} ends without a line end: it may be cut off", again)
    elif used.header.kind == "sum":
        listed = float(np.nansum(used.numbers("time")))
        if listed and listed < 99.0 - 0.05 * len(used.rows):
            yield Note("cut-off", f"{used.path.name} holds {listed:.0f} % of the kernel time that nsys summed", again)


def _rounded(used: Sheet) -> Iterator[Note]:
    if used.coarse_ns > 1:
        said = f"times are rounded to {used.coarse_ns:,.0f} ns"
        yield Note("rounded-times", said, "run nsys stats again without --timeunit", "note")
