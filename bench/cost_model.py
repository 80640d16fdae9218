"""Measure how well the cost model predicts products to which its constants were not fitted: serving stacks, benchmarks.

Usage: python bench/cost_model.py [SAMPLES]

SAMPLES is the folder of measured products (see `fit_cost.py`), `../shared/samples/gemm` beside the checkout by default.
`fit_framework.py` tests the constants of frameworks.
One line per set: products tested, mean absolute error of all and of those above 0.1 ms, median error, share within
25 %, share inside the range that is shown, and the mean error of a plain roofline at full peak and bandwidth. The
figures come from `op_cost`, one call per product. Exits 1 if a promised bound is missed, 2 without samples.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

from fit_cost import DEFAULT, Measured, samples

from tcprobe.cost.dtype import compute_units_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.works import task_of
from tcprobe.hardware import find_gpu

LONG_NS = 1e5
# set -> maximum mean absolute error above 0.1 ms and of all, in percent
PROMISED = {f"{gpu} gemm bfloat16": (9.0, 12.0) for gpu in ("a100-sxm-80", "h100-sxm", "h200-sxm")}
HEADER = ("set", "n", "all %", ">0.1ms %", "median %", "<25 % off", "in range", "roofline %")


def predicted(measured: Measured) -> tuple[float, float, float, float]:
    """Return the predicted time, its range, and the time of a plain roofline, in ns."""
    gpu, record = find_gpu(measured.row.gpu), measured.row.record
    cost = op_cost(record, Target(gpu, measured.row.library, through="serving"))
    units = compute_units_of(record.dtype, gpu, True)
    task = task_of(record, units.width) if units else None
    assert cost is not None and units is not None and task is not None, record
    moved = sum(work.moved_bytes for work, _ in task.works)
    roofline = 1e9 * max(task.flops / units.flop_per_s, moved / gpu.bandwidth_bytes_per_s)
    return cost.ns, cost.low_ns, cost.high_ns, roofline


def line(rows: list[Measured]) -> tuple[list[str], float, float]:
    """Return the figures of one set as text, and the two promised errors."""
    off, long, inside, plain = [], [], 0, []
    for measured in rows:
        time = measured.row.time_ns
        ns, low, high, roofline = predicted(measured)
        off.append(100 * abs(ns / time - 1))
        plain.append(100 * abs(roofline / time - 1))
        inside += low <= time <= high
        if time > LONG_NS:
            long.append(off[-1])
    every, above = statistics.fmean(off), statistics.fmean(long) if long else 0.0
    near = 100 * sum(o <= 25 for o in off) / len(off)
    figures = (every, above, statistics.median(off), near, 100 * inside / len(off), statistics.fmean(plain))
    return [f"{len(rows)}", *(f"{figure:.1f}" for figure in figures)], above, every


def sets(found: list[Measured]) -> dict[str, list[Measured]]:
    """Return the tested products by GPU, kind, dtype, and pass of a convolution; those of few channels are separate."""
    by_set: dict[str, list[Measured]] = defaultdict(list)
    for measured in found:
        if measured.train:
            continue
        record = measured.row.record
        conv = record.op_type.startswith("Conv2D")
        kind = f"conv {record.pass_}" if conv else "gemm"
        by_set[f"{measured.row.gpu} {kind} {record.dtype}"].append(measured)
    return by_set


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    by_set = sets(samples(folder))
    if not by_set:
        print(f"no measured products in {folder}: nothing tested", file=sys.stderr)
        return 2
    missed = [f"{name}: its samples are absent" for name in PROMISED if name not in by_set]
    print(f"{HEADER[0]:34}" + "".join(f"{name:>12}" for name in HEADER[1:]))
    for name, rows in by_set.items():
        cells, above, every = line(rows)
        print(f"{name:34}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
        for figure, bound, what in zip(
            (above, every), PROMISED.get(name, (1e9, 1e9)), ("> 0.1 ms", "all"), strict=True
        ):
            if figure > bound:
                missed.append(f"{name}: {figure:.1f} % {what}, promised {bound:.0f} %")
    for text in missed:
        print(f"MISSED {text}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
