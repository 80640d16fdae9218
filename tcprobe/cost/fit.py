"""Fit the constants of the cost model to measured products, searching along one constant at a time.

`estimates` is `tcprobe.cost.tiles.estimate` for many products at once; a test keeps the two equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from tcprobe.cost.constants import (
    FAMILIES,
    Basis,
    Constants,
    Multiplier,
    Rate,
    RateFamily,
    TimeFactors,
    fitted,
    launch_apart,
)
from tcprobe.cost.measured import Measurement
from tcprobe.cost.tiles import (
    PARTIAL_BYTES,
    SPLIT_K,
    SPLIT_WAVES,
    SPLITS,
    Chip,
    Work,
    chip_of,
    estimate,
)
from tcprobe.cost.works import Task, task_of
from tcprobe.hardware import Gpu
from tcprobe.schema.provenance import UNKNOWN_STACK, Stack

if TYPE_CHECKING:
    import numpy as np

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
FEW: Final = ("t0_ns", "emax", "bwf")
FEWEST_FOR_ALL: Final = 60  # with fewer rows only these move


def sample_of(works: Sequence[Work], times_ns: Sequence[float]) -> Floats:
    """Return products of one dtype family on one GPU as a column each: m, n, k, batch, bytes moved and measured ns."""
    import numpy as np

    rows = [(w.m, w.n, w.k, w.batch, w.moved_bytes, ns) for w, ns in zip(works, times_ns, strict=True)]
    return np.array(rows, dtype=float).reshape(-1, 6).T


def estimates(sample: Floats, chip: Chip) -> Floats:
    """Return the time of each product without its launch: `tcprobe.cost.tiles.estimate` on columns."""
    import numpy as np

    rate, (m, n, k, batch, moved_bytes, _) = chip.rate, sample
    per_sm = chip.flop_per_ns * rate.emax / chip.sm
    partial = m * n * batch * PARTIAL_BYTES / (chip.bytes_per_ns * rate.bwf * rate.l2_speed)
    rows, columns, efficiency = (np.array(column)[:, None, None] for column in zip(*rate.tiles, strict=True))
    split = np.array([s for s in SPLITS if s == 1 or (k >= s * 2 * SPLIT_K).any()])[:, None]
    # by tile, split, and product; only the few that are not barred are worked out
    cells = np.ceil(m / rows) * np.ceil(n / columns) * batch * split
    allowed = (split == 1) | ((k >= split * 2 * SPLIT_K) & (cells <= SPLIT_WAVES * chip.sm))

    def each(values: Any) -> Floats:
        picked: Floats = np.broadcast_to(values, cells.shape)[allowed]
        return picked

    waves = cells[allowed] / chip.sm
    rounds = np.where(waves <= 1, 1.0, rate.quantised * np.ceil(waves) + (1 - rate.quantised) * waves)
    least = np.where(batch > 1, rate.batched_k, 0.0)
    depth = each(np.maximum(least, np.ceil(k / (split * rate.step_k)) * rate.step_k + rate.fill_k))
    busy = rounds * each(2 * rows * columns / (per_sm * efficiency)) * depth
    moved = each(_memory(moved_bytes, chip))
    high, low = np.maximum(busy, moved), np.minimum(busy, moved)
    ns = np.full(cells.shape, np.inf)
    ns[allowed] = high * (1 + (low / high) ** rate.sharp) ** (1 / rate.sharp)
    ns[allowed] += each(np.where(split > 1, rate.split_ns + partial * split, 0.0))
    best: Floats = ns.min(axis=(0, 1))
    return best


def _memory(moved_bytes: Floats, chip: Chip) -> Floats:
    import numpy as np

    rate = chip.rate
    resident = np.clip(2 - moved_bytes / (chip.l2_bytes * rate.l2_share), 0.0, 1.0)
    slower = 1 - resident + resident / rate.l2_speed
    return moved_bytes * slower / (chip.bytes_per_ns * rate.bwf)


def fit_rate(sample: Floats, chip: Chip, names: Sequence[str] | None = None) -> Rate:
    """Return the rate that predicts a sample best, searching from `chip.rate` along one constant at a time.

    Minimises the mean absolute error of all products plus half that of the products above 0.1 ms. With fewer than
    `FEWEST_FOR_TILES` products the tiles keep their efficiencies; with fewer than `FEWEST_FOR_ALL` only launch, peak
    and bandwidth move. With `names`, only these constants do. The spread of up to `MOST_HELD_OUT` products is as
    wide as that of each against constants that were fitted without it: what a fit has seen lies closer.
    """
    import numpy as np

    rate = _constants(sample, chip, names)
    low, mid, high = _spread(_ratios(sample, replace(chip, rate=rate)))
    count = sample.shape[1]
    if 2 * FOLDS <= count <= MOST_HELD_OUT:
        fold, held_out = np.arange(count) % FOLDS, []
        for left in range(FOLDS):
            without = _constants(sample[:, fold != left], chip, names)
            held_out.append(_ratios(sample[:, fold == left], replace(chip, rate=without)))
        least, _, most = _spread(np.concatenate(held_out))
        low, high = min(low, least), max(high, most)
    return replace(rate, spread=(low, mid, high))


def _ratios(sample: Floats, chip: Chip) -> Floats:
    """Return measured over predicted time of each product."""
    ratios: Floats = sample[-1] / (estimates(sample, chip) + chip.rate.t0_ns)
    return ratios


def _constants(sample: Floats, chip: Chip, names: Sequence[str] | None) -> Rate:
    """Return the rate with the least error, its best tile's efficiency 1, as the definition of `emax` requires."""
    moves: list[str | int] = [*(names or (FEW if sample.shape[1] < FEWEST_FOR_ALL else _LIMITS))]
    if names is None and sample.shape[1] >= FEWEST_FOR_TILES:
        moves += range(len(chip.rate.tiles))
    rate, least = chip.rate, _error(sample, chip)
    for step in STEP_FACTORS:
        for what, factor in product(moves, (step, 1 / step)):
            for _ in range(4):
                moved = _moved(rate, what, factor)
                error = _error(sample, replace(chip, rate=moved))
                if error >= least - 1e-7:
                    break
                rate, least = moved, error
    best = max(efficiency for _, _, efficiency in rate.tiles)
    tiles = tuple((rows, columns, efficiency / best) for rows, columns, efficiency in rate.tiles)
    return replace(rate, emax=rate.emax * best, tiles=tiles)


def _moved(rate: Rate, what: str | int, factor: float) -> Rate:
    """Return a rate with one constant, or the efficiency of one tile, changed by a factor within its limits."""
    if isinstance(what, str):
        low, high = _LIMITS[what]
        changed: dict[str, Any] = {what: min(high, max(low, getattr(rate, what) * factor))}
        return replace(rate, **changed)
    rows, columns, efficiency = rate.tiles[what]
    tile = rows, columns, min(1.0, max(0.02, efficiency * factor))
    return replace(rate, tiles=(*rate.tiles[:what], tile, *rate.tiles[what + 1 :]))


def _error(sample: Floats, chip: Chip) -> float:
    import numpy as np

    off = np.abs((estimates(sample, chip) + chip.rate.t0_ns) / sample[-1] - 1)
    long = sample[-1] > LONG_NS
    return float(off.mean() + (LONG_WEIGHT * off[long].mean() if long.any() else 0.0))


def _spread(ratios: Any) -> TimeFactors:
    import numpy as np

    low, mid, high = (float(v) for v in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return low, mid, high


class _Measured(NamedTuple):
    task: Task
    time_ns: float


def fit(
    rows: Iterable[Measurement],
    gpu: Gpu,
    source: str,
    basis: Basis = "calibrated",
    tf32: bool = True,
    start: Mapping[RateFamily, Rate] | None = None,
    stack: Stack = UNKNOWN_STACK,
) -> Constants | None:
    """Return the constants that predict measured products best; None if too few aligned GEMMs were measured.

    Args:
        rows: products measured on `gpu`, GEMMs and convolutions, aligned and not; rows of other GPUs are ignored.
        gpu: the GPU.
        source: description of the measurements, stored in the constants.
        basis: basis stored in the constants.
        tf32: whether float32 rows were measured with TF32 on.
        start: where the search starts, by family; defaults to the shipped constants nearest to the GPU.
        stack: what timed the products; unless it hides the launches, they are told apart from the kernels.

    Rates come from aligned GEMMs, the factors of passes from aligned convolutions, and multipliers from unaligned
    products that arithmetic limits. Anything that was not measured keeps its shipped figure.
    """
    measured = by_family(rows, gpu, tf32)
    rates: dict[RateFamily, Rate] = {}
    conv: dict[str, TimeFactors] = {}
    multipliers: dict[str, Multiplier] = {}
    for family in FAMILIES:
        near = fitted(gpu, family).rate  # measured times hold the launch too
        near = replace(near, t0_ns=near.t0_ns + near.launch_ns, launch_ns=0.0)
        found = fit_family(measured[family], gpu, (start or {}).get(family, near))
        if found is not None:
            rates[family] = found.rate
            conv |= _conv_factors(measured[family], found, family)
            multipliers |= _multipliers(measured[family], found, family, conv)
    if stack.kind in ("framework", "unknown"):
        rates = {family: launch_told_apart(rate) for family, rate in rates.items()}
    return Constants(gpu.id, source, basis, rates, conv, multipliers, stack) if rates else None


def by_family(rows: Iterable[Measurement], gpu: Gpu, tf32: bool) -> dict[RateFamily, list[_Measured]]:
    """Return what was measured on a GPU, by the family of dtypes that it ran in."""
    found: dict[RateFamily, list[_Measured]] = defaultdict(list)
    for row in rows:
        task = task_of(row.record, gpu, tf32) if row.gpu == gpu.id else None
        if task and not task.units.emulated:
            found[task.units.family].append(_Measured(task, row.time_ns))
    return found


def launch_told_apart(rate: Rate) -> Rate:
    """Return a rate fitted to times that hold the launch, with it told from the kernel (`launch_apart`)."""
    t0_ns, launch_ns = launch_apart(rate.t0_ns)
    return replace(rate, t0_ns=t0_ns, launch_ns=launch_ns)


def fit_family(rows: Sequence[_Measured], gpu: Gpu, start: Rate, names: Sequence[str] | None = None) -> Chip | None:
    """Return a GPU with the rate fitted to the aligned products of one family; None if there are too few."""
    aligned = [row for row in rows if row.task.arithmetic == "gemm" and row.task.level is None]
    if len(aligned) < FEWEST:
        return None
    chip = chip_of(gpu, start, aligned[0].task.units.flop_per_s)
    sample = sample_of([row.task.works[0][0] for row in aligned], [row.time_ns for row in aligned])
    return replace(chip, rate=fit_rate(sample, chip, names))


def _conv_factors(rows: Sequence[_Measured], chip: Chip, family: RateFamily) -> dict[str, TimeFactors]:
    by_class: dict[str, list[float]] = defaultdict(list)
    for task, time_ns in rows:
        if task.arithmetic == "conv" and task.groups == 1 and task.level is None:
            by_class[f"{family}:{task.classes[0]}"].append(time_ns / _predicted_ns(task, chip))
    return {key: _spread(ratios) for key, ratios in by_class.items() if len(ratios) >= FEWEST}


def _multipliers(
    rows: Sequence[_Measured], chip: Chip, family: RateFamily, conv: Mapping[str, TimeFactors]
) -> dict[str, Multiplier]:
    by_key: dict[str, list[float]] = defaultdict(list)
    for task, time_ns in rows:
        parts = [estimate(work, chip) for work, _ in task.works]
        bound = all(p.compute_ns > 1.5 * p.memory_ns and p.ns > 5 * chip.rate.t0_ns for p in parts)
        if task.level is None or not bound or task.groups > 1:
            continue
        key, spread = f"gemm:{family}:{task.level}", chip.rate.spread
        if task.arithmetic == "conv":
            key = f"conv:{family}:{task.kind}:{task.level}"
            spread = conv.get(f"{family}:{task.classes[0]}", (1.0, 1.0, 1.0))
        by_key[key].append(min(1.0, spread[1] * _predicted_ns(task, chip) / time_ns))
    return {key: Multiplier(*_spread(ratios)) for key, ratios in by_key.items() if len(ratios) >= FEWEST_UNALIGNED}


def _predicted_ns(task: Task, chip: Chip) -> float:
    """Return the time of a task by the tile model alone, without any penalty."""
    return sum(estimate(work, chip).ns * times for work, times in task.works) + chip.rate.t0_ns
