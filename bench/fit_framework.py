"""Fit the constants of a framework to PyTorch's timings of cuBLAS, and test them on the products left out.

Usage: python bench/fit_framework.py FOLDER > tcprobe/cost/rates.json

FOLDER holds `a100_mm.zip` and `h100_mm.zip` of github.com/AlnisM/autoheuristic-datasets: PyTorch's `mm`, called once
between two events, after the cache was emptied. The set has no licence: its rows stay where they are, and only
coefficients are printed, among those that tcprobe ships already. A seeded half of the aligned shapes is fitted, from
the constants of the same GPU's serving stack: share of the peak, share of the bandwidth, launch, and the filling of a
tile's pipeline. Errors on the other half go to standard error, one line per set, as `op_cost` predicts it:

- fitted: with the constants printed;
- serving: with those of the serving stack, as the kernels alone would run;
- inferred: with the serving stack's, what the A100 loses through PyTorch put on them: what a GPU gets whose framework
  nobody has timed. The shipped constants of the A100 are taken: run again after they have changed.

The H100 of the set moves 2.28 TB/s at the most: more than the PCIe board can (2.0), and 68 % of what the SXM board with
HBM3 can (3.35), where the A100 reaches 82 %. It is taken for the board with 96 GB of HBM2e (2.4 TB/s, 500 W) that
PyTorch's developers use (pytorch/torchtitan, docs/performance.md); that is an inference from the rates.
"""

from __future__ import annotations

import io
import statistics
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fit_cost import body_of, in_train, rounded, shipped_entries, text_of

from tcprobe.cost.alignment import product_level
from tcprobe.cost.constants import Constants, Rate, RateFamily
from tcprobe.cost.dtype import compute_units_of
from tcprobe.cost.fit import FEWEST_FOR_ALL, Sample, fit_rate, launch_told_apart
from tcprobe.cost.measured import Measurement, gemm_record
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.shipped import inferred_rate
from tcprobe.cost.tiles import Chip, Work
from tcprobe.cost.works import task_of
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.op import OpRecord
from tcprobe.schema.provenance import Stack

FILES = {"a100-sxm-80": "a100_mm.zip", "h100-sxm-96": "h100_mm.zip"}
SOURCE = "autoheuristic-datasets, PyTorch's cuBLAS, 2024"
STACK = Stack("framework", "PyTorch")
CUBLAS = "extern_mm"
TRAIN_PCT = 50
MOVED = ("t0_ns", "emax", "bwf", "fill_k")
MOVED_IN_TF32 = ("emax", "bwf", "fill_k")  # hardly a product of it is short enough to show a launch
LONG_NS = 1e5
DTYPES = {"torch.float16": "float16", "torch.bfloat16": "bfloat16"}


def rows(folder: Path, gpu: str) -> Iterator[tuple[Measurement, bool]]:
    """Yield each product of a GPU timed through cuBLAS, the median of its timings, and whether it is fitted.

    Products whose operands are parts of larger tensors are left out.
    """
    path = folder / FILES[gpu]
    if not path.is_file():
        return
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for line in _lines(path):
        times[tuple(line[:-1])].append(float(line[-1]) * 1e6)
    for (m, n, k, dtype, *strides, tf32), found in times.items():
        record = _record(int(m), int(n), int(k), _dtype(str(dtype), str(tf32)), [int(s) for s in strides])
        if record is not None:
            row = Measurement(gpu, "cublas12", record, statistics.median(found), SOURCE)
            yield row, in_train((int(m), int(n), int(k)), TRAIN_PCT)


def _lines(path: Path) -> Iterator[list[Any]]:
    import pandas as pd

    columns = ["m", "n", "k", "mat1_dtype", "mat1_stride_0", "mat1_stride_1", "mat2_stride_0", "mat2_stride_1"]
    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".txt")):
            table = pd.read_csv(io.BytesIO(archive.read(name)), skiprows=1)
            chosen = table[table["choice"] == CUBLAS]
            yield from chosen[[*columns, "using_tf32", "feedback"]].to_numpy().tolist()


def _dtype(dtype: str, tf32: str) -> str:
    return DTYPES.get(dtype) or ("tf32" if tf32 == "True" else "float32")


def _record(m: int, n: int, k: int, dtype: str, strides: Sequence[int]) -> OpRecord | None:
    """Return a product whose operands are contiguous; None if one is not."""
    flips = []
    for (rows, columns), (down, right) in (((m, k), strides[:2]), ((k, n), strides[2:])):
        if right == 1 and (down == columns or rows == 1):
            flips.append(False)
        elif down == 1 and (right == rows or columns == 1):
            flips.append(True)
        else:
            return None
    return gemm_record(m, n, k, dtype, transpose_a=flips[0], transpose_b=flips[1])


@dataclass(frozen=True)
class Aligned:
    """An aligned product of one dtype family."""

    row: Measurement
    family: RateFamily
    work: Work
    flop_per_s: float


def aligned(found: Sequence[Measurement], gpu: Gpu) -> list[Aligned]:
    """Return the products that need no padding."""
    kept = []
    for row in found:
        units = compute_units_of(row.record.dtype, gpu, False)
        task = task_of(row.record, units.width) if units else None
        if units and task and product_level(task.contiguous, units.family) is None:
            kept.append(Aligned(row, units.family, task.works[0][0], units.flop_per_s))
    return kept


def fit(train: Sequence[Aligned], gpu: Gpu, family: RateFamily, start: Rate, names: tuple[str, ...]) -> Rate | None:
    """Return the constants of a family that predict its products best; None if there are too few."""
    own = [a for a in train if a.family == family]
    if len(own) < FEWEST_FOR_ALL:
        return None
    chip = Chip(start, own[0].flop_per_s / 1e9, gpu.bandwidth_bytes_per_s / 1e9, gpu.sm, gpu.l2_bytes)
    return fit_rate(_sample(own), chip, names=names)


def _sample(some: Sequence[Aligned]) -> Sample:
    return Sample.of([a.work for a in some], [a.row.time_ns for a in some])


def fitted_to(train: Sequence[Aligned], gpu: Gpu) -> Constants:
    """Return the constants of a GPU, its launch told apart from its kernels."""
    start = inferred_rate(gpu, "tc16", through="serving")
    half = fit(train, gpu, "tc16", start, MOVED)
    assert half is not None, "the set has hundreds of them"
    tf32 = fit(train, gpu, "tf32", half, MOVED_IN_TF32)
    rates: dict[RateFamily, Rate] = {"tc16": launch_told_apart(half)}
    if tf32 is not None:
        rates["tf32"] = launch_told_apart(tf32)
    return rounded(Constants(gpu.id, SOURCE, "predicted", rates, stack=STACK))


def line(name: str, tested: Sequence[Aligned], target: Target) -> str:
    """Return the figures of one set: products, error of all and above 0.1 ms, bias, share inside the range, width."""
    off, long, inside, wide = [], [], 0, []
    for one in tested:
        cost, time = op_cost(one.row.record, target), one.row.time_ns
        assert cost is not None, one.row.record
        off.append(100 * (cost.timed_ns / time - 1))
        long += [abs(off[-1])] if time > LONG_NS else []
        low, high = cost.low_ns + cost.launch_ns, cost.high_ns + cost.launch_ns
        inside += low <= time <= high
        wide.append(high / low)
    every = statistics.fmean(abs(o) for o in off)
    figures = (every, statistics.fmean(long), statistics.fmean(off), 100 * inside / len(off), statistics.median(wide))
    return f"{name:44}{len(off):8}" + "".join(f"{figure:10.2f}" for figure in figures)


def report(gpu: Gpu, tested: Sequence[Aligned], own: Constants) -> Iterator[str]:
    """Yield a line per dtype family and kind of constants."""
    for family in own.rates:
        some = [one for one in tested if one.family == family]
        inferred = replace(own, rates={family: inferred_rate(gpu, family)})
        kinds = {
            "fitted": Target(gpu, constants=own),
            "serving": Target(gpu, through="serving"),
            "inferred": Target(gpu, constants=inferred),
        }
        for kind, target in kinds.items():
            yield line(f"{gpu.id} {family} {kind}", some, target)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    entries = shipped_entries("serving", "benchmark")
    print(
        f"{'set':44}{'n':>8}{'all %':>10}{'>0.1ms %':>10}{'bias %':>10}{'in range':>10}{'width':>10}", file=sys.stderr
    )
    for name in FILES:
        gpu, found = find_gpu(name), list(rows(Path(sys.argv[1]), name))
        if not found:
            print(f"no {FILES[name]} in {sys.argv[1]}: nothing fitted", file=sys.stderr)
            return 2
        train = aligned([row for row, fits in found if fits], gpu)
        own = fitted_to(train, gpu)
        entries.append(body_of(own, sum(one.family in own.rates for one in train)))
        for text in report(gpu, aligned([row for row, fits in found if not fits], gpu), own):
            print(text, file=sys.stderr)
    print(text_of(entries), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
