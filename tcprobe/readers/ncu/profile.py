"""Read one CSV file of Nsight Compute's into a `Profile`.

Its tables are of launches: kernels by name, their counters by configuration, and the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.foreign import head
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.ncu.lines import NS, REPORT
from tcprobe.readers.ncu.pages import joined
from tcprobe.readers.ncu.report import read_report, reads_reports
from tcprobe.readers.ncu.sheet import GPU_NAME, Sheet, read_sheet
from tcprobe.readers.one_run import not_one_run
from tcprobe.readers.rows import costliest, gpu_row, named_kernels, summed
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table, Value, concatenate
from tcprobe.schema.profile import Metadata, Note, Profile
from tcprobe.schema.tables import DEVICES, KERNEL_COUNTERS, KERNELS
from tcprobe.tensor_metrics import DURATION, tensor_metrics

LARGEST: Final = float(2**53)  # whole numbers are exact below it; 104 days in ns
_ATTRIBUTE: Final = "device__attribute_"
# Properties of the launch, the GPU and the machine, and rates that the GPU could reach, are no counters.
_NO_COUNTER: Final = re.compile(
    r"(?:launch|device|numa|nvlink|c2clink|profiler)__.*|.*\.peak_sustained(?:_\w+)?(?:\..*)?"
)
_FIGURES: Final = {"sm_count": "multiprocessor_count", "clock_khz": "clock_rate", "memory_bytes": "total_memory"}
_OF_A_CONFIGURATION: Final = {
    "registers": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
    "occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
}


class Launched(Struct, frozen=True):
    """The launches of a file, in groups."""

    sheet: Sheet  # all that is known of each
    device: IntArray  # ordinal, -1 where not known
    # kernel, grid, block: of each launch.
    kernel: Names
    grid: Names
    block: Names
    duration_ns: FloatArray  # NaN where not known
    first: IntArray  # launch that begins each configuration: device, kernel, grid and block
    config: IntArray  # configuration of each launch

    @classmethod
    def of(cls, sheet: Sheet) -> Launched:
        """Group the launches of a sheet."""
        device = np.nan_to_num(sheet.devices(), nan=-1).astype(np.int64)
        device[device >= MOST_DEVICES] = -1
        kernel = named_kernels(sheet.texts("Kernel Name"))
        grid, block = sheet.sizes("grid"), sheet.sizes("block")
        first, config = distinct_rows(device, kernel.ids, grid.ids, block.ids)
        return cls(sheet, device, kernel, grid, block, durations(sheet), first, config)

    @property
    def ordinal(self) -> FloatArray:
        """The device of each launch, NaN where not known."""
        return np.where(self.device < 0, np.nan, self.device)


def durations(sheet: Sheet) -> FloatArray:
    """Return the time of each launch in ns, NaN where the file has none, or not as a time."""
    spent, found = np.full(sheet.rows, np.nan), sheet.metrics.get(DURATION)
    if found is not None and found.unit == NS:
        known = (found.values >= 0) & (found.values < LARGEST / max(sheet.rows, 1))
        spent[known] = np.round(found.values[known])
    return spent


def kernels_table(launched: Launched) -> Table:
    """Return `kernels`: a row per GPU and kernel name; a time that one of its launches lacks is NA."""
    first, kernel = distinct_rows(launched.device, launched.kernel.ids)
    chosen = launched.first[_costliest(launched, kernel, len(first))]
    columns: dict[str, Any] = {
        "device": launched.ordinal[first],
        "kernel": launched.kernel.take(first),
        **summed(kernel, len(first), launched.duration_ns),
        "uses_tc": ["unknown"] * len(first),
        "evidence": [""] * len(first),
        "grid": launched.grid.take(chosen),
        "block": launched.block.take(chosen),
        **{name: _possible(launched.sheet.metric(metric)[chosen]) for name, metric in _OF_A_CONFIGURATION.items()},
    }
    return Table(KERNELS, columns)


def _possible(values: FloatArray) -> FloatArray:
    """Return figures that count something, NaN for those that cannot."""
    return np.where((values >= 0) & (values < LARGEST), values, np.nan)


def _costliest(launched: Launched, kernel: IntArray, kernels: int) -> IntArray:
    """Return the configuration of each kernel that took the most time, or where no time is known the most launches."""
    weight = np.ones(len(kernel)) if np.isnan(launched.duration_ns).any() else launched.duration_ns
    total = np.bincount(launched.config, weights=weight, minlength=len(launched.first))
    backwards = costliest(kernel[launched.first][::-1], kernels, total[::-1])  # of several the first
    return len(total) - 1 - backwards


def counters_table(launched: Launched) -> Table | None:
    """Return `kernel_counters`: the mean of each counter over the launches of a configuration; None without one."""
    parts = [
        _means(launched, name, metric.values, metric.unit)
        for name, metric in launched.sheet.metrics.items()
        if name != DURATION and not _NO_COUNTER.fullmatch(name)
    ]
    return concatenate(KERNEL_COUNTERS, parts) if parts else None


def _means(launched: Launched, name: str, values: FloatArray, unit: str) -> Table:
    known = ~np.isnan(values)
    count = np.bincount(launched.config[known], minlength=len(launched.first))
    total = np.bincount(launched.config[known], weights=values[known], minlength=len(launched.first))
    rows = np.flatnonzero(count)
    first = launched.first[rows]
    columns = {
        "device": launched.ordinal[first],
        "kernel": launched.kernel.take(first),
        "grid": launched.grid.take(first),
        "block": launched.block.take(first),
        "metric": _same(name, len(rows)),
        "value": total[rows] / count[rows],
        "unit": _same(unit or None, len(rows)),
        "launches": count[rows],
    }
    return Table(KERNEL_COUNTERS, columns)


def _same(text: str | None, rows: int) -> Names:
    return Names.missing(rows) if text is None else Names(np.zeros(rows, np.int32), [text])


def devices_table(launched: Launched) -> Table:
    """Return the GPUs that ran launches; where none is named, one stands for those that did."""
    ordinals, first = np.unique(launched.device, return_index=True)
    if ordinals[-1] >= 0:
        first = first[ordinals >= 0]
    return Table.from_rows(DEVICES, [_device(launched, int(row)) for row in first])


def _device(launched: Launched, row: int) -> dict[str, Value]:
    """Describe the GPU that ran a launch."""
    sheet, ordinal = launched.sheet, max(int(launched.device[row]), 0)
    mine: NDArray[np.bool_] = launched.device == launched.device[row]
    name = _first_text(sheet.texts(GPU_NAME), mine)
    figures = {column: _first(sheet, f"{_ATTRIBUTE}{which}", mine) for column, which in _FIGURES.items()}
    clock, width = (_first(sheet, f"{_ATTRIBUTE}{w}", mine) for w in ("memory_clock_rate", "global_memory_bus_width"))
    return {
        **gpu_row(ordinal, name, ran=True),
        "compute_capability": _first_text(sheet.capabilities(), mine),
        **figures,
        # two transfers a clock, as the driver counts it: CUDA C++ Programming Guide, device query
        "bandwidth_bytes_per_s": None if clock is None or width is None else 2 * clock * 1000 * width / 8,
    }


def _first_text(texts: Names, rows: NDArray[np.bool_]) -> str | None:
    known = np.flatnonzero(rows & (texts.ids >= 0))
    return texts[int(known[0])] if len(known) else None


def _first(sheet: Sheet, metric: str, rows: NDArray[np.bool_]) -> float | None:
    """Return the first figure of a GPU that is known and above 0; None where there is none."""
    values = sheet.metric(metric)
    known = np.flatnonzero(rows & (values > 0) & (values < LARGEST))
    return float(values[known[0]]) if len(known) else None


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
