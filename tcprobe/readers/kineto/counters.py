"""Hardware counters of a trace: of `cuda_profiler_range`, a range of CUPTI's for each launch or for the whole capture.

PyTorch to 2.12 counts so with ``_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)``. The
times of these ranges are equal parts of the capture and tell nothing (libkineto/src/CuptiRangeProfiler.cpp).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.kineto.columns import Part
from tcprobe.readers.kineto.events import Counted
from tcprobe.readers.rows import BEYOND, summed
from tcprobe.schema.columns import Names, Row, Table
from tcprobe.schema.tables import KERNEL_COUNTERS, KERNELS, NAMELESS, REPORTED

_WHOLE: Final = re.compile(r"__profile__|\d+")  # of all launches; of one whose kernel Kineto did not see
_UNNAMED: Final = "__missing__"  # a kernel launched without a symbol of the program's
_PER_RANGE: Final = "cuda_profiler_range"


class _Launch(NamedTuple):
    device: int
    kernel: str
    grid: str | None = None
    block: str | None = None


class Counts(NamedTuple):
    """What CUPTI counted."""

    launches: int
    tables: tuple[Table, ...]  # `kernel_counters`, or `reported` where it counted the capture as a whole
    devices: tuple[int, ...]  # that it counted on


def read_counters(counted: Sequence[Counted], ran: Part) -> Counts:
    """Return the counters of a trace; of a launch whose kernel was recorded too, by its grid and block.

    Of a kernel without a grid a metric that is 0 in some launches and not in others is left out: they are of unlike
    sizes, and their mean is of none.
    """
    recorded = _recorded(ran)
    launches: dict[_Launch, list[dict[str, float]]] = defaultdict(list)
    whole: list[Row] = []
    for one in counted:
        device, values = one.pid, _values(one.args)
        if not isinstance(device, int) or not 0 <= device < MOST_DEVICES or not values:
            continue
        number = one.args.get("correlation") if one.args else None
        launch = recorded.get((device, number)) if number else None
        if launch is None and _WHOLE.fullmatch(one.name):
            source = f"{_PER_RANGE} {one.name} of GPU {device}"
            whole += ({"metric": metric, "value": value, "source": source} for metric, value in values.items())
            continue
        launches[launch or _Launch(device, NAMELESS if one.name == _UNNAMED else one.name)].append(values)
    rows = [row for launch, each in launches.items() for row in _means(launch, each)]
    tables = [Table.from_rows(spec, made) for spec, made in ((KERNEL_COUNTERS, rows), (REPORTED, whole)) if made]
    if launches and not ran.rows:
        tables.append(_kernels({launch: len(each) for launch, each in launches.items()}))
    count = sum(map(len, launches.values()))
    return Counts(count, tuple(tables), tuple(sorted({launch.device for launch in launches})))


def _values(args: dict[str, Any] | None) -> dict[str, float]:
    """Return the metrics among the arguments, by Nsight Compute's names (``sm__inst_executed_pipe_tensor.sum``)."""
    numbers = ((name, v) for name, v in (args or {}).items() if "__" in name and isinstance(v, int | float))
    return {name: float(v) for name, v in numbers if not isinstance(v, bool) and 0 <= v < BEYOND}


def _recorded(ran: Part) -> dict[tuple[int, Any], _Launch]:
    """Return the kernels of the trace by device and correlation."""
    device = ran.numbers["device"].astype(np.int64).tolist()
    texts = (ran.texts[name].tolist() for name in ("name", "grid", "block"))
    launches = (_Launch(gpu, name or NAMELESS, *size) for gpu, name, *size in zip(device, *texts, strict=True))
    return dict(zip(zip(device, ran.numbers["correlation"].tolist(), strict=True), launches, strict=True))


def _means(launch: _Launch, each: list[dict[str, float]]) -> Iterator[Row]:
    for metric in dict.fromkeys(name for values in each for name in values):
        numbers = [values[metric] for values in each if metric in values]
        if launch.grid is None and min(numbers) == 0 < max(numbers):
            continue
        unit = "%" if ".pct" in metric else None
        mean = {"value": sum(numbers) / len(numbers), "unit": unit, "launches": len(numbers)}
        yield {**launch._asdict(), "metric": metric, **mean}


def _kernels(launches: dict[_Launch, int]) -> Table:
    """Return `kernels` of a trace that has counters alone: how often each ran, and not how long."""
    rows = sorted(launches)
    nothing = np.full(len(rows), np.nan)
    columns = {
        "device": np.array([row.device for row in rows], np.float64),
        "kernel": Names.of([row.kernel for row in rows]),
        **summed(np.arange(len(rows)), len(rows), nothing, calls=np.array([launches[row] for row in rows])),
        "uses_tc": ["unknown"] * len(rows),
        "evidence": [""] * len(rows),
    }
    return Table(KERNELS, columns)
