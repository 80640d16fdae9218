"""How fast the products of a run are: FLOP/s, the share of the peak, what limits them, and why they are not faster.

A product that reaches half of the GPU's dense peak uses Tensor Cores well: large aligned products reach a median of 0.6
to 0.9 of it in serving stacks and 0.6 to 0.75 in frameworks (docs/cost-model.md). Of a slower one the cause is what, by
the cost model, costs it most of the peak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tcprobe.analysis.ops.attribution import graph_record, profile_record
from tcprobe.analysis.ops.gemms import executions
from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.analysis.summary.rates import not_of_steps
from tcprobe.analysis.summary.timed import ideal_ns
from tcprobe.cost.dtype import compute_units_of
from tcprobe.cost.predict import Cost, op_cost
from tcprobe.cost.works import task_of
from tcprobe.gemm.alignment import is_aligned
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.rules.model.known_gpu import KnownGpu
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import CauseKind, Limit
from tcprobe.schema.op import OpRecord

WELL_PCT: Final = 50.0
EXPLAINS: Final = 0.1
"""A loss of less than this share of the peak explains nothing."""
_TILE: Final = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True, slots=True)
class Loss:
    """One reason why a product is slower than the peak: the share of it that it costs, 0-1, by the cost model."""

    cause: CauseKind
    share: float
    dimension: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one product ran.

    Attributes:
        flops: of its counted executions, on all GPUs.
        ns: time of its kernels, layout changes apart.
        ideal_ns: time that those FLOPs take at the GPU's dense peak for the dtype; None where that is unknown.
        limit: what limits its speed by the cost model; None where it predicts nothing.
        cause: why it is no faster, if it runs on Tensor Cores.
        dimension, size: what that cause speaks of.
        tile, waves: what the cost model takes for it.
        predicted_ns: predicted time of its counted executions.
        at_least: whether it may have run more often, so that FLOPs are a lower bound.
    """

    flops: float
    ns: float
    ideal_ns: float | None
    limit: Limit | None = None
    cause: CauseKind = "none"
    dimension: str | None = None
    size: int | None = None
    tile: str | None = None
    waves: float | None = None
    predicted_ns: float | None = None
    at_least: bool = False

    def columns(self) -> Row:
        """Return it as columns of `ops` and `gemms`; a lower bound of FLOPs gives no rate."""
        known = not self.at_least and self.ns > 0
        share = 100.0 * self.ideal_ns / self.ns if known and self.ideal_ns is not None else None
        return {
            "achieved_tflop_per_s": self.flops / self.ns / 1e3 if known else None,
            "peak_pct": share,
            "limit": self.limit,
        }


class Speeds:
    """The speeds of a run's products, by their number in `Gemms.records`.

    Args:
        inputs: what the summary is computed from.
        gpu: the GPU to predict for.
        layout_ns: op -> time of its kernels that change layout or type.
        judged: the products whose costs are predicted for their sizes already; None where there are none.
    """

    def __init__(
        self, inputs: SummaryInputs, gpu: KnownGpu, layout_ns: Mapping[OpIdentity, float], judged: JudgedStep | None
    ) -> None:
        self._inputs, self._gpu, self._judged = inputs, gpu, judged
        timed = judged.run.timed if judged else ()
        self._places = {product.number: at for at, product in enumerate(timed) if product.number >= 0}
        self._rows: dict[int, list[Row]] = {}
        for number, row in zip(inputs.gemms.records, inputs.gemms.table.rows(), strict=True):
            self._rows.setdefault(number, []).append(row)
        self._gpus = dict(zip(inputs.gemms.records, inputs.gemms.gpus, strict=False))
        self.numbers = self._numbers()
        self._layout: dict[int, float] = {}
        for key, ns in layout_ns.items():
            if key in self.numbers:
                self._layout[self.numbers[key]] = self._layout.get(self.numbers[key], 0.0) + ns
        self._calls = self._calls_of_ops()
        self.found = {number: speed for number in self._rows if (speed := self._speed(number)) is not None}

    def of(self, key: OpIdentity) -> Speed | None:
        """Return the speed of the only product that an op is; None where it is several, or nothing is known."""
        number = self.numbers.get(key)
        return None if number is None else self.found.get(number)

    def record(self, number: int) -> OpRecord:
        """Return what a product computes."""
        profile = self._inputs.profile
        if self._inputs.gemms.graph_rows:
            return graph_record(profile.require("graph_ops"), number)
        direction = self._rows[number][0]["pass"]
        return profile_record(profile.require("op_details"), number, _text(direction))

    def _numbers(self) -> dict[OpIdentity, int]:
        """Return the product that each op is, of those that are surely one."""
        ops = self._inputs.ops
        if self._inputs.gemms.graph_rows:
            rows = ops.rows_of if ops else {}
            return {key: found[0] for key, found in rows.items() if len(found) == 1 and found[0] in self._rows}
        several: dict[OpIdentity, set[int]] = {}
        details = self._inputs.profile.require("op_details")
        names, types = details.names("op"), details.names("op_type")
        for number in self._rows:
            several.setdefault((str(names[number]), types[number]), set()).add(number)
        return {key: numbers.pop() for key, numbers in several.items() if len(numbers) == 1}

    def _calls_of_ops(self) -> dict[int, list[float | None]]:
        """Return how often each op ran that is a product, as the source counts it."""
        ops = self._inputs.ops
        calls = {(str(row["op"]), _text(row["op_type"])): row["calls"] for row in (ops.table.rows() if ops else ())}
        found: dict[int, list[float | None]] = {}
        for key, number in self.numbers.items():
            times = calls.get(key)
            found.setdefault(number, []).append(None if times is None else float(times))
        return found

    def _executions(self, number: int) -> float | None:
        """Return how often a product ran in the window, on all GPUs; None where that is unknown."""
        profile = self._inputs.profile
        steps = profile.counted_steps
        if steps is not None and not_of_steps(profile) is None:
            calls = executions(self._rows[number][0]["calls_per_step"])
            return None if calls is None else steps * calls * self._gpus.get(number, 1)
        if self._inputs.launched is not None:
            return None
        counted = self._calls.get(number, [])  # sums of a profiler that says how often each op ran
        return sum(c for c in counted if c is not None) if counted and None not in counted else None

    def _speed(self, number: int) -> Speed | None:
        rows, times = self._rows[number], self._executions(number)
        spent = next((float(row["kernel_ns"]) for row in rows if row["kernel_ns"]), None)
        record = self.record(number)
        once = flops_of(gemms_of(record))
        ns = 0.0 if spent is None else spent - self._layout.get(number, 0.0)
        if not times or not once or ns <= 0:
            return None
        flops, context = once * times, self._inputs.context
        ideal = ideal_ns(flops, record.dtype, context)
        bound = any(bool(row["at_least"]) for row in rows)
        cost = self._cost(number, record)
        if cost is None:
            return Speed(flops, ns, ideal, cause=_plain(ideal, ns, bound), at_least=bound)
        cause: CauseKind = _plain(ideal, ns, bound)
        told = Loss(cause, 0.0)
        if cause == "tc_slow" and ideal is not None:
            told = max(_losses(record, cost, self._gpu, ideal / times), key=lambda loss: loss.share, default=told)
            told = told if told.share >= EXPLAINS else Loss("tc_slow", 0.0)
        return Speed(
            flops, ns, ideal, cost.limit, told.cause, told.dimension, told.size, cost.tile, cost.waves,
            cost.ns * times, bound,
        )  # fmt: skip

    def _cost(self, number: int, record: OpRecord) -> Cost | None:
        """Return the predicted cost of a product; equal ones, and those judged for their sizes, are predicted once."""
        if self._judged is not None and number in self._places:
            return self._judged.step.cost(self._places[number])
        return None if self._gpu.target is None else op_cost(record, self._gpu.target())


def _plain(ideal: float | None, ns: float, bound: bool) -> CauseKind:
    """Return whether a product runs well, or slowly for a reason yet to be told; ``none`` where that is unknown."""
    if ideal is None or (bound and 100.0 * ideal / ns < WELL_PCT):
        return "none"
    return "tc_well" if 100.0 * ideal / ns >= WELL_PCT else "tc_slow"


def _losses(record: OpRecord, cost: Cost, gpu: KnownGpu, ideal: float) -> Iterator[Loss]:
    """Yield what may make a product slower than the peak; `ideal` is the time of one execution at the peak, ns."""
    products = gemms_of(record)
    for contiguous in (one for product in products for one in product.contiguous):
        if cost.rate_pct is not None and is_aligned(contiguous.size, record.dtype) is False:
            yield Loss("tc_misaligned", 1.0 - cost.rate_pct.mid / 100.0, contiguous.role, contiguous.size)
    if cost.limit == "launch":
        yield Loss("tc_small", 1.0)
    elif cost.waves is not None and cost.waves < 1:
        yield Loss("tc_small", 1.0 - cost.waves)
    if (moved := _memory_ns(record, gpu)) is not None and moved > ideal:
        yield Loss("tc_memory", 1.0 - ideal / moved)
    main = max(products, key=lambda product: product.flops or 0, default=None)
    tile = _TILE.match(cost.tile or "")
    if main is not None and main.m and main.n and tile is not None and cost.waves:
        rows, columns = (int(size) for size in tile.groups())
        useful = main.m * main.n / (math.ceil(main.m / rows) * rows * math.ceil(main.n / columns) * columns)
        full = cost.waves / math.ceil(cost.waves) if cost.waves >= 1 else 1.0
        yield Loss("tc_tiles", 1.0 - useful * full)


def _memory_ns(record: OpRecord, gpu: KnownGpu) -> float | None:
    """Return how long the operands and the result of one execution take to move once at the GPU's bandwidth."""
    if gpu.target is None:
        return None
    target = gpu.target()
    units = compute_units_of(record.dtype, target.gpu, target.tf32)
    task = None if units is None else task_of(record, units.width)
    if task is None:
        return None
    moved = sum(work.moved_bytes * times for work, times in task.works)
    return 1e9 * moved / target.gpu.bandwidth_bytes_per_s


def _text(value: object) -> str | None:
    return None if value is None else str(value)
