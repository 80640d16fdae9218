"""Predict how much shorter the products of a step get where they compute in another dtype, or have other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from tcprobe.analysis.sizes.run import RunProduct, run_model
from tcprobe.analysis.whatif.parts import Keys, Part, StepParts
from tcprobe.cost.predict import Cost
from tcprobe.rules.model.known_gpu import KnownGpu
from tcprobe.rules.model.step import Changes, Step, added, rests_on, share_saved
from tcprobe.schema.changes.whatif import WhatIfBasis
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import SIXTEEN_BIT, Evidence
from tcprobe.schema.provenance import Provenance

Precision: TypeAlias = Literal["mixed_float16", "mixed_bfloat16", "allow_tf32"]
DTYPES: Final[Mapping[Precision, str | None]] = {
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
    "allow_tf32": None,
}
"""The dtype that products of float32 then compute in; None keeps float32, as TF32."""
FLOAT32: Final = frozenset({"float32", "float"})
_WEAKEST: Final[tuple[Evidence, ...]] = ("judged", "between", "timed")
NOTHING: Final = Range(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a change does to a step.

    Attributes:
        saved: how much shorter the step gets, in ns; below 0 where it gets longer.
        spent_ns: time of the products that would take another time.
        ops: the ops that these are.
        unpredicted: the ops that it concerns and of which nothing is predicted.
        costs: those that the ratios are of.
    """

    saved: Range = NOTHING
    spent_ns: float = 0.0
    ops: Keys = frozenset()
    unpredicted: int = 0
    costs: tuple[Cost, ...] = ()

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
        found = {cost.evidence for cost in self.costs}
        return next((evidence for evidence in _WEAKEST if evidence in found), None)

    @property
    def constants(self) -> Provenance | None:
        """Whose constants they rest on: those of the costliest."""
        return next(iter(rests_on(self.costs)), None)


class Predictor:
    """Predicts the products of a measured step as they ran, and as they would."""

    def __init__(self, every: Sequence[RunProduct], parts: StepParts, gpu: KnownGpu) -> None:
        """Take the products with their parts of the step, and the GPU that ran them, which must be known."""
        self.every, self.parts = every, parts
        self.step = Step(run_model(every), gpu)

    @cached_property
    def _gpu_runs_tf32(self) -> bool:
        return self.step.target.gpu.peak_flop_per_s("tf32") is not None

    @cached_property
    def _on_cuda_cores(self) -> Step:
        return self.step.computing(None, tf32=False)

    @cached_property
    def _as_tf32(self) -> Step:
        return self.step.computing(None, tf32=True)

    @cached_property
    def _in_16_bits(self) -> dict[Precision, Step]:
        return {kind: self.step.computing(dtype, tf32=True) for kind, dtype in DTYPES.items()}

    @property
    def is_16_bit(self) -> bool:
        """Whether products that took time compute in 16 bits already: then the precision was lowered."""
        timed = zip(self.every, self.parts.products, strict=True)
        return any(known.product.record.dtype in SIXTEEN_BIT for known, part in timed if part.ns > 0)

    def concerned(self, precision: Precision) -> list[int]:
        """Return the products that a precision concerns, timed or not: those in float32.

        TF32 concerns those that are known to have run without it because it was off.
        """
        found = [i for i, known in enumerate(self.every) if known.product.record.dtype in FLOAT32]
        if precision != "allow_tf32":
            return found
        return [i for i in found if "tf32" in self.parts.products[i].blockers and self._ran_on(i) == "fp32"]

    def other_ops(self, precision: Precision) -> int:
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
        found = Predicted(unpredicted=0 if precision is None else self.other_ops(precision))
        saved: list[Range] = []
        for index in sorted(lowered | set(sizes)):
            changes = sizes.get(index, ())
            if index not in lowered and not self.step.touches(index, changes):
                continue
            pair = self._pair(index, precision if index in lowered else None, changes)
            share = pair and share_saved(*pair)
            part = self.parts.products[index]
            if pair is None or share is None or part.ns <= 0:
                found = replace(found, unpredicted=found.unpredicted + self._ran(index))
                continue
            saved.append(share.scaled(part.ns))
            found = _with(found, part, pair)
        return replace(found, saved=added(saved))

    def _ran(self, index: int) -> bool:
        """Return whether a product surely ran, so that it counts though nothing is predicted of it."""
        return self.every[index].product.sure

    def saved(self, index: int, precision: Precision | None, changes: Changes) -> float:
        """Return what a product likely saves of a step, in ns; 0 where that is not known."""
        pair = self._pair(index, precision, changes)
        share = pair and share_saved(*pair)
        return 0.0 if share is None else share.mid * self.parts.products[index].ns

    def _pair(self, index: int, precision: Precision | None, changes: Changes) -> tuple[Cost, Cost] | None:
        """Return what one execution costs as it ran, and as it would; None where one is not known."""
        if self.parts.products[index].uses_tc == "unknown":
            return None
        now = self._now(index) if precision else self.step.cost(index)
        then = (self._in_16_bits[precision] if precision else self.step).cost_after(index, changes)
        return None if now is None or then is None else (now, then)

    def _now(self, index: int) -> Cost | None:
        """Return what a product in float32 costs on the units that it ran on."""
        ran = self._ran_on(index)
        return None if ran is None else (self._as_tf32 if ran == "tf32" else self._on_cuda_cores).cost(index)

    def _ran_on(self, index: int) -> Literal["tf32", "fp32"] | None:
        """Return the units that a product in float32 ran on; None where that is not known, or no GPU can."""
        uses = self.parts.products[index].uses_tc
        if uses == "yes":
            return "tf32" if self._gpu_runs_tf32 else None
        return "fp32" if uses == "no" else None


def _with(found: Predicted, part: Part, pair: tuple[Cost, Cost]) -> Predicted:
    return replace(found, spent_ns=found.spent_ns + part.ns, ops=found.ops | part.ops, costs=(*found.costs, *pair))


def by_product(step: Step, changes: Iterable[Changes]) -> dict[int, Changes]:
    """Return changes that go together by the products that they may touch."""
    made = step.links.settled(tuple(change for several in changes for change in several))
    found: dict[int, Changes] = {}
    for change in made:
        for index in step.touched(change):
            found[index] = (*found.get(index, ()), change)
    return found
