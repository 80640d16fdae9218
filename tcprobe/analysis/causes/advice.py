"""Choose what to do first: an item for each remedy, and for each layer whose sizes cost most."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from tcprobe.analysis.summary.rates import counted_steps
from tcprobe.gemm.ops import conv_like
from tcprobe.schema.causes import OffTensorCores
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import LEAVE, Advice, AdviceKind, Blocker, BlockerKind, ShareOf, SizeAdvice, SizeChange
from tcprobe.schema.profile import Profile
from tcprobe.schema.sizes import saving_of, worst_first

MOST_ACTIONS: Final = 3
SMALLEST_PCT: Final = 1.0
REMEDIES: Final[dict[BlockerKind, AdviceKind]] = {
    "tf32": "allow_tf32",
    "tf32_unknown": "check_tf32",
    "gpu": "use_gpu",
    "shape": "align_sizes",
    "shape_required": "align_sizes",
    "library": "library",
}
LOWER: Final[dict[str | None, AdviceKind]] = {
    "float64": "use_float32",
    "bfloat16": "use_float16",
    "float32": "mixed_precision",  # before compute capability 8.0, which has no bfloat16
}
SHAPES: Final[tuple[BlockerKind, ...]] = ("shape", "shape_required")
CHOSEN: Final[tuple[BlockerKind, ...]] = (*SHAPES, "library")
VECTOR: Final = re.compile(r"gemv", re.IGNORECASE)  # a matrix times a vector is bound by memory: no size changes that
HLO_TYPES: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot", "__cublas", "__cudnn"})
SizeRow: TypeAlias = Row
"""A row of `bad_sizes`."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps against a blocker; where the library chose the kernel, it depends on op and compiler."""

    kind: AdviceKind
    convolution: bool | None = None
    compiled: bool | None = None


@dataclass(frozen=True, slots=True)
class _Off:
    """One op off the Tensor Cores."""

    row: Row
    blocker: Blocker
    weight: float

    @property
    def place(self) -> str:
        """The name under which `bad_sizes` lists it: its layer's, else its own."""
        return str(self.row["layer"] or self.row["op"])

    @property
    def chosen(self) -> bool:
        """Whether a library chose its kernel, where GPU and dtype would have allowed Tensor Cores."""
        return self.blocker.kind in CHOSEN


def advise(profile: Profile) -> tuple[Advice, ...]:
    """Return at most three things to do, the costliest first; none that concerns less than 1 %.

    Of sizes the one whose change saves most comes first, where that is predicted.

    Args:
        profile: with all tables, and what keeps ops off the Tensor Cores.
    """
    sizes = list(worst_first(profile.require("bad_sizes")).rows())
    cost, off = profile.off, list(_off(profile.off))
    found = [*_few_measured(sizes, cost, off), *_blockers(profile, sizes, cost, off), *_sizes(sizes), *_few(sizes)]
    ranked = sorted((item for item in found if item.share_pct >= SMALLEST_PCT), key=lambda item: -item.share_pct)
    return tuple(_in_a_step(item, profile) for item in _by_saving(ranked)[:MOST_ACTIONS])


def _by_saving(ranked: list[Advice]) -> list[Advice]:
    """Sort the items of known saving, the largest first; the others keep their places."""
    largest = iter(sorted((i for i in ranked if i.saving_ns is not None), key=lambda i: -(i.saving_ns or 0.0)))
    return [item if item.saving_ns is None else next(largest) for item in ranked]


def _in_a_step(item: Advice, profile: Profile) -> Advice:
    """Divide the kernel time of an item by the steps of the window, and add the time of a step.

    Autotuning is no step: its time stays a share.
    """
    steps = None if profile.tuning is not None else counted_steps(profile)
    step = next((r["value"] for r in profile.require("summary").rows() if r["metric"] == "step_time_ns"), None)
    each = None if item.kernel_ns is None or steps is None else item.kernel_ns / steps
    return replace(item, kernel_ns=each, step_ns=None if step is None else float(step))


def remedy(blocker: Blocker, op_type: str | None = None, compiled: bool = False) -> Remedy | None:
    """Return what helps against a blocker; None where nothing is known to.

    Args:
        blocker: what keeps an op off the Tensor Cores.
        op_type: of the op that it blocks.
        compiled: XLA compiled the step already.
    """
    if blocker.kernel and VECTOR.search(blocker.kernel):
        return None
    kind = LOWER.get(blocker.dtype) if blocker.kind == "dtype" else REMEDIES.get(blocker.kind)
    if kind == "library":
        return Remedy(kind, conv_like(op_type), compiled)
    return None if kind is None else Remedy(kind)


def _off(cost: OffTensorCores | None) -> Iterator[_Off]:
    """Yield the ops off the Tensor Cores, the costliest first."""
    for row, weight in zip(cost.table.rows(), cost.weight.tolist(), strict=True) if cost else ():
        if (blocker := Blocker.of(row)) is not None:
            yield _Off(row, blocker, weight)


def _few_filters(sizes: list[SizeRow]) -> Iterator[SizeRow]:
    """Yield the rows of convolutions of few filters: computing more and slicing them off may be faster."""
    yield from (row for row in sizes if row["advice_kind"] == "slice")


def _few_measured(sizes: list[SizeRow], cost: OffTensorCores | None, ops: list[_Off]) -> Iterator[Advice]:
    """Yield what to do about convolutions of few filters that a library ran without Tensor Cores."""
    if cost is None or not cost.measured or not cost.total:
        return
    for size in _few_filters(sizes):
        off = [op for op in ops if op.place == size["layer"] and op.chosen]
        if off:
            worst = off[0]
            spent = sum(op.weight for op in off if op.row["pass"] == worst.row["pass"])
            share = 100 * spent / cost.total
            more = {"pass_": worst.row["pass"], "op": worst.row["op"], "blocker": worst.blocker, "kernel_ns": spent}
            yield _of_sizes("slice_filters", share, "kernel_time", [size], **more)


def _few(sizes: list[SizeRow]) -> Iterator[Advice]:
    """Yield what to do about convolutions of few filters of which no kernel was measured, by prediction."""
    for size in _few_filters(sizes):
        if size["kernel_ns"] is None and size["saving_ns"] is not None and _pays([size]):
            yield _of_sizes("slice_filters", float(size["saving_pct"] or 0), _saving_of([size]), [size])


def _blockers(profile: Profile, sizes: list[SizeRow], cost: OffTensorCores | None, ops: list[_Off]) -> Iterator[Advice]:
    """Yield one item per remedy, for the ops that no item on sizes covers."""
    compiled = _compiled(profile)
    heads = {row["layer"] for row in _few_filters(sizes)}
    settled = {row["layer"] for row in sizes if _to_change(row)} | _left_alone(sizes)
    groups: dict[Remedy, list[_Off]] = {}
    for op in ops:
        cure = remedy(op.blocker, _text(op.row["op_type"]), compiled)
        spoken_of = (op.place in heads and op.chosen) or (op.place in settled and op.blocker.kind in SHAPES)
        if cure and not spoken_of:
            groups.setdefault(cure, []).append(op)
    for cure, off in groups.items():
        if cost is not None and cost.total:
            yield replace(_cured(cure, off, cost), listed=bool(sizes) if cure.kind == "align_sizes" else None)


def _cured(cure: Remedy, off: list[_Off], cost: OffTensorCores) -> Advice:
    worst, spent = off[0], sum(op.weight for op in off)
    return Advice(
        cure.kind,
        100 * spent / cost.total,
        "kernel_time" if cost.measured else "flops",
        **_places(worst.row),
        kernel_ns=spent if cost.measured else None,
        blocker=worst.blocker,
        convolution=cure.convolution,
        compiled=cure.compiled,
    )


def _places(row: Row) -> dict[str, Any]:
    return {"layer": row["layer"], "op": row["op"], "pass_": row["pass"], "source": row["source"]}


def _compiled(profile: Profile) -> bool:
    """Return whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
    types = {str(name).split("$")[0] for name in profile.require("graph_ops").names("op_type").names}
    return profile.metadata.xla is True or bool(types & HLO_TYPES)


def _left_alone(sizes: list[SizeRow]) -> set[Value]:
    """Return the layers of which every listed size is best left as it is."""
    return {row["layer"] for row in sizes} - {row["layer"] for row in sizes if row["advice_kind"] not in LEAVE}


def _to_change(row: SizeRow) -> bool:
    """Return whether to change this size: it costs something, and is not set by another layer."""
    return row["advice_kind"] in (None, "change")


def _sizes(sizes: list[SizeRow]) -> Iterator[Advice]:
    """Yield one item per layer: the sizes worth changing, with what the costliest of them costs."""
    layers: dict[Value, list[SizeRow]] = {}
    for row in sizes:
        if _to_change(row) and not (row["share_pct"] is None and row["flops_pct"] is None):
            layers.setdefault(row["layer"], []).append(row)
    for rows in layers.values():
        if _pays(rows):
            first = rows[0]
            measured = first["share_pct"] is not None
            share = float((first["share_pct"] if measured else first["flops_pct"]) or 0)
            spent = None if first["kernel_ns"] is None else float(first["kernel_ns"])
            yield _of_sizes("change_size", share, "kernel_time" if measured else "flops", rows, kernel_ns=spent)


def _of_sizes(kind: AdviceKind, share: float, share_of: ShareOf, rows: list[SizeRow], **more: Any) -> Advice:
    """Return the item on sizes of one layer, the costliest first."""
    changes = tuple(SizeChange(str(r["dimension"]), int(r["size"] or 0), int(r["next_size"] or 0)) for r in rows)
    place: dict[str, Any] = {"layer": rows[0]["layer"], "source": rows[0]["source"]}
    return Advice(
        kind, share, share_of, **place, **more, **_saved(rows), sizes=changes, effect=SizeAdvice.of(rows[0])
    )  # fmt: skip


def _pays(rows: list[SizeRow]) -> bool:
    """Return whether changing these sizes likely saves, and may save 1 %; True where that is unknown."""
    saved = _together(rows)
    if saved is None:
        return True
    if saved.mid <= 0:
        return False
    return _saving_pct(rows) * saved.high / saved.mid >= SMALLEST_PCT


def _together(rows: list[SizeRow]) -> Range | None:
    """Return what rows of `bad_sizes` save together, in ns a step; None where one of them is unknown."""
    found = [saving_of(row) for row in rows]
    known = [saved for saved in found if saved is not None]
    if not known or len(known) < len(found):
        return None
    return Range(sum(k.low for k in known), sum(k.mid for k in known), sum(k.high for k in known))


def _saving_pct(rows: Iterable[SizeRow]) -> float:
    return sum(float(row["saving_pct"] or 0) for row in rows)


def _saving_of(rows: list[SizeRow]) -> ShareOf:
    measured = {"measured x predicted", "measured x calibrated"}
    return "kernel_time" if any(row["saving_basis"] in measured for row in rows) else "products"


def _saved(rows: list[SizeRow]) -> dict[str, Any]:
    """Return what changing sizes of a layer saves, as fields of an advice; none where it is unknown."""
    saved = _together(rows)
    if saved is None:
        return {}
    calibrated = all(row["saving_basis"] in ("calibrated", "measured x calibrated") for row in rows)
    return {
        "saving_low_ns": saved.low, "saving_ns": saved.mid, "saving_high_ns": saved.high,
        "saving_pct": _saving_pct(rows), "saving_of": _saving_of(rows), "calibrated": calibrated,
    }  # fmt: skip


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
