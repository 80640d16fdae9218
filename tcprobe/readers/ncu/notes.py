"""Say what Nsight Compute's figures are of, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.readers.ncu.sheet import DURATION, Sheet
from tcprobe.readers.ncu.units import NS
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Note

MOST_SAID: Final = 3
TENSOR: Final = "tensor"
COUNTERS: Final = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


def notes_of(sheet: Sheet, durations: FloatArray, nameless: bool) -> tuple[Note, ...]:
    """Return all notes, those that weaken a figure first.

    Args:
        sheet: what the file holds.
        durations: of its launches in ns, NaN where not known.
        nameless: whether launches name no GPU.
    """
    found = [*_said(sheet), *_times(sheet, durations), *_counters(sheet)]
    if nameless:
        found.append(Note("device-unknown", "launches name no GPU, and count as one GPU's", level="note"))
    found.append(
        Note(
            "profiled-alone",
            f"Nsight Compute ran each of the {sheet.rows:,} launch(es) alone, as often as its counters needed and, "
            "unless told otherwise (--clock-control none), at base clock: their times are those of no step",
            "take the times from a profile of steps (tcprobe profile), and the classes from here",
            "note",
        )
    )
    found.append(
        Note(
            "warm-up-inside",
            "all launches in Nsight Compute's file count: nothing tells warm-up and autotuning from steps",
            "have Nsight Compute profile a step alone (--nvtx --nvtx-include, or --launch-skip and --launch-count)",
            "note",
        )
    )
    return tuple(found)


def _said(sheet: Sheet) -> Iterator[Note]:
    if sheet.said:
        said = "; ".join(line[:200] for line in dict.fromkeys(sheet.said[:MOST_SAID]))
        more = f" and {len(sheet.said) - MOST_SAID} more" if len(sheet.said) > MOST_SAID else ""
        yield Note("ncu-says", f"Nsight Compute says: {said}{more}", "launches may be missing: record again")


def _times(sheet: Sheet, durations: FloatArray) -> Iterator[Note]:
    missing = int(np.isnan(durations).sum())
    if missing:
        unit = sheet.metrics[DURATION].unit if DURATION in sheet.metrics else NS
        why = "not there" if unit == NS else "in no unit of time" if unit else "without its unit"
        yield Note(
            "no-durations",
            f"the time of {missing:,} of {sheet.rows:,} launches ({DURATION}) is {why}: what needs it is not known",
            f"let ncu count it too: --metrics {DURATION},...",
        )


def _counters(sheet: Sheet) -> Iterator[Note]:
    if not any(TENSOR in name for name in sheet.metrics):
        yield Note(
            "no-tensor-counters",
            "no counter of the file is of the Tensor Cores: classes rest on names",
            f"let ncu count them, and export page raw: --metrics {DURATION},{COUNTERS}",
        )
