"""Add the what-ifs of a run: for each change the step that is predicted with it, and with all that go together.

Predict the step of a run without a GPU on the one that it is judged for: as it is, and in mixed precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from tcprobe.analysis.context import Context
from tcprobe.analysis.ops.table import Ops
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.rates import LOST, not_of_steps
from tcprobe.analysis.whatif.predict import (
    DTYPES,
    Precision,
    Predicted,
    Predictor,
    StepParts,
    by_product,
    kernel_what_ifs,
    parts_of,
)
from tcprobe.rules.model.bad import Bad, shared_out
from tcprobe.rules.model.settled import settled_sizes, with_changes
from tcprobe.rules.model.sizes import INPUTS, LinkedChange
from tcprobe.rules.model.step import Changes, ProductTime, Step, added
from tcprobe.rules.run.base import CHOSEN
from tcprobe.rules.run.savings import SMALLEST_PCT, followers, size_key
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import CHANGES, ChangeKind, NoWhatIf
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.screen import PredictedStep, Prediction
from tcprobe.schema.tables import WHAT_IFS
from tcprobe.schema.whatif import Throughput, WhatIf

_ORDER: Final = list(CHANGES)
_Key: TypeAlias = tuple[str, str, int]
"""Layer, dimension and size."""
NOT: Final[Mapping[NoWhatIf, str]] = {
    "no_gpu": "no GPU: nothing was measured that another step could be predicted from",
    "not_nvidia": "not an NVIDIA GPU: nothing is predicted",
    "no_tensor_cores": "the GPU has no Tensor Cores",
    "gpu_unknown": "which GPU ran is not known, or several models ran: nothing is predicted",
    "tuned": "the window holds autotuning: its time is not that of a usual step",
    "incomplete": "the profiler lost events: times of ops are too short",
    "no_products": "no op with known shapes has kernel time, and no product runs off the Tensor Cores by the names of "
    "its kernels",
    "no_gain": "no change that can be predicted gains 1 % of a step",
}


def with_what_ifs(profile: Profile, judged: JudgedStep | None, ops: Ops | None, context: Context) -> Profile:
    """Return the profile with the steps that changes are predicted to give; says why where nothing can be predicted.

    Every prediction is a measured time times a ratio of predicted times. Only products are predicted: all other
    kernels, and the time that the GPU waits, stay as they are. Changes that likely gain less than 1 % of a step stand
    in no row of their own, and count where all go together.

    Args:
        profile: with all tables that the analysis derives, `bad_sizes` and the summary among them.
        judged: the products of a step, with what they cost on the GPU that ran.
        ops: tells which op of the profile each product is.
        context: the GPU that ran.
    """
    why = _impossible(profile, context)
    if why is not None or context.judged is None:
        return _without(profile, why or "gpu_unknown")
    shaped = judged is not None and any(timed.spent for timed in judged.run.every)
    what_ifs: tuple[WhatIf, ...] = ()
    if shaped and judged is not None and ops is not None:
        what_ifs = tuple(_Changes(profile, judged, parts_of(profile, judged.run, ops)).what_ifs())
    if not what_ifs:  # of kernels whose shapes nobody knows there is a bound
        what_ifs = tuple(kernel_what_ifs(profile, context.judged))
    if not what_ifs:
        return _without(profile, "no_gain" if shaped else "no_products")
    table = Table.from_rows(WHAT_IFS, [one.columns() for one in what_ifs])
    return replace(profile, what_ifs=what_ifs).with_tables(table)


def _without(profile: Profile, why: NoWhatIf) -> Profile:
    return replace(profile, no_what_if=why).with_absent(what_ifs=NOT[why])


def _impossible(profile: Profile, context: Context) -> NoWhatIf | None:
    """Return why nothing can be predicted of a run; None where it can."""
    if not context.measured:
        return "no_gpu"
    if not context.nvidia:
        return "not_nvidia"
    if context.tensor_cores == "no":
        return "no_tensor_cores"
    if context.judged is None:
        return "gpu_unknown"
    if profile.tuning is not None:
        return "tuned"
    return "incomplete" if not_of_steps(profile) == LOST else None


class SizeChange(NamedTuple):
    """A change of one dimension of a layer, and what follows from it."""

    kind: ChangeKind  # change_size or slice_filters
    row: Row  # of `bad_sizes`
    changes: Changes  # what is made of another size, the layer's own first
    saved: Range  # its part, in ns a step, of what all changes of sizes save together
    alone: bool  # whether it pays without a change of precision


def size_changes(judged: JudgedStep, rows: Table, parts: StepParts) -> list[SizeChange]:
    """Return the changes of sizes that are advised, and those that would be if the precision were lowered.

    What takes a size, and is not aligned for it, changes with it where only one layer of the run puts out such a size:
    a run does not tell what feeds what. Where several do, the taker changes when all sizes do.

    Args:
        judged: the step whose sizes were judged.
        rows: `bad_sizes`.
        parts: the time of each product.
    """
    known = {_row_key(row): row for row in rows.rows()}
    times = {i: ProductTime(part.ns, part.ns) for i, part in enumerate(parts.products[: len(judged.run.timed)])}
    bads = {_key(bad): bad for bad in settled_sizes(judged.step) if bad.linked is not None and _key(bad) in known}
    after = followers([known[key] for key in bads])
    saved = shared_out(judged.step.timed_as(times), [bad.linked for bad in bads.values() if bad.linked])
    made: list[SizeChange] = []
    for key in sorted(bads):
        bad = bads[key]
        if (kind := _kind(known[key], bad, parts)) is not None:
            follow = [] if bad.is_image else [bads[_row_key(row)] for row in after.get(size_key(known[key]), ())]
            links = [one.linked for one in (bad, *follow) if one.linked]
            changes = tuple(dict.fromkeys(change for linked in links for change in linked.changes))
            gained = added(saved[linked].ns for linked in links if linked in saved)
            made.append(SizeChange(kind[0], known[key], changes, gained, kind[1]))
    return made


def _key(bad: Bad) -> _Key:
    return bad.dimension.layer, bad.dimension.name, bad.dimension.size


def _row_key(row: Row) -> _Key:
    return str(row["layer"]), str(row["dimension"]), int(row["size"] or 0)


def _kind(row: Row, bad: Bad, parts: StepParts) -> tuple[ChangeKind, bool] | None:
    """Return what would change, and whether it pays without a change of precision.

    None where the size is best left, or follows from another. Few filters pay alone where a library left the Tensor
    Cores for them; in 16 bits it may.
    """
    advice = row["advice_kind"]
    if bad.is_image:
        kinds = {kind for index in bad.dimension.products for kind in parts.products[index].blockers}
        alone = advice == "slice" and not kinds.isdisjoint(CHOSEN)
        return ("slice_filters", alone) if advice in ("slice", "float32") else None
    if advice == "float32":
        return None if bad.dimension.name in INPUTS else ("change_size", False)
    return ("change_size", True) if advice in ("change", None) else None


class _Change(NamedTuple):
    """A change, and what is predicted of it."""

    what: WhatIf
    sizes: SizeChange | None = None

    @property
    def likely(self) -> float:
        return self.what.gain_ns.mid

    @property
    def order(self) -> tuple[float, int, str, str, int]:
        what = self.what
        return -self.likely, _ORDER.index(what.change), what.layer or "", what.dimension or "", what.size or 0


class _Changes:
    """The changes of one run."""

    def __init__(self, profile: Profile, judged: JudgedStep, parts: StepParts) -> None:
        self._profile, self._parts = profile, parts
        self._predictor = Predictor(judged, parts)
        self._sizes = size_changes(judged, profile.require("bad_sizes"), parts)

    def what_ifs(self) -> Iterator[WhatIf]:
        """Yield those that likely gain 1 % of a step, largest first, then all that go together."""
        singles = sorted((one for one in self._singles() if one.likely > 0), key=lambda one: one.order)
        yield from (one.what for one in singles if self._matters(one.what))
        together = self._together(singles)
        if together is not None and self._matters(together):
            yield together

    def _matters(self, what: WhatIf) -> bool:
        return 100.0 * what.gain_ns.mid >= SMALLEST_PCT * self._parts.whole_ns

    def _singles(self) -> Iterator[_Change]:
        for precision in self._precisions():
            yield _Change(self._what_if(WhatIf(precision, *_FIELDS), self._predictor.predict(precision, {})))
        for change in self._sizes:
            if change.alone:
                yield _Change(self._of_size(change), change)

    def _precisions(self) -> Iterator[Precision]:
        """Yield the precisions that the run could take and has not."""
        gpu, recorded = self._predictor.step.target.gpu, self._profile.metadata.precision or ""
        if recorded.startswith("mixed") or self._predictor.is_16_bit:
            return
        for precision, dtype in DTYPES.items():
            if gpu.peak_flop_per_s(dtype or "tf32") is not None and gpu.tensor_cores:
                yield precision

    def _of_size(self, change: SizeChange) -> WhatIf:
        """Return the what-if of one size: its part of what all changes of sizes save together."""
        predicted = self._predictor.predict(None, by_product(self._predictor.step, [change.changes]))
        row = change.row
        named = WhatIf(
            change.kind,
            *_FIELDS,
            layer=str(row["layer"]),
            dimension=str(row["dimension"]),
            size=int(row["size"] or 0),
            next_size=change.changes[0].new,
            source=text_of(row["source"]),
        )
        return self._what_if(named, predicted._replace(saved=change.saved))

    def _what_if(self, named: WhatIf, predicted: Predicted) -> WhatIf:
        """Return a named change with what is predicted of it."""
        step_ns = self._parts.step_ns
        made = replace(
            named,
            gain_ns=predicted.gain,
            spent_ns=predicted.spent_ns,
            ops=len(predicted.ops),
            basis=predicted.basis,
            op_names=predicted.ops,
            unpredicted=predicted.unpredicted,
            evidence=predicted.evidence,
            may_cost=predicted.saved.low < 0,
            step_ns=step_ns,
            constants=predicted.constants,
        )
        return replace(made, throughput=_throughput(self._profile, made))

    def _together(self, singles: list[_Change]) -> WhatIf | None:
        """Return the best precision with every change of sizes that gains with it; None of fewer than two changes."""
        precisions = list(self._precisions())
        sizes = [one.sizes for one in singles if one.sizes is not None]
        chosen = [self._best(precision, sizes) for precision in (*precisions, None)]
        best, precision, kept = max(chosen, key=lambda choice: choice[0].gain.mid)
        if len(kept) + (precision is not None) < 2 or any(one.likely > best.gain.mid for one in singles):
            return None
        holds = ((precision, None),) if precision else ()
        named = WhatIf("together", *_FIELDS, holds=(*holds, *((one.kind, str(one.row["layer"])) for one in kept)))
        return self._what_if(named, best)

    def _best(
        self, precision: Precision | None, sizes: list[SizeChange]
    ) -> tuple[Predicted, Precision | None, list[SizeChange]]:
        """Return what a precision gains with all changes of sizes, without those that then cost."""
        kept = sorted(sizes, key=lambda one: (str(one.row["layer"]), str(one.row["dimension"]), str(one.row["size"])))
        if precision is not None:
            kept += [one for one in self._sizes if not one.alone]
        made = by_product(self._predictor.step, [one.changes for one in kept])
        times = Counter(change for one in kept for change in one.changes)
        kept = [one for one in kept if self._gains(precision, [c for c in one.changes if times[c] == 1], made)]
        made = by_product(self._predictor.step, [one.changes for one in kept])
        return self._predictor.predict(precision, made), precision, kept

    def _gains(self, precision: Precision | None, own: Sequence[LinkedChange], made: Mapping[int, Changes]) -> bool:
        """Return whether changes likely gain where a precision and all others, which hold them, are made."""
        step, gained = self._predictor.step, 0.0
        lowered = set() if precision is None else set(self._predictor.concerned(precision))
        for index in {index for change in own for index in step.touched(change)}:
            how, others = precision if index in lowered else None, tuple(c for c in made[index] if c not in own)
            gained += self._predictor.saved(index, how, made[index]) - self._predictor.saved(index, how, others)
        return not own or gained > 0


_FIELDS: Final = (Range(0.0, 0.0, 0.0), 0.0, 0, "measured x predicted")
"""Of a change of which nothing is predicted yet: gain, time spent, ops, basis."""


def _throughput(profile: Profile, what: WhatIf) -> Throughput | None:
    """Return the throughput with another length of a step; None where the workload logs none, or no step is known."""
    row, then = profile.figure("throughput"), what.new_step_ns
    if row is None or row["value"] is None or then is None or what.step_ns is None or then.low <= 0:
        return None
    now = float(row["value"])
    speeds = Range(*(now * what.step_ns / ns for ns in (then.high, then.mid, then.low)))
    return Throughput(now, speeds, text_of(row["text"]))


def predicted_steps(profile: Profile, judged: JudgedStep | None) -> Prediction | None:
    """Return what a step of the products takes on the GPU of the prediction; None where too little of it is known.

    Args:
        profile: of a run that is known to have used no GPU; of any other nothing is returned.
        judged: the products of its step, in the batch that it would take on a GPU where it logs that.
    """
    if judged is None or profile.metadata.gpu_used is not False or judged.step.gpu.target is None:
        return None
    step = judged.step
    if not step.is_mostly_known or not (steps := tuple(_steps(profile, judged))):
        return None
    at_least = any(product.at_least for product in judged.run.timed)
    evidence = step.evidence_of(range(len(step.model.products)))
    return Prediction(step.target.gpu.name, judged.batch, steps, at_least, evidence)


def _steps(profile: Profile, judged: JudgedStep) -> Iterator[PredictedStep]:
    step = judged.step
    dtypes = {step.dtype_of(index) for index in range(len(step.model.products))}
    if step.ns is not None:
        yield PredictedStep(None, step.ns, step.gpu.runs_tf32 and "float32" in dtypes)
    gpu = step.target.gpu
    lowered = (profile.metadata.precision or "").startswith("mixed") or "float32" not in dtypes
    mixed: ChangeKind = "mixed_float16"
    if not lowered and gpu.tensor_cores and gpu.peak_flop_per_s("float16") is not None:
        then = step.computing("float16", step.gpu.tf32)
        if then.ns is not None:
            yield PredictedStep(mixed, then.ns)
            yield from _resized(then, then.ns, mixed)


def _resized(step: Step, ns: Range, change: ChangeKind) -> Iterator[PredictedStep]:
    """Yield the step with the sizes changed that cost it most; none where none likely costs `SMALLEST_PCT`."""
    linked = [bad.linked for bad in settled_sizes(step) if bad.linked is not None and bad.linked.reason is None]
    saved = shared_out(step, linked)
    paying = [one for one in linked if one in saved and 100.0 * saved[one].ns.mid >= SMALLEST_PCT * ns.mid]
    changes = step.links.settled(tuple(dict.fromkeys(change for one in paying for change in one.changes)))
    then = with_changes(step, changes).ns
    if paying and then is not None and then.mid < ns.mid:
        first = [one.changes[0] for one in paying]
        yield PredictedStep(change, then, sizes=tuple((c.layer, c.dimension, c.old, c.new) for c in first))
