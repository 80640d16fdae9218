"""Read one CSV file of Nsight Compute's into a `Profile`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.foreign import head
from tcprobe.readers.ncu.lines import REPORT
from tcprobe.readers.ncu.pages import joined
from tcprobe.readers.ncu.report import read_report, reads_reports
from tcprobe.readers.ncu.sheet import Sheet, read_sheet
from tcprobe.readers.ncu.tables import Launched, counters_table, devices_table, kernels_table
from tcprobe.readers.ncu.units import NS
from tcprobe.readers.one_run import not_one_run
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Metadata, Note, Profile
from tcprobe.tensor_metrics import DURATION, tensor_metrics

UNCONTROLLED: Final = "Note: Running with un"  # ...controlled GPU caches, ...modified GPU clocks
MOST_SAID: Final = 3
MOST_PAGES: Final = 2  # page raw and page details
TENSOR: Final = "tensor"
_SERIAL: Final = "Nsight Compute runs kernels one at a time, outside the course of a step"
_ABSENT: Final = {
    "launches": _SERIAL,
    "launch_configs": _SERIAL,
    "iterations": _SERIAL,
    "gaps": _SERIAL,
    "step_marks": _SERIAL,
    "op_details": "Nsight Compute names no ops",
    "host_ops": "Nsight Compute records nothing of the host",
    "memory_ops": "Nsight Compute profiles no copies",
    "ranges": "Nsight Compute gives its NVTX ranges no times",
    "kernel_counters": "the file holds no hardware counter",
}


def read_profile(format_name: str, files: Sequence[Path]) -> Profile:
    """Read the file that was found, or page raw and page details of one report.

    Args:
        format_name: the reader's name, for the metadata.
        files: what was found.

    Raises:
        UsageError: there are several files, and they are not the pages of one report.
        InputError: a file is damaged, or holds no launch.
    """
    if len(files) > MOST_PAGES:
        raise not_one_run(files, "each report of Nsight Compute is read by itself")
    sheets = [_read(path) for path in files]
    sheet = sheets[0] if len(files) == 1 else joined(files, sheets)
    launched = Launched.of(sheet)
    counters = counters_table(launched)
    tables = [kernels_table(launched), devices_table(launched), *([] if counters is None else [counters])]
    notes = notes_of(sheet, launched.duration_ns, bool((launched.device < 0).any()))
    metadata = Metadata(format_name, tuple(map(str, files)), "Nsight Compute", gpu_used=True, notes=notes)
    return Profile(metadata, traits=frozenset({"serialises_kernels"})).with_tables(*tables).with_absent(**_ABSENT)


def _read(path: Path) -> Sheet:
    return read_report(path) if head(path, len(REPORT)) == REPORT and reads_reports() else read_sheet(path)


def notes_of(sheet: Sheet, durations: FloatArray, nameless: bool) -> tuple[Note, ...]:
    """Return all notes, those that weaken a figure first.

    Args:
        sheet: what the file holds.
        durations: of its launches in ns, NaN where not known.
        nameless: whether launches name no GPU.
    """
    found = [*_said(sheet), *_times(sheet, durations), *_counters(sheet)]
    if sheet.sign == ",":
        message = "Nsight Compute printed numbers with a decimal comma: 1.234,5 is read as 1234.5"
        found.append(Note("decimal-commas", message, level="note"))
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
    uncontrolled = [line for line in sheet.said if line.startswith(UNCONTROLLED)]
    if others := [line for line in sheet.said if line not in uncontrolled]:
        said = "; ".join(line[:200] for line in dict.fromkeys(others[:MOST_SAID]))
        more = f" and {len(others) - MOST_SAID} more" if len(others) > MOST_SAID else ""
        yield Note("ncu-says", f"Nsight Compute says: {said}{more}", "launches may be missing: record again")
    if uncontrolled:
        message = "Nsight Compute left caches or clocks as they were (--cache-control none, --clock-control none)"
        yield Note("ncu-uncontrolled", f"{message}: times and shares of memory vary from run to run", level="note")


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
            f"let ncu count them, and export page raw: --metrics {','.join(tensor_metrics())}",
        )
