"""What the cost model says of a day's measurements: of resize pairs, and of products by kind."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.accuracy import Predicted, accuracy
from bench.gpu.costs.calibrate import CONSTANTS
from bench.gpu.costs.pairs import LAYOUTS, record_of
from bench.gpu.costs.timings import TABLE
from bench.gpu.tables import read_table
from tcprobe.calibration.check import ALL, kind_of_row, split_rows
from tcprobe.cost.constants import Constants
from tcprobe.cost.measured import LIBRARIES, Measurement, measurements_of
from tcprobe.cost.predict import Cost, Target, gains, op_cost
from tcprobe.hardware import Gpu, find_gpu

Cells = dict[str, str | float | None]
UNKNOWN: Final = (None, None, None)
NEWEST: Final = "cublas12"
"""Of a framework that does not say for which CUDA it was built."""


def pairs(folder: Path, gpu_id: str | None) -> list[Cells]:
    """Return each timed pair beside its prediction, in the order in which they were timed.

    Args:
        folder: ``DIR/costs/pairs-FRAMEWORK``; ``constants.json`` of the same framework is looked for beside it.
        gpu_id: the GPU in gpus.csv; None if it is not there: then nothing is predicted.

    Returns:
        Rows of `pair`, `op`, `pass`, `dtype`, `shape_from`, `shape_to`; `ratio` (to over from) and `spread_pct`, as
        measured; `shipped_low`, `shipped`, `shipped_high`, and `calibrated_...` likewise: the predicted ratio, None
        where there is none. Pairs that could not be timed are left out.
    """
    gpu = find_gpu(gpu_id) if gpu_id is not None else None
    framework = str(json.loads((folder / "unit.json").read_text(encoding="utf-8"))["framework"])
    own = constants_of(folder.with_name(f"calibrate-{framework}"))
    rows = []
    for row in read_table(folder / TABLE):
        if row["status"] != "ran":
            continue
        cells: Cells = {k: row[k] for k in ("pair", "op", "pass", "dtype", "shape_from", "shape_to")}
        cells |= {name: float(row[name]) for name in ("ratio", "spread_pct")}
        for name, constants in (("shipped", None), ("calibrated", own)):
            known = gpu is not None and (name == "shipped" or (constants is not None and constants.gpu == gpu.id))
            found = predicted_ratio(row, gpu, framework, constants) if gpu and known else UNKNOWN
            cells |= dict(zip((f"{name}_low", name, f"{name}_high"), found, strict=True))
        rows.append(cells)
    return rows


def predicted_ratio(
    row: Mapping[str, str], gpu: Gpu, framework: str, constants: Constants | None
) -> tuple[float | None, ...]:
    """Return the least, likely and largest ratio that is predicted of a row of ``pairs.csv.gz``; Nones if unknown."""
    target = Target(gpu, LIBRARIES.get(row["library"], NEWEST), framework == "jax", False, constants)
    before, after = (op_cost(record_of(row, shape), target) for shape in ("shape_from", "shape_to"))
    return UNKNOWN if before is None or after is None else ratio(before, after)


def ratio(before: Cost, after: Cost) -> tuple[float, float, float]:
    """Return the least, likely and largest of the time after a change over the time before, launches included.

    It follows `gains`: ends are compared with each other, unless the two errors have nothing to do with each other.
    """
    together = before.own_rate == after.own_rate
    times = (before.low_ns, before.ns, before.high_ns) if together else (before.ns,) * 3
    found = [
        max(0.0, (time - gain + after.launch_ns) / (time + before.launch_ns))
        for time, gain in zip(times, gains(before, after), strict=True)
    ]
    return min(found), found[1], max(found)


def products(raw_path: Path, gpu_id: str, constants: Constants | None = None) -> list[Cells]:
    """Return how well the model predicts a GPU's measured products, by kind; the last row is of all.

    Args:
        raw_path: ``raw.csv.gz``, or the CSV itself.
        gpu_id: the GPU; its rows are looked at.
        constants: calibrated ones: only the products that they were not fitted to are looked at. None for shipped ones.

    Returns:
        Rows of `kind` (``unaligned GEMMs``), `part` (layout of a GEMM, pass of a convolution), `dtype`, `products`,
        `error_pct` (mean absolute error), `bias_pct` (above 0: predicted too slow), `in_range_pct` (share within the
        predicted range).
    """
    gpu, data = find_gpu(gpu_id), raw_path.read_bytes()
    text = (gzip.decompress(data) if raw_path.suffix == ".gz" else data).decode("utf-8")
    rows = [row for row in measurements_of(text, raw_path) if row.gpu == gpu.id]
    found: dict[tuple[str, str, str], list[Predicted]] = defaultdict(list)
    for row in rows if constants is None else split_rows(rows)[1]:
        cost = op_cost(row.record, Target(gpu, row.library, tf32=False, constants=constants))
        if cost is not None:
            launch = cost.launch_ns
            one = Predicted(row.time_ns, cost.ns + launch, cost.low_ns + launch, cost.high_ns + launch)
            found[kind_of_row(row, gpu), part_of(row), str(row.record.dtype)].append(one)
    every = [one for some in found.values() for one in some]
    kinds = [*sorted(found.items()), *([((ALL, "", ""), every)] if every else [])]
    return [_cells(*kind, some) for kind, some in kinds]


def constants_of(folder: Path) -> Constants | None:
    """Return the constants in a folder of results; None without any."""
    path = folder / CONSTANTS
    return Constants.from_json(path.read_text(encoding="utf-8"), path) if path.exists() else None


def part_of(row: Measurement) -> str:
    """Return the layout of a GEMM (nn, nt, tn, tt), or the pass of a convolution."""
    attributes = row.record.attributes
    for left, right in (("transpose_a", "transpose_b"), ("adj_x", "adj_y")):
        if left in attributes:
            flags = bool(attributes[left]), bool(attributes[right])
            return next(name for name, known in LAYOUTS.items() if known == flags)
    return str(row.record.pass_)


def _cells(kind: str, part: str, dtype: str, some: list[Predicted]) -> Cells:
    of = accuracy(some)
    figures = {"error_pct": of.error_pct, "bias_pct": of.bias_pct, "in_range_pct": of.in_range_pct}
    return {"kind": kind, "part": part, "dtype": dtype, "products": of.products, **figures}
