"""Fit the constants of the cost model to measured products, searching along one constant at a time.

`estimates` is `tcprobe.cost.tiles.estimate` for many products at once; a test keeps the two equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tcprobe.cost.alignment import product_level
from tcprobe.cost.constants import (
    FAMILIES,
    Basis,
    Constants,
    Multiplier,
    Rate,
    RateFamily,
    TimeFactors,
    launch_apart,
)
from tcprobe.cost.dtype import ComputeUnits, compute_units_of
from tcprobe.cost.measured import Measurement
from tcprobe.cost.shipped import fitted
from tcprobe.cost.tiles import PARTIAL_BYTES, SPLIT_WAVES, SPLITS, STEP_K, Chip, Work, estimate
from tcprobe.cost.works import Task, conv_classes, task_of
from tcprobe.hardware import Gpu
from tcprobe.schema.provenance import UNKNOWN_STACK, Stack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = np.ndarray[Any, np.dtype[np.float64]]

LONG_NS: Final = 100_000.0  # longer products count more, as training steps consist of them
LONG_WEIGHT: Final = 0.5
STEP_FACTORS: Final = (1.3, 1.15, 1.08, 1.04, 1.02, 1.01)
FEWEST: Final = 12  # with fewer rows nothing is fitted
FEWEST_FOR_TILES: Final = 300  # with fewer rows the tiles keep their efficiencies
FEWEST_UNALIGNED: Final = 3
FOLDS: Final = 4  # of products that are left out in turn, to see how far off the rest puts them
MOST_HELD_OUT: Final = 1500  # of more the fit sees no less spread than it leaves
# On any GPU of NVIDIA aiconfigurator's sets, every kernel takes at least 1.8 us, including its launch.
_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "emax": (0.05, 1.0), "bwf": (0.05, 1.0), "t0_ns": (1500.0, 50_000.0), "split_ns": (100.0, 20_000.0),
    "fill_k": (1.0, 1000.0), "l2_speed": (1.0, 6.0), "l2_share": (0.05, 1.0), "quantised": (0.02, 1.0),
    "sharp": (1.5, 20.0),
}  # fmt: skip
_FEW: Final = ("t0_ns", "emax", "bwf")
FEWEST_FOR_ALL: Final = 60  # with fewer rows only these move
START: Final = Rate(
    0.86, 0.75, 3000.0, 2000.0, 200.0, 2.0, 0.3, 0.7, 5.0,
    (
        (256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (256, 64, 0.85), (64, 256, 0.85), (128, 64, 0.75),
        (64, 128, 0.75), (64, 64, 0.6), (128, 32, 0.45), (32, 128, 0.45), (64, 32, 0.35), (32, 64, 0.35),
        (16, 64, 0.18),
    ),
    (1.0, 1.0, 1.0),
)  # fmt: skip
"""Start of a fit without a better one: the tiles of CUTLASS' profiler, less efficient the smaller they are."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Measured products of one dtype family on one GPU, as columns."""

    m: Floats
    n: Floats
    k: Floats
    batch: Floats
    moved: Floats
    time_ns: Floats

    @classmethod
    def of(cls, works: Sequence[Work], times: Sequence[float]) -> Sample:
        """Arrange works and their times as columns."""
        import numpy as np

        table = np.array([(w.m, w.n, w.k, w.batch, w.moved_bytes) for w in works], dtype=float).reshape(-1, 5)
        m, n, k, batch, moved = table.T
        return cls(m, n, k, batch, moved, np.array(times, dtype=float))

    def take(self, rows: NDArray[np.bool_]) -> Sample:
        """Return some of the products."""
        columns = self.m, self.n, self.k, self.batch, self.moved, self.time_ns
        return Sample(*(column[rows] for column in columns))


def estimates(sample: Sample, chip: Chip) -> Floats:
    """Return the time of each product without its launch: `tcprobe.cost.tiles.estimate` on columns."""
    import numpy as np

    rate = chip.rate
    per_sm = chip.flop_per_ns * rate.emax / chip.sm
    moved, partial = _memory(sample, chip), sample.m * sample.n * sample.batch * PARTIAL_BYTES
    partial = partial / (chip.bytes_per_ns * rate.bwf * rate.l2_speed)
    best = np.full(len(moved), np.inf)
    for rows, columns, efficiency in rate.tiles:
        cells = np.ceil(sample.m / rows) * np.ceil(sample.n / columns) * sample.batch
        area = 2 * rows * columns / (per_sm * efficiency)
        for split in SPLITS:
            barred = (sample.k < split * 2 * STEP_K) | (cells * split > SPLIT_WAVES * chip.sm)
            if split > 1 and barred.all():
                break
            waves = cells * split / chip.sm
            rounds = np.where(waves <= 1, 1.0, rate.quantised * np.ceil(waves) + (1 - rate.quantised) * waves)
            busy = rounds * area * (np.ceil(sample.k / (split * STEP_K)) * STEP_K + rate.fill_k)
            high, low = np.maximum(busy, moved), np.minimum(busy, moved)
            ns = high * (1 + (low / high) ** rate.sharp) ** (1 / rate.sharp)
            if split > 1:
                ns = np.where(barred, np.inf, ns + rate.split_ns + partial * split)
            best = np.minimum(best, ns)
    return best


def _memory(sample: Sample, chip: Chip) -> Floats:
    import numpy as np

    rate = chip.rate
    resident = np.clip(2 - sample.moved / (chip.l2_bytes * rate.l2_share), 0.0, 1.0)
    slower = 1 - resident + resident / rate.l2_speed
    return sample.moved * slower / (chip.bytes_per_ns * rate.bwf)


def fit_rate(sample: Sample, chip: Chip, sweeps: int = len(STEP_FACTORS), names: tuple[str, ...] | None = None) -> Rate:
    """Return the rate that predicts a sample best, searching from `chip.rate` along one constant at a time.

    Minimises the mean absolute error of all products plus half that of the products above 0.1 ms. With fewer than
    `FEWEST_FOR_TILES` products the tiles keep their efficiencies; with fewer than `FEWEST_FOR_ALL` only launch, peak
    and bandwidth move. With `names`, only these constants do. The spread of up to `MOST_HELD_OUT` products is as
    wide as that of each against constants that were fitted without it: what a fit has seen lies closer.
    """
    rate = _constants(sample, chip, sweeps, names)
    low, mid, high = _spread(_ratios(sample, replace(chip, rate=rate)))
    if 2 * FOLDS <= len(sample.time_ns) <= MOST_HELD_OUT:
        least, _, most = _spread(_held_out(sample, chip, sweeps, names))
        low, high = min(low, least), max(high, most)
    return replace(rate, spread=(low, mid, high))


def _held_out(sample: Sample, chip: Chip, sweeps: int, names: tuple[str, ...] | None) -> Floats:
    """Return measured over predicted time of each product, by constants that were fitted without it."""
    import numpy as np

    fold, found = np.arange(len(sample.time_ns)) % FOLDS, []
    for left in range(FOLDS):
        rate = _constants(sample.take(fold != left), chip, sweeps, names)
        found.append(_ratios(sample.take(fold == left), replace(chip, rate=rate)))
    return np.concatenate(found)


def _ratios(sample: Sample, chip: Chip) -> Floats:
    """Return measured over predicted time of each product."""
    return sample.time_ns / (estimates(sample, chip) + chip.rate.t0_ns)


def _constants(sample: Sample, chip: Chip, sweeps: int, names: tuple[str, ...] | None) -> Rate:
    few = _FEW if len(sample.time_ns) < FEWEST_FOR_ALL else tuple(_LIMITS)
    moves: list[Callable[[Rate, float], Rate]] = [_scalar(name) for name in names or few]
    if names is None and len(sample.time_ns) >= FEWEST_FOR_TILES:
        moves += [_tile(index) for index in range(len(chip.rate.tiles))]
    rate, least = chip.rate, _error(sample, chip)
    for step in STEP_FACTORS[:sweeps]:
        for move in moves:
            rate, least = _along(move, step, rate, least, lambda r: _error(sample, replace(chip, rate=r)))
    return _normal(rate)


def _normal(rate: Rate) -> Rate:
    """Scale the best tile's efficiency to 1, as the definition of `emax` requires."""
    best = max(efficiency for _, _, efficiency in rate.tiles)
    tiles = tuple((rows, columns, efficiency / best) for rows, columns, efficiency in rate.tiles)
    return replace(rate, emax=rate.emax * best, tiles=tiles)


def _along(
    move: Callable[[Rate, float], Rate], step: float, rate: Rate, least: float, error: Callable[[Rate], float]
) -> tuple[Rate, float]:
    for factor in (step, 1 / step):
        for _ in range(4):
            moved = move(rate, factor)
            found = error(moved)
            if found >= least - 1e-7:
                break
            rate, least = moved, found
    return rate, least


def _scalar(name: str) -> Callable[[Rate, float], Rate]:
    low, high = _LIMITS[name]

    def move(rate: Rate, factor: float) -> Rate:
        value: float = getattr(rate, name)
        changed: dict[str, Any] = {name: min(high, max(low, value * factor))}
        return replace(rate, **changed)

    return move


def _tile(index: int) -> Callable[[Rate, float], Rate]:
    def move(rate: Rate, factor: float) -> Rate:
        tiles = list(rate.tiles)
        rows, columns, efficiency = tiles[index]
        tiles[index] = (rows, columns, min(1.0, max(0.02, efficiency * factor)))
        return replace(rate, tiles=tuple(tiles))

    return move


def _error(sample: Sample, chip: Chip) -> float:
    import numpy as np

    off = np.abs((estimates(sample, chip) + chip.rate.t0_ns) / sample.time_ns - 1)
    long = sample.time_ns > LONG_NS
    return float(off.mean() + (LONG_WEIGHT * off[long].mean() if long.any() else 0.0))


def _spread(ratios: Any) -> TimeFactors:
    import numpy as np

    low, mid, high = (float(v) for v in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return low, mid, high


@dataclass(frozen=True, slots=True)
class _Measured:
    task: Task
    units: ComputeUnits
    dtype: str
    time_ns: float


def fit(
    rows: Iterable[Measurement],
    gpu: Gpu,
    source: str,
    basis: Basis = "calibrated",
    tf32: bool = True,
    start: Rate | None = None,
    stack: Stack = UNKNOWN_STACK,
) -> Constants | None:
    """Return the constants that predict measured products best; None if too few aligned GEMMs were measured.

    Args:
        rows: products measured on `gpu`, GEMMs and convolutions, aligned and not; rows of other GPUs are ignored.
        gpu: the GPU.
        source: description of the measurements, stored in the constants.
        basis: basis stored in the constants.
        tf32: whether float32 rows were measured with TF32 on.
        start: where the search starts; defaults to the shipped constants nearest to the GPU.
        stack: what timed the products; unless it hides the launches, they are told apart from the kernels.

    Rates come from aligned GEMMs, the factors of passes from aligned convolutions, and multipliers from unaligned
    products that arithmetic limits. Anything that was not measured keeps its shipped figure.
    """
    by_family = _by_family(rows, gpu, tf32)
    rates: dict[RateFamily, Rate] = {}
    conv: dict[str, TimeFactors] = {}
    multipliers: dict[str, Multiplier] = {}
    for family in FAMILIES:
        found = _fit_family(by_family[family], gpu, start or _with_launch(fitted(gpu, family).rate))
        if found is not None:
            rates[family] = found.rate
            conv |= _conv_factors(by_family[family], found, family)
            multipliers |= _multipliers(by_family[family], found, family, conv)
    if stack.kind in ("framework", "unknown"):
        rates = {family: launch_told_apart(rate) for family, rate in rates.items()}
    return Constants(gpu.id, source, basis, rates, conv, multipliers, stack) if rates else None


def fit_limits(rows: Iterable[Measurement], gpu: Gpu, source: str, of: Constants) -> Constants:
    """Return the constants of another GPU, `of`, with one factor per limit fitted: compute, memory and launch.

    Args:
        rows: products measured on `gpu`, aligned GEMMs of the families that `of` has; others are ignored.
        gpu: the GPU.
        source: description of the measurements, stored in the constants.
        of: the other GPU's constants, of the same kind of stack; what was not measured is left out.
    """
    by_family = _by_family(rows, gpu, True)
    found = {family: _fit_family(by_family[family], gpu, rate, _FEW) for family, rate in of.rates.items()}
    return Constants(gpu.id, source, "predicted", {f: chip.rate for f, chip in found.items() if chip}, stack=of.stack)


def _by_family(rows: Iterable[Measurement], gpu: Gpu, tf32: bool) -> dict[RateFamily, list[_Measured]]:
    found: dict[RateFamily, list[_Measured]] = defaultdict(list)
    for row in rows:
        units = compute_units_of(row.record.dtype, gpu, tf32) if row.gpu == gpu.id else None
        task = task_of(row.record, units.width) if units else None
        if units and task and not units.emulated:
            found[units.family].append(_Measured(task, units, row.record.dtype or "", row.time_ns))
    return found


def launch_told_apart(rate: Rate) -> Rate:
    """Return a rate fitted to times that hold the launch, with it told from the kernel (`launch_apart`)."""
    t0_ns, launch_ns = launch_apart(rate.t0_ns)
    return replace(rate, t0_ns=t0_ns, launch_ns=launch_ns)


def _with_launch(rate: Rate) -> Rate:
    """Return a rate whose `t0_ns` holds the launch, as measured times do."""
    return replace(rate, t0_ns=rate.t0_ns + rate.launch_ns, launch_ns=0.0)


def _fit_family(rows: Sequence[_Measured], gpu: Gpu, start: Rate, names: tuple[str, ...] | None = None) -> Chip | None:
    aligned = [
        r for r in rows if r.task.arithmetic == "gemm" and product_level(r.task.contiguous, r.units.family) is None
    ]
    if len(aligned) < FEWEST:
        return None
    peak = aligned[0].units.flop_per_s / 1e9
    chip = Chip(start, peak, gpu.bandwidth_bytes_per_s / 1e9, gpu.sm, gpu.l2_bytes)
    sample = Sample.of([r.task.works[0][0] for r in aligned], [r.time_ns for r in aligned])
    return replace(chip, rate=fit_rate(sample, chip, names=names))


def _conv_factors(rows: Sequence[_Measured], chip: Chip, family: RateFamily) -> dict[str, TimeFactors]:
    by_pass: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if (
            row.task.arithmetic == "conv"
            and product_level(row.task.contiguous, family) is None
            and row.task.groups == 1
        ):
            by_pass[f"{family}:{conv_classes(row.task, family)[0]}"].append(row.time_ns / predicted_ns(row.task, chip))
    return {key: _spread(ratios) for key, ratios in by_pass.items() if len(ratios) >= FEWEST}


def _multipliers(
    rows: Sequence[_Measured], chip: Chip, family: RateFamily, conv: Mapping[str, TimeFactors]
) -> dict[str, Multiplier]:
    by_key: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        level = product_level(row.task.contiguous, family)
        parts = [estimate(work, chip) for work, _ in row.task.works]
        bound = all(p.compute_ns > 1.5 * p.memory_ns and p.ns > 5 * chip.rate.t0_ns for p in parts)
        if level is None or not bound or row.task.groups > 1:
            continue
        pass_ = f"{family}:{row.task.kind}"
        factor = (
            conv.get(f"{family}:{conv_classes(row.task, family)[0]}", (1.0, 1.0, 1.0))[1]
            if row.task.arithmetic == "conv"
            else chip.rate.spread[1]
        )
        key = f"conv:{pass_}:{level}" if row.task.arithmetic == "conv" else f"gemm:{family}:{level}"
        by_key[key].append(min(1.0, factor * predicted_ns(row.task, chip) / row.time_ns))
    spreads = {key: _spread(ratios) for key, ratios in by_key.items() if len(ratios) >= FEWEST_UNALIGNED}
    return {key: Multiplier(*spread) for key, spread in spreads.items()}


def predicted_ns(task: Task, chip: Chip) -> float:
    """Return the time of a task by the tile model alone, without any penalty."""
    return sum(estimate(work, chip).ns * times for work, times in task.works) + chip.rate.t0_ns
