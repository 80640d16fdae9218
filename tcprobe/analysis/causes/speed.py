"""How fast the products of a run are: FLOP/s, the share of the peak, what limits them, and why they are not faster.

A product that reaches half of the GPU's dense peak uses Tensor Cores well: large aligned products reach a median of 0.6
to 0.9 of it in serving stacks and 0.6 to 0.75 in frameworks (docs/cost-model.md). Of a slower one the cause is what, by
the cost model, costs it most of the peak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from tcprobe.analysis.ops.gemms import executions
from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.analysis.summary.rates import ideal_ns, not_of_steps
from tcprobe.cost.predict import Cost, op_cost
from tcprobe.cost.works import task_of
from tcprobe.gemm.alignment import is_aligned
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.rules.model.step import KnownGpu
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import CauseKind, Limit
from tcprobe.schema.op import OpRecord

WELL_PCT: Final = 50.0
EXPLAINS: Final = 0.1
"""A loss of less than this share of the peak explains nothing."""
_TILE: Final = re.compile(r"(\d+)x(\d+)")


class Loss(NamedTuple):
    """One reason why a product is slower than the peak: the share of it that it costs, 0-1, by the cost model."""

    cause: CauseKind
    share: float
    dimension: str | None = None
    size: int | None = None


class Speed(Struct, frozen=True):
    """How fast one product ran."""

    flops: float  # of its counted executions, on all GPUs
    ns: float  # time of its kernels, layout changes apart
    # time that those FLOPs take at the GPU's dense peak for the dtype; None where that is unknown
    ideal_ns: float | None
    limit: Limit | None = None  # what limits its speed by the cost model; None where it predicts nothing
    cause: CauseKind = "none"  # why it is no faster, if it runs on Tensor Cores
    # dimension, size: what that cause speaks of.
    dimension: str | None = None
    size: int | None = None
    # tile, waves: what the cost model takes for it.
    tile: str | None = None
    waves: float | None = None
    predicted_ns: float | None = None  # predicted time of its counted executions
    at_least: bool = False  # whether it may have run more often, so that FLOPs are a lower bound
    # FLOPs over the bytes of operands and result, each moved once: at most; None where they are unknown
    flop_per_byte: float | None = None

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
        judged: the products of a step, with predicted costs of those whose sizes are judged; None where there are none.
    """

    def __init__(
        self, inputs: SummaryInputs, gpu: KnownGpu, layout_ns: Mapping[OpIdentity, float], judged: JudgedStep | None
    ) -> None:
        self._inputs, self._gpu, self._judged = inputs, gpu, judged
        run = judged.run if judged else None
        self._places = {product.number: at for at, product in enumerate(run.timed if run else ())}
        self._steps_calls = dict(zip(inputs.gemms.records, inputs.gemms.table.values("calls_per_step"), strict=True))
        self.products = {one.number: one for one in (run.whole if run else ()) if one.number in self._steps_calls}
        self.numbers = self._numbers()
        self._ops: dict[int, list[OpIdentity]] = {}
        for op, number in self.numbers.items():
            self._ops.setdefault(number, []).append(op)
        self._layout = {number: sum(layout_ns.get(op, 0.0) for op in ops) for number, ops in self._ops.items()}
        rows = inputs.ops.table.rows() if inputs.ops else ()
        self._calls = {(row["op"], row["op_type"]): row["calls"] for row in rows}
        self.by_number = {number: speed for number in self.products if (speed := self._speed(number)) is not None}

    def facts(self, op: OpIdentity) -> tuple[Speed | None, OpRecord | None]:
        """Return speed and shapes of the only product that an op is; None where it is several, or nothing is known."""
        number = self.numbers.get(op, -1)
        product = self.products.get(number)
        return self.by_number.get(number), None if product is None else product.product.record

    def _numbers(self) -> dict[OpIdentity, int]:
        """Return the product that each op is, of those that are surely one."""
        ops, details = self._inputs.ops, self._inputs.profile.require("op_details")
        products: dict[OpIdentity, list[int]] = {}
        if self._inputs.gemms.graph_rows:
            products = {op: list(rows) for op, rows in ops.rows_of.items()} if ops else {}
        else:
            names, types = details.names("op"), details.names("op_type")
            for number in self.products:
                products.setdefault((str(names[number]), types[number]), []).append(number)
        return {op: numbers[0] for op, numbers in products.items() if len(numbers) == 1 and numbers[0] in self.products}

    def _executions(self, number: int) -> float | None:
        """Return how often a product ran in the window, on all GPUs; None where that is unknown."""
        profile = self._inputs.profile
        steps = profile.counted_steps
        if steps is not None and not_of_steps(profile) is None:
            calls = executions(self._steps_calls[number])
            return None if calls is None else steps * calls * self.products[number].gpus
        if self._inputs.launched is not None:
            return None
        counted = [self._calls.get(op) for op in self._ops.get(number, ())]  # sums of a profiler that counts calls
        return sum(float(c or 0) for c in counted) if counted and None not in counted else None

    def _speed(self, number: int) -> Speed | None:
        product, times = self.products[number], self._executions(number)
        record, context = product.product.record, self._inputs.context
        once = flops_of(gemms_of(record))
        ns = (product.spent or 0.0) - self._layout.get(number, 0.0)
        if not product.spent or not times or not once or ns <= 0:
            return None
        flops = once * times
        ideal = ideal_ns(flops, record.dtype, context)
        bound = product.row.get("at_least") is True
        cause, cost = _plain(ideal, ns, bound), self._cost(number, record)
        moved = _moved_bytes(record, self._gpu)
        dense = once / moved if moved else None
        if cost is None:
            return Speed(flops, ns, ideal, cause=cause, at_least=bound, flop_per_byte=dense)
        loss = Loss(cause, 0.0)
        if cause == "tc_slow" and ideal is not None:
            losses = _losses(record, cost, self._gpu, (ideal / times, moved))
            worst = max(losses, key=lambda one: one.share, default=loss)
            loss = worst if worst.share >= EXPLAINS else loss
        return Speed(
            flops, ns, ideal, cost.limit, loss.cause, loss.dimension, loss.size, cost.tile, cost.waves,
            cost.ns * times, bound, dense,
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


def _losses(record: OpRecord, cost: Cost, gpu: KnownGpu, once: tuple[float, float | None]) -> Iterator[Loss]:
    """Yield what may make a product slower than the peak; `once`: of one execution ns at the peak, and bytes moved."""
    ideal, moved = once
    products = gemms_of(record)
    for contiguous in (one for product in products for one in product.contiguous):
        if cost.rate_pct is not None and is_aligned(contiguous.size, record.dtype) is False:
            yield Loss("tc_misaligned", 1.0 - cost.rate_pct.mid / 100.0, contiguous.role, contiguous.size)
    if cost.limit == "launch":
        yield Loss("tc_small", 1.0)
    elif cost.waves is not None and cost.waves < 1:
        yield Loss("tc_small", 1.0 - cost.waves)
    if gpu.target is not None and moved is not None:
        in_memory = 1e9 * moved / gpu.target().gpu.bandwidth_bytes_per_s  # their time at the GPU's bandwidth
        if in_memory > ideal:
            yield Loss("tc_memory", 1.0 - ideal / in_memory)
    main = max(products, key=lambda product: product.dense_flops or 0, default=None)
    tile = _TILE.match(cost.tile or "")
    if main is not None and main.m and main.n and tile is not None and cost.waves:
        rows, columns = (int(size) for size in tile.groups())
        useful = main.m * main.n / (math.ceil(main.m / rows) * rows * math.ceil(main.n / columns) * columns)
        full = cost.waves / math.ceil(cost.waves) if cost.waves >= 1 else 1.0
        yield Loss("tc_tiles", 1.0 - useful * full)


def _moved_bytes(record: OpRecord, gpu: KnownGpu) -> float | None:
    """Return the bytes of operands and result of one execution, each moved once."""
    if gpu.target is None:
        return None
    target = gpu.target()
    task = task_of(record, target.gpu, target.tf32)
    return None if task is None else sum(work.moved_bytes * times for work, times in task.works)
