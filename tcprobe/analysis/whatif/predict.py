"""What each product takes of a step, and how much shorter that gets where it computes in another dtype or size.

What products without known shapes could gain on Tensor Cores: a bound by the rates that tiles like theirs reach.

The time of a kernel and its tile are measured; how much it multiplies is not, for of K nothing tells. If it ran at the
rate that its tile reaches on the units that it used, the Tensor Cores take the ratio of the rates of its time. It may
as well be bound by memory or its launch: then it gains nothing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from tcprobe.analysis.ops.table import OpIdentity, Ops, identity_of
from tcprobe.analysis.sizes.run import JudgedStep, RecordedStep, RunProduct, run_model
from tcprobe.analysis.summary.rates import not_of_steps
from tcprobe.cost.constants import Rate, RateFamily, fitted
from tcprobe.cost.predict import Cost
from tcprobe.hardware import Gpu
from tcprobe.rules.model.step import Changes, Step, added, rests_on, share_saved
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.columns import Row
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import SIXTEEN_BIT, BlockerKind, CauseKind, Evidence, UsesTc
from tcprobe.schema.profile import Profile
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.records import text_of
from tcprobe.schema.whatif import WhatIf, WhatIfBasis

Keys: TypeAlias = frozenset[OpIdentity]
_TIMES: Final = ("split_ns", "union_ns", "sum_ns")
"""An op's part of the window, best first: overlapping kernels share the time, count once an op, count twice."""


class Part(NamedTuple):
    """What one product takes of a step."""

    ns: float  # on the GPU that runs most, kernels that change layout apart; 0 where it was not measured
    uses_tc: UsesTc  # whether its kernels use Tensor Cores; unknown too where others share its name and differ
    ops: Keys  # the ops of the profile that it is
    blockers: frozenset[BlockerKind]  # what keeps these off the Tensor Cores


class StepParts(NamedTuple):
    """A step in parts."""

    products: Sequence[Part]  # of each product of `RecordedStep.every`
    step_ns: float | None  # length of the step; None where none is known, and all is of the capture
    whole_ns: float  # what shares are taken of: the step, else all kernel time
    others: Sequence[str | None]  # dtype of each capable op of the profile that took time and is none of the products


class _Op(NamedTuple):
    """One op of the profile, in ns of the window."""

    row: Row  # of `ops`
    sum_ns: float  # its kernels added up
    part_ns: float  # its part of the window, by the best of `_TIMES` that is known, kernels that change layout apart


def parts_of(profile: Profile, run: RecordedStep, ops: Ops) -> StepParts:
    """Return what each product takes of a step.

    Times under the profiler are scaled down where the GPU is busy for less in the step that is shown: no part is more
    than its share of that.

    Args:
        profile: with its summary and `waiting`.
        run: the products.
        ops: tells which op of the profile each is.
    """
    timed = _ops(profile)
    steps, waiting = profile.kernel_steps, profile.waiting
    step_ns = waiting.step_ns if waiting else profile.value("step_time_ns")
    if not steps or not step_ns or not_of_steps(profile) or (waiting and waiting.length == "capture"):
        steps, step_ns = 1.0, None
    busiest = profile.busiest_gpu[1]
    ran = sum(_part_ns(op.row) for op in timed.values()) * busiest / steps
    scale = min(1.0, _busy_ns(profile, step_ns) / ran) if ran > 0 else 0.0
    owners = _owners(run.every, ops, run.basis)
    shared = Counter(key for keys in owners for key in keys)
    parts = [
        _part(
            product, {key: timed[key] for key in sorted(keys, key=str) if key in timed}, shared, scale * busiest / steps
        )
        for product, keys in zip(run.every, owners, strict=True)
    ]
    capable = {key: op for key, op in timed.items() if op.row["tc_capable"] == "yes" and op.sum_ns > 0}
    others = [str(dtype) if (dtype := op.row["dtype"]) else None for key, op in capable.items() if key not in shared]
    return StepParts(parts, step_ns, step_ns or ran * scale, others)


def _busy_ns(profile: Profile, step_ns: float | None) -> float:
    """Return how long the GPU that runs most is busy in a step, or in the capture; endless where no clock tells."""
    waiting = profile.waiting
    if waiting is None:
        return math.inf if step_ns is None else step_ns
    if step_ns is None and waiting.length != "capture":
        return math.inf
    return waiting.busiest_ns(*profile.busiest_gpu)


def _ops(profile: Profile) -> dict[OpIdentity, _Op]:
    kernels = profile.require("kernels")
    layout = defaultdict[OpIdentity, float](float)  # time of kernels that change layout or type for such an op
    for row in kernels.take(kernels.names("cause").among("layout")).rows():
        layout[identity_of(row)] += float(row["sum_ns"] or 0)
    ops: dict[OpIdentity, _Op] = {}
    for row in profile.require("ops").rows():
        key, spent = identity_of(row), float(row["sum_ns"] or 0)
        multiplies = max(0.0, 1.0 - layout[key] / spent) if spent else 0.0
        ops[key] = _Op(row, spent, _part_ns(row) * multiplies)
    return ops


def _part_ns(row: Row) -> float:
    return next((float(ns) for column in _TIMES if (ns := row[column]) is not None), 0.0)


def _owners(every: Sequence[RunProduct], ops: Ops, basis: str) -> list[Keys]:
    """Return which ops of the profile each product is, or may be."""
    if basis != "graph":
        return [frozenset([identity_of(timed.row)]) for timed in every]
    owners = defaultdict[int, set[OpIdentity]](set)
    for key, rows in ops.rows_of.items():
        for number in rows:
            owners[number].add(key)
    return [frozenset(owners[timed.number]) for timed in every]


def _part(product: RunProduct, ops: Mapping[OpIdentity, _Op], shared: Mapping[OpIdentity, int], scale: float) -> Part:
    spent = sum(op.sum_ns for op in ops.values())
    each = sum(op.part_ns for op in ops.values()) / spent if spent else 0.0
    kinds: Any = frozenset(op.row["tc_blocker_kind"] for op in ops.values()) - {None}
    uses_tc = _uses_tc([*ops.values()], all(shared[key] == 1 for key in ops))
    return Part((product.spent or 0) * min(1.0, each) * scale, uses_tc, frozenset(ops), kinds)


def _uses_tc(ops: Sequence[_Op], alone: bool) -> UsesTc:
    """Return whether the kernels of ops use Tensor Cores: a product does that has one such kernel beside helpers."""
    on, unclear = ([op.row[name] for op in ops] for name in ("tc_ns", "unknown_ns"))
    if not ops or None in on or None in unclear:
        return "unknown"
    used, unknown = (math.fsum(float(ns or 0) for ns in times) for times in (on, unclear))
    if used <= 0:
        return "unknown" if unknown > 0 else "no"
    return "yes" if alone or used >= math.fsum(op.sum_ns for op in ops) else "unknown"


Precision: TypeAlias = Literal["mixed_float16", "mixed_bfloat16", "allow_tf32"]
DTYPES: Final[Mapping[Precision, str | None]] = {
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
    "allow_tf32": None,
}
"""The dtype that products of float32 then compute in; None keeps float32, as TF32."""
FLOAT32: Final = frozenset({"float32", "float"})
_WEAKEST: Final[tuple[Evidence, ...]] = ("judged", "between", "timed")


class Predicted(NamedTuple):
    """What a change does to a step."""

    saved: Range  # how much shorter the step gets, in ns; below 0 where it gets longer
    spent_ns: float  # time of the products that would take another time
    ops: Keys  # the ops that these are
    unpredicted: int  # the ops that it concerns and of which nothing is predicted
    costs: tuple[Cost, ...]  # those that the ratios are of

    @property
    def gain(self) -> Range:
        """How much shorter the step gets: 0 or more, at most what was spent."""
        saved = self.saved
        return Range(*(min(max(ns, 0.0), self.spent_ns) for ns in (saved.low, saved.mid, saved.high)))

    @property
    def basis(self) -> WhatIfBasis:
        """What the ratios rest on."""
        own = {cost.basis for cost in self.costs} == {"calibrated"}
        return "measured x calibrated" if own else "measured x predicted"

    @property
    def evidence(self) -> Evidence | None:
        """The weakest evidence among them; None without any."""
        kinds = {cost.evidence for cost in self.costs}
        return next((evidence for evidence in _WEAKEST if evidence in kinds), None)

    @property
    def constants(self) -> Provenance | None:
        """Whose constants they rest on: those of the costliest."""
        return next(iter(rests_on(self.costs)), None)


class Predictor:
    """Predicts the products of a measured step as they ran, and as they would."""

    def __init__(self, judged: JudgedStep, parts: StepParts) -> None:
        """Take the products, on a GPU that is known, and their parts of the step."""
        self.every, self.parts = judged.run.every, parts
        whole = len(self.every) == len(judged.run.timed)
        self.step = judged.step if whole else Step(run_model(self.every), judged.step.gpu)

    @cached_property
    def _on_cuda_cores(self) -> Step:
        return self.step.computing(None, tf32=False)

    @cached_property
    def _as_tf32(self) -> Step:
        return self.step if self.step.target.tf32 else self.step.computing(None, tf32=True)

    @cached_property
    def _lowered(self) -> dict[Precision, Step]:
        steps = {kind: dtype and self.step.computing(dtype, tf32=True) for kind, dtype in DTYPES.items()}
        return {kind: step or self._as_tf32 for kind, step in steps.items()}

    @property
    def is_16_bit(self) -> bool:
        """Whether products that took time compute in 16 bits already: then the precision was lowered."""
        timed = zip(self.every, self.parts.products, strict=True)
        return any(known.product.record.dtype in SIXTEEN_BIT for known, part in timed if part.ns > 0)

    def concerned(self, precision: Precision) -> list[int]:
        """Return the products that a precision concerns, timed or not: those in float32.

        TF32 concerns those that are known to have run without it because it was off.
        """
        float32 = [i for i, known in enumerate(self.every) if known.product.record.dtype in FLOAT32]
        if precision != "allow_tf32":
            return float32
        return [i for i in float32 if "tf32" in self.parts.products[i].blockers and self._ran_on(i) == "fp32"]

    def _other_ops(self, precision: Precision) -> int:
        """Return how many ops of the profile it concerns that are none of the products."""
        if precision == "allow_tf32":
            return 0
        return sum(dtype is None or bool(FLOAT32 & set(dtype.split("+"))) for dtype in self.parts.others)

    def predict(self, precision: Precision | None, sizes: Mapping[int, Changes]) -> Predicted:
        """Return what a precision and changes of sizes do together; each product counts once.

        Args:
            precision: None leaves every product in its own.
            sizes: the changes that touch a product, by its index.
        """
        lowered = set() if precision is None else set(self.concerned(precision))
        unpredicted = 0 if precision is None else self._other_ops(precision)
        saved, costs, ops, spent = list[Range](), list[Cost](), set[OpIdentity](), 0.0
        for index in sorted(lowered | set(sizes)):
            changes = sizes.get(index, ())
            if index not in lowered and not self.step.touches(index, changes):
                continue
            pair = self._pair(index, precision if index in lowered else None, changes)
            share = pair and share_saved(*pair)
            part = self.parts.products[index]
            if pair is None or share is None or part.ns <= 0:
                unpredicted += self.every[index].product.sure  # what surely ran counts
                continue
            saved.append(share.scaled(part.ns))
            spent += part.ns
            ops |= part.ops
            costs += pair
        return Predicted(added(saved), spent, frozenset(ops), unpredicted, tuple(costs))

    def saved(self, index: int, precision: Precision | None, changes: Changes) -> float:
        """Return what a product likely saves of a step, in ns; 0 where that is not known."""
        pair = self._pair(index, precision, changes)
        share = pair and share_saved(*pair)
        return 0.0 if share is None else share.mid * self.parts.products[index].ns

    def _pair(self, index: int, precision: Precision | None, changes: Changes) -> tuple[Cost, Cost] | None:
        """Return what one execution costs as it ran, and as it would; None where one is not known."""
        if self.parts.products[index].uses_tc == "unknown":
            return None
        before = self.step
        if precision:  # a product in float32, on the units that it ran on
            if (ran := self._ran_on(index)) is None:
                return None
            before = self._as_tf32 if ran == "tf32" else self._on_cuda_cores
        now, then = (
            before.cost(index),
            (self._lowered[precision] if precision else self.step).cost_after(index, changes),
        )
        return None if now is None or then is None else (now, then)

    def _ran_on(self, index: int) -> Literal["tf32", "fp32"] | None:
        """Return the units that a product in float32 ran on; None where that is not known, or no GPU can."""
        uses = self.parts.products[index].uses_tc
        if uses == "yes":
            return None if self.step.target.gpu.peak_flop_per_s("tf32") is None else "tf32"
        return "fp32" if uses == "no" else None


def by_product(step: Step, changes: Iterable[Changes]) -> dict[int, Changes]:
    """Return changes that go together by the products that they may touch."""
    made = step.links.settled(tuple(change for several in changes for change in several))
    touched: dict[int, Changes] = {}
    for change in made:
        for index in step.touched(change):
            touched[index] = (*touched.get(index, ()), change)
    return touched


Units: TypeAlias = Literal["mixed_float16", "mixed_bfloat16", "allow_tf32", "tensor_cores"]
_LOWERED: Final[tuple[Units, ...]] = ("mixed_float16", "mixed_bfloat16")
CHANGES_OF: Final[dict[CauseKind, tuple[Units, ...]]] = {
    "dtype": _LOWERED,
    "tf32": ("allow_tf32", *_LOWERED),
    "tf32_unknown": ("allow_tf32", *_LOWERED),
    "library": ("tensor_cores",),
    "shape": ("tensor_cores",),
    "channels": ("tensor_cores",),
}
"""What would bring a kernel that is off the Tensor Cores for this cause onto them."""
_KINDS: Final = ("matmul", "convolution", "helper")
_OF_FLOAT32: Final = ("fp32", "tf32", None)
_FAMILIES: Final[dict[Units, tuple[str, RateFamily]]] = {
    "mixed_float16": ("float16", "tc16"),
    "mixed_bfloat16": ("bfloat16", "tc16"),
    "allow_tf32": ("tf32", "tf32"),
    "tensor_cores": ("float16", "tc16"),
}


class _Concerned(Struct):
    """What one change concerns, in ns of the window over all GPUs."""

    spent_ns: float = 0.0
    at_most_ns: float = 0.0
    kernels: int = 0
    ops: frozenset[tuple[str, str | None]] = frozenset()


def kernel_what_ifs(profile: Profile, gpu: Gpu) -> Iterator[WhatIf]:
    """Yield what each change saves at most of products off the Tensor Cores whose shapes nobody knows.

    Args:
        profile: with causes of its kernels.
        gpu: that ran. What saves less at most than `SMALLEST_PCT` of the step, else of all kernel time, is left out.
    """
    shaped = {(row["op"], row["op_type"]) for row in profile.require("ops").rows() if row["flops"] is not None}
    found = defaultdict[Units, _Concerned](_Concerned)
    total = 0.0
    for row in profile.require("kernels").rows():
        ns = float(row["sum_ns"] or 0)
        total += ns
        if (row["op"], row["op_type"]) in shaped or row["kind"] not in _KINDS or not ns:
            continue
        for change in _changes(row):
            if (ratio := _ratio(gpu, change, row)) is not None:
                gone = row["kind"] == "helper"  # im2col, Winograd's transforms: another kernel may need none
                _add(found[change], row, ns, ns * (1.0 - (0.0 if gone else ratio)))
    waiting, steps = profile.waiting, profile.kernel_steps
    known = waiting is not None and waiting.length != "capture" and steps
    step_ns = waiting.step_ns if known and waiting else None
    each = profile.busiest_gpu[1] / (steps if known and steps else 1.0)
    busy = waiting.busiest_ns(*profile.busiest_gpu) if waiting else total * each
    for change, one in sorted(found.items(), key=lambda item: (-item[1].at_most_ns, item[0])):
        spent = min(one.spent_ns * each, busy)
        high = spent * one.at_most_ns / one.spent_ns
        if 100.0 * high >= SMALLEST_PCT * (step_ns or total * each):
            own = fitted(gpu, _FAMILIES[change][1]).provenance
            gain = Range(0.0, 0.0, high)
            yield WhatIf(
                change, gain, spent, one.kernels, "tile rates", one.ops, step_ns=step_ns, constants=own, bound=True
            )


def _changes(row: Row) -> tuple[Units, ...]:
    """Return the changes that concern a kernel: a library's choice of 16 bits, or another precision of float32."""
    cause: CauseKind = row["cause"]  # type: ignore[assignment]
    changes = CHANGES_OF.get(cause, ()) if row["uses_tc"] == "no" else ()
    wanted = ("fp16", "bf16") if "tensor_cores" in changes else _OF_FLOAT32
    return changes if row["precision"] in wanted or (row["kind"] == "helper" and row["precision"] is None) else ()


def _ratio(gpu: Gpu, change: Units, row: Row) -> float | None:
    """Return the rate of a kernel's tile on CUDA cores over that on Tensor Cores; None where these are no faster."""
    dtype, family = _FAMILIES[change]
    slow, fast = gpu.peak_flop_per_s("float32"), gpu.peak_flop_per_s(dtype)
    if slow is None or fast is None or not gpu.tensor_cores:
        return None
    tile = text_of(row["tile"])
    now = slow * _reached(fitted(gpu, "fp32").rate, tile)
    then = fast * _reached(fitted(gpu, family).rate, tile)
    return now / then if now < then else None


def _reached(rate: Rate, tile: str | None) -> float:
    """Return the share of the peak that a tile of this area reaches at best; the best tile's where it is unknown."""
    if tile is None:
        return rate.emax * max(efficiency for _, _, efficiency in rate.tiles)
    rows, columns = (int(size) for size in tile.split("x"))
    nearest = min(rate.tiles, key=lambda one: (abs(one[0] * one[1] - rows * columns), -one[2]))
    return rate.emax * nearest[2]


def _add(one: _Concerned, row: Row, ns: float, at_most_ns: float) -> None:
    one.spent_ns += ns
    one.at_most_ns += at_most_ns
    one.kernels += 1
    if row["op"] is not None:
        one.ops |= {identity_of(row)}
