"""Fit the constants of the cost model to public measurements, and print them as tcprobe ships them.

    python bench/fit.py kernels [SAMPLES] > tcprobe/cost/rates.json      # of serving stacks and benchmarks
    python bench/fit.py framework FOLDER > tcprobe/cost/rates.json       # of a framework, beside those
    python bench/fit.py float32 FOLDER                                   # entries of tcprobe/cost/constants.py
    python bench/fit.py winograd FOLDER                                  # entries of tcprobe/cost/spread.py
    python bench/fit.py sums [SAMPLES]                                   # `SHARED` of tcprobe/cost/spread.py

`public.py` says what lies in the folders, and which sizes are fitted: seeded shares. Each exits 2 without its samples.

`kernels`: SAMPLES is `../shared/samples/gemm` beside the checkout by default; `cost_model.py` tests on the rest of it.
Of Blackwell's GPUs one factor per limit is fitted (`LIMITS_OF`).

`framework`: a half of the aligned shapes is fitted, from the constants of the same GPU's serving stack: share of the
peak, share of the bandwidth, launch, and the filling of a tile's pipeline. Errors on the other half go to standard
error: with the constants printed (fitted), with the serving stack's (serving), and with those that a GPU gets whose
framework nobody has timed (inferred: what the shipped A100 loses through PyTorch put on its own; run again after they
have changed). The H100 of the set moves 2.28 TB/s at the most: more than the PCIe board can (2.0), and 68 % of what the
SXM board with HBM3 can (3.35), where the A100 reaches 82 %. It is taken for the board with 96 GB of HBM2e (2.4 TB/s,
500 W) that PyTorch's developers use (pytorch/torchtitan, docs/performance.md): an inference from the rates.

`float32`: measured over predicted time of products on CUDA cores through PyTorch, of a half of the shapes: the median
of linear layers, and the percentiles beside it, of batched products too. Run again after `kernels`.

`winograd`: measured time of float32 convolutions over that of the plain product is fitted as a power of each size to a
half of the shapes; errors on the other half go to standard error.

`sums`: the share of sums of fitted products that lies in the range of the sum, and the width of that, by the share of
the variance of their errors that they have in common: by a GPU's own constants, and by those that each other GPU lends,
for what is common to the products of software or a GPU that nobody timed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tcprobe.schema.records import as_dict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import public
from bench.public import SEED, Predicted, in_train
from tcprobe.calibration.files import KEY
from tcprobe.cost.alignment import Library
from tcprobe.cost.constants import (
    FAMILIES,
    FORMAT,
    RELATIVE,
    VERSION,
    Constants,
    Rate,
    RateFamily,
    inferred,
    shipped,
    widened,
)
from tcprobe.cost.fit import FEW, FEWEST_FOR_ALL, by_family, fit, fit_family, fit_rate, launch_told_apart, sample_of
from tcprobe.cost.measured import Measurement
from tcprobe.cost.predict import Target, op_cost, planner_of
from tcprobe.cost.spread import logs_of
from tcprobe.cost.tiles import Work, chip_of
from tcprobe.cost.works import task_of
from tcprobe.gemm.conv import convolution_of
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.provenance import Stack, StackKind

SHIPPED = Path(__file__).resolve().parent.parent / "tcprobe" / "cost" / "rates.json"
ABOUT = "constants of the cost model, each GPU's as a calibration file: printed by bench/fit.py"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
SAMPLED = 400  # products of a set whose sums are drawn
MOST = 3000  # rows fitted per family: more take long and change nothing
LIMITS_OF = {**dict.fromkeys(("b200", "b300", "gb200", "gb300"), "h200-sxm"), "rtxpro6000bw-server": "l40s"}
"""Whose constants a GPU takes with one factor per limit fitted; without its file the shipped entry stays."""
STACKS = {"parquet": Stack("serving", "vLLM"), "deepbench": Stack("benchmark", "DeepBench")}
SOURCE = "autoheuristic-datasets, PyTorch's cuBLAS, 2024"
HALF_PCT = 50
MOVED = ("t0_ns", "emax", "bwf", "fill_k")
MOVED_IN_TF32 = ("emax", "bwf", "fill_k")  # hardly a product of it is short enough to show a launch
ROUNDS = 30  # of reweighting, after which least squares have become least absolute errors

START = Rate(
    0.86, 0.75, 3000.0, 2000.0, 200.0, 2.0, 0.3, 0.7, 5.0,
    (
        (256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (256, 64, 0.85), (64, 256, 0.85), (128, 64, 0.75),
        (64, 128, 0.75), (64, 64, 0.6), (128, 32, 0.45), (32, 128, 0.45), (64, 32, 0.35), (32, 64, 0.35),
        (16, 64, 0.18),
    ),
    (1.0, 1.0, 1.0),
)  # fmt: skip
"""Start of a fit without a better one: the tiles of CUTLASS' profiler, less efficient the smaller they are."""
CUDA_CORES: Final = replace(
    START,
    step_k=8,
    fill_k=16.0,
    tiles=(
        *START.tiles[:-1], (32, 32, 0.55), (16, 64, 0.32), (64, 16, 0.32), (128, 16, 0.35), (16, 128, 0.35),
        (128, 8, 0.2), (8, 128, 0.2), (128, 4, 0.2), (4, 128, 0.2), (256, 1, 0.05), (1, 256, 0.05),
    ),
)  # fmt: skip
"""The same for float32: rounds of 8 elements, and kernels for few rows or columns (cuBLAS'
sgemm_32x32_sliced, and gemv, which read the large operand once)."""
STARTS: Final = {**dict.fromkeys(FAMILIES, START), "fp32": CUDA_CORES}


def text_of(gpus: list[dict[str, object]]) -> str:
    """Return the text of tcprobe/cost/rates.json, with one innermost list per line."""
    text = json.dumps({"about": ABOUT, "gpus": gpus}, indent=1)
    return re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def body_of(constants: Constants, rows: int) -> dict[str, object]:
    """Return constants as an entry of tcprobe/cost/rates.json: a calibration file, and the number of fitted rows."""
    return {"format": FORMAT, "version": VERSION, **as_dict(constants), KEY: {"rows": rows}}


def shipped_entries(*kinds: StackKind) -> list[dict[str, object]]:
    """Return the entries of tcprobe/cost/rates.json whose stacks are of these kinds."""
    body = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return [gpu for gpu in body["gpus"] if gpu["stack"]["kind"] in kinds]


def rounded(constants: Constants) -> Constants:
    """Return constants rounded to the digits in the file."""
    rates = {family: _rounded(rate) for family, rate in constants.rates.items()}
    conv = {key: tuple(round(v, 3) for v in spread) for key, spread in constants.conv.items()}
    return replace(constants, rates=rates, conv=conv)


def _rounded(rate: Rate) -> Rate:
    names = ("emax", "bwf", "l2_speed", "l2_share", "quantised", "sharp")
    digits = {name: round(getattr(rate, name), 3) for name in names}
    tiles = tuple((rows, columns, round(e, 3)) for rows, columns, e in rate.tiles)
    whole = {name: round(getattr(rate, name)) for name in ("t0_ns", "split_ns", "fill_k", "launch_ns")}
    return replace(rate, **digits, **whole, tiles=tiles, spread=tuple(round(v, 3) for v in rate.spread))


def kernels(folder: Path) -> int:
    """Print the constants of serving stacks and benchmarks, those of frameworks as shipped behind them."""
    found = public.samples(folder)
    if not found:
        print(f"no measured products in {folder}: nothing fitted", file=sys.stderr)
        return 2
    fitted: dict[str, Constants] = {}
    gpus = []
    for gpu in (*public.PARQUET, *public.DEEPBENCH.values()):
        rows = thinned([m.row for m in found if m.row.gpu == gpu and m.train])
        constants = fitted_kernels(rows, gpu, fitted)
        if constants is not None:
            fitted[gpu] = rounded(constants)
            gpus.append(body_of(fitted[gpu], len(rows)))
        elif gpu in LIMITS_OF:
            gpus += [entry for entry in shipped_entries("serving") if entry["gpu"] == gpu]
        said = "too few products" if constants is None else f"{len(rows)} products fitted"
        print(f"{gpu}: {said}", file=sys.stderr, flush=True)
    print(text_of([*gpus, *shipped_entries("framework")]), end="")
    return 0


def thinned(rows: list[Measurement]) -> list[Measurement]:
    """Return at most `MOST` rows of each dtype, spread evenly over a seeded order."""
    order = sorted(rows, key=lambda row: zlib.crc32(repr((SEED, row.record.dtype, row.record.input_shapes)).encode()))
    kept: dict[str | None, int] = {}
    found = []
    for row in order:
        kept[row.record.dtype] = kept.get(row.record.dtype, 0) + 1
        if kept[row.record.dtype] <= MOST:
            found.append(row)
    return found


def fitted_kernels(rows: list[Measurement], gpu: str, fitted: dict[str, Constants]) -> Constants | None:
    """Return constants fitted to a GPU's rows; None with too few. `fitted` are those of the GPUs before."""
    origin = "parquet" if gpu in public.PARQUET else "deepbench"
    of = fitted.get(LIMITS_OF.get(gpu, ""))
    if gpu in LIMITS_OF:
        source = f"{public.SOURCES[origin]}; one factor per limit on {LIMITS_OF[gpu]}"
        return fit_limits(rows, find_gpu(gpu), source, of) if of and rows else None
    return fit(rows, find_gpu(gpu), public.SOURCES[origin], "predicted", start=STARTS, stack=STACKS[origin])


def fit_limits(rows: list[Measurement], gpu: Gpu, source: str, of: Constants) -> Constants:
    """Return the constants of another GPU, `of`, with one factor per limit fitted: compute, memory and launch.

    Args:
        rows: products measured on `gpu`, aligned GEMMs of the families that `of` has; others are ignored.
        gpu: the GPU.
        source: description of the measurements, stored in the constants.
        of: the other GPU's constants, of the same kind of stack; what was not measured is left out.
    """
    measured = by_family(rows, gpu, True)
    found = {family: fit_family(measured[family], gpu, rate, FEW) for family, rate in of.rates.items()}
    return Constants(gpu.id, source, "predicted", {f: chip.rate for f, chip in found.items() if chip}, stack=of.stack)


class Aligned(NamedTuple):
    """An aligned product of one dtype family."""

    row: Measurement
    family: RateFamily
    work: Work
    flop_per_s: float


def framework(folder: Path) -> int:
    """Print the shipped constants with those of a framework fitted anew; their errors go to standard error."""
    entries = shipped_entries("serving", "benchmark")
    head = "".join(f"{name:>10}" for name in ("all %", ">0.1ms %", "bias %", "in range", "width"))
    print(f"{'set':44}{'n':>8}{head}", file=sys.stderr)
    for name, file in public.FRAMEWORK.items():
        if not (folder / file).is_file():
            print(f"no {file} in {folder}: nothing fitted", file=sys.stderr)
            return 2
        gpu, rows = find_gpu(name), list(public.timed(folder / file, "extern_mm", name))
        fits = [in_train(public.sizes_of(row.record), HALF_PCT) for row in rows]
        train = aligned([row for row, of in zip(rows, fits, strict=True) if of], gpu)
        tested = aligned([row for row, of in zip(rows, fits, strict=True) if not of], gpu)
        own = fitted_framework(train, gpu)
        entries.append(body_of(own, sum(one.family in own.rates for one in train)))
        for text in report(gpu, tested, own):
            print(text, file=sys.stderr)
    print(text_of(entries), end="")
    return 0


def aligned(found: Sequence[Measurement], gpu: Gpu) -> list[Aligned]:
    """Return the products that need no padding."""
    kept = []
    for row in found:
        task = task_of(row.record, gpu)
        if task and task.level is None:
            kept.append(Aligned(row, task.units.family, task.works[0][0], task.units.flop_per_s))
    return kept


def fitted_framework(train: Sequence[Aligned], gpu: Gpu) -> Constants:
    """Return the constants of a GPU, its launch told apart from its kernels."""
    half = moved(train, gpu, "tc16", inferred(gpu, "tc16", through="serving")[0], MOVED)
    assert half is not None, "the set has hundreds of them"
    tf32 = moved(train, gpu, "tf32", half, MOVED_IN_TF32)
    rates: dict[RateFamily, Rate] = {"tc16": launch_told_apart(half)}
    if tf32 is not None:
        rates["tf32"] = launch_told_apart(tf32)
    return rounded(Constants(gpu.id, SOURCE, "predicted", rates, stack=Stack("framework", "PyTorch")))


def moved(train: Sequence[Aligned], gpu: Gpu, family: RateFamily, start: Rate, names: tuple[str, ...]) -> Rate | None:
    """Return the constants of a family that predict its products best; None if there are too few."""
    own = [a for a in train if a.family == family]
    if len(own) < FEWEST_FOR_ALL:
        return None
    chip = chip_of(gpu, start, own[0].flop_per_s)
    return fit_rate(sample_of([a.work for a in own], [a.row.time_ns for a in own]), chip, names=names)


def report(gpu: Gpu, tested: Sequence[Aligned], own: Constants) -> Iterator[str]:
    """Yield a line per dtype family and kind of constants: errors of all and above 0.1 ms, bias, share in the range."""
    for family in own.rates:
        as_inferred = replace(own, rates={family: inferred(gpu, family)[0]})
        for kind, target in (
            ("fitted", Target(gpu, constants=own)),
            ("serving", Target(gpu, through="serving")),
            ("inferred", Target(gpu, constants=as_inferred)),
        ):
            found = []
            for one in (one for one in tested if one.family == family):
                cost = op_cost(one.row.record, target)
                assert cost is not None, one.row.record
                low, high = cost.low_ns + cost.launch_ns, cost.high_ns + cost.launch_ns
                found.append(Predicted(one.row.time_ns, cost.timed_ns, low, high))
            of = public.accuracy(found)
            figures = (of.error_pct, of.long_pct, of.bias_pct, of.in_range_pct, of.width)
            yield f"{f'{gpu.id} {family} {kind}':44}{of.products:8}" + "".join(f"{f:10.2f}" for f in figures)


def float32(folder: Path) -> int:
    """Print how products in float32 through PyTorch compare with DeepBench's constants, by GPU."""
    rows: dict[str, list[tuple[str, Measurement, bool]]] = defaultdict(list)
    for kind, row, fits in public.float32(folder):
        rows[row.gpu].append((kind, row, fits))
    if not rows:
        print(f"no timings of products in {folder}: nothing fitted", file=sys.stderr)
        return 2
    for name, found in sorted(rows.items()):
        slower = float(np.median(ratios(found, name, 1.0)["linear", True]))
        slowed = ratios(found, name, slower)
        ends = {kind: np.quantile(slowed[kind, True], (0.1, 0.5, 0.9)) for kind in ("linear", "bmm")}
        (low, _, high), batched = ends["linear"], ", ".join(f"{value:.2f}" for value in ends["bmm"])
        print(f'    "{name}": _Float32({slower:.2f}, ({low:.2f}, {high:.2f}), ({batched})),')
        for kind, (low, mid, high) in ends.items():
            left, likely = np.array(slowed[kind, False]), 1.0 if kind == "linear" else mid
            inside, error = 100 * np.mean((left >= low) & (left <= high)), 100 * np.mean(np.abs(likely / left - 1))
            print(f"{name} {kind}: {len(left)} left out, error {error:.1f} %, in range {inside:.0f} %", file=sys.stderr)
    return 0


def ratios(
    rows: Sequence[tuple[str, Measurement, bool]], name: str, slower: float
) -> dict[tuple[str, bool], list[float]]:
    """Return measured over predicted times by kind and whether they are fitted, where arithmetic is so much slower."""
    gpu = find_gpu(name)
    rate = inferred(gpu, "fp32")[0]
    own = Constants(name, SOURCE, "predicted", {"fp32": replace(rate, emax=rate.emax / slower)})
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for kind, row, fits in rows:
        plan = planner_of(row.record, Target(gpu, tf32=False, constants=own), "float32")
        assert plan is not None, row.record
        found[kind, fits].append(row.time_ns / plan.ideal.ns)
    return found


def winograd(folder: Path) -> int:
    """Print how float32 convolutions of 3x3 depend on their sizes, by GPU."""
    present = [gpu for gpu, name in public.CONVOLUTIONS.items() if (folder / name).is_file()]
    if not present:
        print(f"no timings of convolutions in {folder}: nothing fitted", file=sys.stderr)
        return 2
    for gpu in present:
        fits, logs, times, plain = (np.array(c) for c in zip(*compared(folder, gpu), strict=True))
        ratios = np.log(times / plain)
        found = solved(logs[fits], ratios[fits])
        left = ratios - np.column_stack([np.ones(len(logs)), logs]) @ found
        low, _, high = np.quantile(left[fits], (0.1, 0.5, 0.9))
        level, exponents = f"{np.exp(found[0]):.3f}", ", ".join(f"{value:.3f}" for value in found[1:])
        print(f'    "{gpu}": _Fit({level}, ({exponents}), ({np.exp(low):.2f}, {np.exp(high):.2f})),')
        test = left[~fits]
        inside = 100 * np.mean((test >= low) & (test <= high))
        error = 100 * np.mean(np.abs(np.exp(-test) - 1))
        print(f"{gpu}: {len(test)} left out, error {error:.1f} %, in range {inside:.0f} %", file=sys.stderr)
    return 0


def compared(folder: Path, gpu: str) -> Iterator[tuple[bool, tuple[float, ...], float, float]]:
    """Yield whether a convolution is fitted, the logarithms of its sizes, its time and its plain product's, in ns."""
    for row, fits in public.convolutions(folder / public.CONVOLUTIONS[gpu], gpu):
        plan = planner_of(row.record, Target(find_gpu(gpu), tf32=False), "float32")
        conv = convolution_of(row.record, "forward")
        assert plan is not None and conv is not None
        yield fits, logs_of(conv), row.time_ns, plan.ideal.ns


def solved(logs: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return the level and the exponents that fit the logarithms of ratios with the least absolute error."""
    table, weight = np.column_stack([np.ones(len(logs)), logs]), np.ones(len(logs))
    for _ in range(ROUNDS):
        found = np.linalg.lstsq(table * weight[:, None], ratios * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ratios - table @ found), 0.02))
    return found


def sums(folder: Path) -> int:
    """Print how many sums of fitted products lie in their ranges, by the share of the variance in common."""
    rows: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for measured in public.samples(folder):
        if measured.train:
            record = measured.row.record
            arithmetic = "conv" if record.op_type.startswith("Conv2D") else "gemm"
            rows[measured.row.gpu, arithmetic, record.dtype or ""].append(measured.row)
    if not rows:
        print(f"no measured products in {folder}: nothing fitted", file=sys.stderr)
        return 2
    found: dict[tuple[str, int, float], list[tuple[float, float]]] = defaultdict(list)
    for (gpu, arithmetic, dtype), timed in rows.items():
        for kind, target in lenders(gpu, arithmetic, dtype):
            steps = list(predicted(timed[:: max(1, len(timed) // SAMPLED)], target))
            for size, share in product(public.STEPS_OF, SHARES):
                found[f"{kind} {arithmetic}{' float8' * ('float8' in dtype)}", size, share].append(
                    public.sums(steps, size, share)
                )
    for (name, size, share), sets in sorted(found.items()):
        held, width = (float(np.mean(column)) for column in zip(*sets, strict=True))
        print(f"{name:16} {len(sets):3} sets, sums of {size}, {share:.1f} in common: {held:3.0f} %, {width:.2f} wide")
    return 0


def lenders(gpu: str, arithmetic: str, dtype: str) -> Iterator[tuple[str, Target]]:
    """Yield a GPU's own constants, and those of the others that were timed in the same way, as wide as what is lent."""
    known, family = shipped(), "fp8" if "float8" in dtype else "fp32" if dtype == "float32" else "tc16"
    for name, constants in known.items():
        rate = constants.rates.get(family)
        timed = arithmetic == "gemm" or any(key.startswith(family) for key in constants.conv)
        if rate is None or not timed or constants.stack != known[gpu].stack:
            continue
        if name != gpu and arithmetic == "gemm":
            constants = replace(constants, rates={family: replace(rate, spread=widened(rate.spread, RELATIVE))})
        elif name != gpu:  # the product beneath the convolution is the GPU's own
            lent = {key: widened(spread, RELATIVE) for key, spread in constants.conv.items()}
            constants = replace(known[gpu], conv=lent)
        library: Library = "cublas10" if known[gpu].stack.kind == "benchmark" else "cublas12"
        yield "own" if name == gpu else "lent", Target(find_gpu(gpu), library, constants=constants, through="serving")


def predicted(rows: Sequence[Measurement], target: Target) -> Iterator[Predicted]:
    """Yield what products take beside what they are predicted to take."""
    for row in rows:
        if (cost := op_cost(row.record, target)) is not None:
            yield Predicted(row.time_ns, cost.ns, cost.low_ns, cost.high_ns)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"kernels": kernels, "framework": framework, "float32": float32, "winograd": winograd, "sums": sums}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    if given.folder is None and given.kind not in ("kernels", "sums"):
        parser.error(f"{given.kind} needs the folder of its samples")
    return kinds[given.kind](given.folder or public.DEFAULT)


if __name__ == "__main__":
    sys.exit(main())
