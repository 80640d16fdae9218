"""Give every kernel one cause: why its time is spent as it is.

How fast the products of a run are: FLOP/s, the share of the peak, what limits them, and why they are not faster.

A product that reaches half of the GPU's dense peak uses Tensor Cores well: large aligned products reach a median of 0.6
to 0.9 of it in serving stacks and 0.6 to 0.75 in frameworks (docs/cost-model.md). Of a slower one the cause is what, by
the cost model, costs it most of the peak.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.kernels.kinds import Part, is_direct, part_of
from tcprobe.analysis.ops.gemms import executions
from tcprobe.analysis.ops.table import NO_OP, OpIdentity
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.analysis.summary.rates import ideal_ns, not_of_steps
from tcprobe.cost.predict import Cost, op_cost
from tcprobe.cost.works import task_of
from tcprobe.gemm.conv import CONV_PASSES, convolution_of
from tcprobe.gemm.ops import conv_like, family_of, gemms_of
from tcprobe.gemm.record import flops_of, is_aligned
from tcprobe.rules.model.step import KnownGpu
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import PRODUCTS, CauseKind, KernelKind, Limit
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
        each = self._each()
        alone = {op: numbers[0] for op, numbers in each.items() if len(numbers) == 1}
        self.numbers = {op: number for op, number in alone.items() if number in self.products}
        self.odd = frozenset(op for op, numbers in each.items() if all(map(self._is_odd, numbers)))
        """Ops all of whose products have a contiguous dimension that is misaligned."""
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

    def _is_odd(self, number: int) -> bool:
        if number not in self.products:
            return False
        record = self.products[number].product.record
        sizes = [one.size for gemm in gemms_of(record) for one in gemm.contiguous]
        return any(is_aligned(size, record.dtype) is False for size in sizes)

    def _each(self) -> dict[OpIdentity, list[int]]:
        """Return the products that each op is."""
        ops, details = self._inputs.ops, self._inputs.profile.require("op_details")
        products: dict[OpIdentity, list[int]] = {}
        if self._inputs.gemms.graph_rows:
            products = {op: list(rows) for op, rows in ops.rows_of.items()} if ops else {}
        else:
            names, types = details.names("op"), details.names("op_type")
            for number in self.products:
                products.setdefault((str(names[number]), types[number]), []).append(number)
        return products

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


FEW: Final = 4  # channels or filters of one group: cuDNN has Tensor Core kernels for more (docs/cost-model.md)


class Kernel(Struct):
    """One row of `kernels`."""

    device: int | None
    name: str
    op: OpIdentity  # `NO_OP` where the source names none
    calls: int | None
    ns: int | None  # None where unknown
    uses_tc: str
    part: Part | None  # what it does in its op; None where the op could not use Tensor Cores
    kind: KernelKind = "unknown"  # what it does by its name
    precision: str | None = None  # of its operands
    cause: CauseKind = "op_unknown"

    @property
    def rank(self) -> tuple[int, str]:
        """The costliest kernel has the highest; of equal ones the last by name."""
        return self.ns or 0, self.name


Kernels: TypeAlias = Mapping[OpIdentity, Sequence[Kernel]]
"""The kernels of each op."""


def kernels_of(table: Table, ops: Mapping[OpIdentity, Row]) -> list[Kernel]:
    """Return the rows of `kernels`, whose causes are yet to be told.

    Args:
        table: `kernels`, with their class.
        ops: op -> its row of `ops`.
    """
    names = ("device", "kernel", "op", "op_type", "calls", "sum_ns", "uses_tc", "kind", "precision")
    columns = (table.values(name) for name in names)
    kernels: list[Kernel] = []
    row: tuple[Any, ...]
    for row in zip(*columns, strict=True):
        device, name, op, op_type, calls, ns, uses_tc, kind, precision = row
        known = None if op is None else ops.get((op, op_type))
        part = None if known is None or known["tc_capable"] == "no" else part_of(name)
        kernels.append(Kernel(device, name, (op or NO_OP, op_type), calls, ns, uses_tc, part, kind, precision))
    return kernels


def by_op(kernels: Sequence[Kernel]) -> dict[OpIdentity, list[Kernel]]:
    """Return the kernels of each op."""
    ops = defaultdict[OpIdentity, list[Kernel]](list)
    for kernel in kernels:
        ops[kernel.op].append(kernel)
    return ops


class Few(NamedTuple):
    """The channels, filters or groups for which a library has CUDA-core kernels alone."""

    dimension: str
    size: int


class OpFacts(Struct, frozen=True):
    """What the causes of an op's kernels follow from."""

    row: Row  # of `ops`
    speed: Speed | None = None  # of its product; None where unknown
    # what of a convolution's shape leaves a library no choice; None where nothing does, or it is no convolution
    few: Few | None = None
    odd: bool = False  # whether all its products are misaligned, of which no one's speed is known


def few_of(record: OpRecord | None, op_type: str | None) -> Few | None:
    """Return what of a convolution's shape leaves a library CUDA-core kernels alone: groups, then filters, channels."""
    if record is None or not conv_like(op_type or record.op_type):
        return None
    family = family_of(record.op_type)
    conv = convolution_of(record, CONV_PASSES[family]) if family in CONV_PASSES else None
    if conv is not None and conv.groups is not None and conv.groups > 1:
        return Few("groups", conv.groups)
    sizes = {one.role: one.size for gemm in gemms_of(record)[:1] for one in gemm.contiguous}
    small = [(size, role) for role, size in sizes.items() if size is not None and size <= FEW]
    return Few(min(small)[1], min(small)[0]) if small else None


def few_of_gradients(facts: Mapping[OpIdentity, OpFacts]) -> dict[OpIdentity, OpFacts]:
    """Return the facts, those of a gradient that names no channels (XLA's) with the few of its layer's convolutions.

    Only where all convolutions of the layer's forward pass have the same.
    """
    forward = defaultdict[Value, set[Few | None]](set)
    for (_, op_type), fact in facts.items():
        if conv_like(op_type) and fact.row["pass"] == "forward" and fact.row["layer"] is not None:
            forward[fact.row["layer"]].add(fact.few)
    made = dict(facts)
    for key, fact in facts.items():
        few = forward.get(fact.row["layer"], set())
        if fact.few is None and conv_like(key[1]) and fact.row["pass"] in ("dgrad", "wgrad") and len(few) == 1:
            made[key] = replace(fact, few=next(iter(few)))
    return made


def set_causes(kernels: Kernels, facts: Mapping[OpIdentity, OpFacts]) -> None:
    """Set the cause of each kernel, by the facts of its op."""
    for op, members in kernels.items():
        fact = facts.get(op)
        multiply = [one for one in members if one.uses_tc == "no" and one.part == "multiplies"]
        direct = bool(multiply) and is_direct(max(multiply, key=lambda one: one.rank).name)
        for kernel in members:
            if fact is None or op[0] == NO_OP:  # its name may tell more (`names`)
                kernel.cause = "none" if kernel.uses_tc == "yes" else "op_unknown"
            else:
                kernel.cause = _cause(kernel, fact, direct)


MAY_SERVE: Final = (
    *(*PRODUCTS, "matrix_vector", "helper", "fourier", "autotuning", "fusion", "unknown"),
    *("elementwise", "copy", "reduction"),  # a bias, a layout, the gradient of a bias
)
"""Kinds of kernels that are products that Tensor Cores could multiply, or may stand in the op of one."""


def multiplies_nothing(kernel: Kernel) -> bool:
    """Return whether a kernel's name tells that what it does never runs on Tensor Cores, whatever its op is."""
    return kernel.uses_tc == "no" and kernel.kind not in MAY_SERVE


def _cause(kernel: Kernel, fact: OpFacts, direct: bool) -> CauseKind:
    row, speed = fact.row, fact.speed
    if row["tc_capable"] != "yes":
        return "type" if row["tc_capable"] == "no" or multiplies_nothing(kernel) else "type_unknown"
    if kernel.part == "layout":
        return "layout"
    blocker: Any = row["tc_blocker_kind"] or "kernels_unknown"
    if row["tc_ns"]:
        if kernel.uses_tc == "yes" or kernel.part == "helps":
            return speed.cause if speed is not None else "tc_misaligned" if fact.odd else "none"
        misaligned = speed is not None and speed.cause == "tc_misaligned"
        blocker = "kernels_unknown" if kernel.uses_tc == "unknown" else "shape" if misaligned else "library"
    # where the shape left the library no choice, that
    return "channels" if blocker in ("shape", "library") and fact.few is not None and direct else blocker


def layout_ns(kernels: Kernels) -> dict[OpIdentity, float]:
    """Return the time of each op's kernels that change layout or type."""
    return {op: sum(one.ns or 0 for one in each if one.part == "layout") for op, each in kernels.items()}
