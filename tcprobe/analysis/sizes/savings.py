"""What the next size of a dimension saves a step: predicted, as a share of the measured time where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tcprobe.analysis.context import Context
from tcprobe.analysis.options import Options
from tcprobe.analysis.summary.rates import counted_steps, not_of_steps
from tcprobe.cost.predict import Cost, Target, op_cost
from tcprobe.gemm.resize import resized
from tcprobe.schema.finding import Range
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Profile

Ends: TypeAlias = tuple[float, float, float]
Key: TypeAlias = tuple[str, frozenset["Change"]]
_NAMES: Final = "aliases"  # an op's other names, which change no cost


@dataclass(frozen=True, slots=True)
class Op:
    """One op of a layer.

    Attributes:
        row: of `graph_ops`, of `op_details` where there is no graph.
        record: its shapes.
        calls: executions in a step.
        sure: whether it is known to execute.
        flops: of a step, None where unknown.
    """

    row: int
    record: OpRecord
    calls: float = 1.0
    sure: bool = True
    flops: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One dimension of a layer with its next size; `transposed` says that the layer is a transposed convolution."""

    dimension: str
    old: int
    new: int
    transposed: bool = False

    def made(self, record: OpRecord) -> OpRecord | None:
        """Return the op after it; None where it has no such size, or cannot be changed."""
        try:
            return resized(record, self.dimension, self.old, self.new, self.transposed)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Times:
    """What was measured.

    Attributes:
        spent: row of an op -> its kernel time within the window, ns, summed over GPUs.
        gpus: row -> number of GPUs that each ran it; one that is missing counts as 1.
        kernel_ns: all kernel time of the window; None where nothing was measured.
        steps: that the window holds; None where that is not known, or the time is not that of whole steps.
    """

    spent: Mapping[int, int] = field(default_factory=dict)
    gpus: Mapping[int, int] = field(default_factory=dict)
    kernel_ns: float | None = None
    steps: float | None = None

    @classmethod
    def of(cls, profile: Profile, spent: Mapping[int, int], gpus: Mapping[int, int], kernel_ns: float | None) -> Times:
        """Return the times of a profile whose `iterations` are made."""
        whole = not_of_steps(profile) is None
        return cls(spent, gpus, kernel_ns, counted_steps(profile) if whole else None)

    def covers(self, ops: Iterable[Op]) -> bool:
        """Return whether a step's time of every op was measured."""
        return bool(self.kernel_ns and self.steps) and all(op.row in self.spent for op in ops)

    def step_ns(self, op: Op) -> float:
        """Return the time of an op that `covers` in a step, on each GPU."""
        return self.spent[op.row] / self.gpus.get(op.row, 1) / (self.steps or 1.0)


@dataclass(frozen=True, slots=True)
class Saving:
    """What the next size saves.

    Attributes:
        ns: in a step, on each GPU; negative where it costs.
        pct: the likely one over all kernel time where measured, 0-100; None of a prediction.
        basis: as in the contract of `bad_sizes`.
    """

    ns: Range
    pct: float | None
    basis: str


class Predictor:
    """Predicts ops on the GPU that sizes are judged against, each distinct one once.

    Attributes:
        context: names that GPU.
        compiled: whether XLA compiles the step.
    """

    def __init__(self, context: Context, options: Options, compiled: bool) -> None:
        self.context, self.compiled = context, compiled
        self._constants = options.constants
        self._target: Target | None = None
        self._costs: dict[Key, Cost | None] = {}
        self._gains: dict[tuple[str, Change, tuple[Change, ...], bool], Range | None] = {}

    def cost(self, record: OpRecord) -> Cost | None:
        """Return the cost of one execution; None where it cannot be predicted, or the GPU is not known."""
        return self._cost(_key(record), record, ())

    def _cost(self, key: str, record: OpRecord, changes: Sequence[Change]) -> Cost | None:
        """Return the cost after those of the changes that touch the op."""
        whole = key, frozenset(changes)
        if whole not in self._costs:
            for change in changes:
                record = change.made(record) or record
            self._costs[whole] = self._predicted(record)
        return self._costs[whole]

    def _predicted(self, record: OpRecord) -> Cost | None:
        gpu = self.context.judged
        if gpu is None:
            return None
        if self._target is None:
            tf32 = self.context.tf32_allowed is not False
            self._target = Target(gpu, xla=self.compiled, tf32=tf32, constants=self._constants(gpu))
        return op_cost(record, self._target)

    def step_ns(self, ops: Iterable[Op]) -> float:
        """Return the likely time of a step's products, of those that can be predicted."""
        return sum(cost.ns * op.calls for op in ops if (cost := self.cost(op.record)) is not None)

    def gain(self, op: Op, change: Change, beside: Sequence[Change], share: bool = False) -> Range | None:
        """Return what a change saves of one execution; below 0 where it costs.

        Two bad sizes of one product hide one another: mending one alone saves little. Each gets the mean of what it
        saves alone and of what it saves as the last of all, so that both add up to what they save together; the
        same in `audit-shapes` (tcprobe.rules.bad).

        Args:
            op: has the dimension.
            change: what is asked.
            beside: the other changes of its layer.
            share: in shares of its time as it is (at most 1) instead of ns. Least over least, likely over likely,
                largest over largest, since the model's errors go together.

        Returns:
            None where a size is unknown or cannot be changed.
        """
        key = _key(op.record)
        asked = key, change, tuple(beside), share
        if asked not in self._gains:
            self._gains[asked] = self._gain(key, op.record, change, beside, share)
        return self._gains[asked]

    def _gain(self, key: str, record: OpRecord, change: Change, beside: Sequence[Change], share: bool) -> Range | None:
        whole = self._cost(key, record, ())
        if whole is None or change.made(record) is None:
            return None
        unit = _ends(whole) if share else (1.0, 1.0, 1.0)
        alone = _saved(whole, self._cost(key, record, (change,)), unit)
        if not beside or alone is None:
            return alone
        last = _saved(self._cost(key, record, beside), self._cost(key, record, (*beside, change)), unit)
        return None if last is None else added((alone, last)).scaled(0.5)

    def saving(self, times: Times, ops: Sequence[Op], change: Change, beside: Sequence[Change]) -> Saving | None:
        """Return what a change saves in the ops that it touches; None where one of them cannot be predicted.

        Where each of them was measured, the figure is its measured time in a step times the share of it that the
        prediction saves, and `pct` is of all kernel time.

        Args:
            times: what was measured.
            ops: those that have the dimension.
            change: what is asked.
            beside: the other changes of the layer, which these ops may have too.
        """
        measured = times.covers(ops)
        gains = [self.gain(op, change, beside, measured) for op in ops]
        known = [gain for gain in gains if gain is not None]
        costs = [cost for op in ops if (cost := self.cost(op.record)) is not None]
        if not known or len(known) < len(gains):
            return None
        basis = "calibrated" if all(cost.basis == "calibrated" for cost in costs) else "predicted"
        if not measured or not times.kernel_ns:
            each = [_unsure(gain.scaled(op.calls), op) for gain, op in zip(known, ops, strict=True)]
            return Saving(added(each), None, basis)
        each = [gain.scaled(times.step_ns(op)) for gain, op in zip(known, ops, strict=True)]
        share = sum(gain.mid * times.spent[op.row] for gain, op in zip(known, ops, strict=True)) / times.kernel_ns
        return Saving(added(each), 100.0 * share, f"measured x {basis}")


def added(parts: Iterable[Range]) -> Range:
    """Return the sum of ranges, bound by bound, since their errors are the model's and go together."""
    found = list(parts)
    return Range(sum(p.low for p in found), sum(p.mid for p in found), sum(p.high for p in found))


def _unsure(saved: Range, op: Op) -> Range:
    """An op that may not execute may save nothing."""
    return saved if op.sure else Range(min(0.0, saved.low), saved.mid, max(0.0, saved.high))


def _saved(before: Cost | None, after: Cost | None, unit: Ends) -> Range | None:
    if before is None or after is None:
        return None
    gains = [(a - b) / u for a, b, u in zip(_ends(before), _ends(after), unit, strict=True)]
    return Range(min(gains), gains[1], max(gains))


def _key(record: OpRecord) -> str:
    """Return what tells ops of different cost apart."""
    attributes = {name: value for name, value in record.attributes.items() if name != _NAMES}
    return repr((record.op_type, record.input_shapes, record.output_shape, attributes, record.dtype, record.pass_))


def _ends(cost: Cost) -> Ends:
    return cost.low_ns, cost.ns, cost.high_ns
