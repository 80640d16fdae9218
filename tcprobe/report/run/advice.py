"""What to do first, in sentences: one for each remedy and for each layer whose sizes cost most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tcprobe.gemm.ops import conv_like
from tcprobe.report import formatting as f
from tcprobe.report.audit.words import span
from tcprobe.report.run.findings import Cost, changes, few_filters, saving, where, worst_sizes
from tcprobe.report.run.headline import summary_row
from tcprobe.report.run.window import steps_counted
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.finding import Range
from tcprobe.schema.profile import Profile

Size: TypeAlias = dict[str, Value]  # a row of `bad_sizes`
MOST: Final = 3
SMALLEST_PCT: Final = 1.0
HALF: Final = "mixed precision in float16"
MIXED: Final = "mixed precision"
TF32: Final = "TF32 (unset NVIDIA_TF32_OVERRIDE)"
SEE_SIZES: Final = " (see Badly sized)"
REMEDIES: Final = (
    (r"float64 cannot use", "Compute in float32 or less"),
    (r"bfloat16 cannot use", "Use mixed_float16: this GPU's Tensor Cores take float16"),
    (r"float(32)? cannot use", f"Train in {HALF}"),  # before compute capability 8.0, which has no bfloat16
    (r"TF32 off", f"Allow {TF32} first; then try {MIXED}"),
    (r"whether TF32 was allowed", f"Make sure that the run allows {TF32}"),
    (r"GPU has no Tensor Cores", "Run on a GPU with Tensor Cores (Volta or later, but no GTX 16xx)"),
    (r"multiple", f"Make the sizes multiples of 8{SEE_SIZES}"),
)
SHAPE: Final = re.compile(r"multiple")
CHOICE: Final = re.compile(r"library choice")
RAN: Final = re.compile(r"\bran (?!a kernel without)(.+)$")
VECTOR: Final = re.compile(r"gemv", re.IGNORECASE)  # a matrix times a vector is bound by memory: no size changes that
HLO_TYPES: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot", "__cublas", "__cudnn"})
PASS_WORDS: Final = {"wgrad": "weight gradient", "dgrad": "input gradient", "forward": "forward pass"}


@dataclass(frozen=True, slots=True)
class _Item:
    """One thing to do.

    Attributes:
        share: of what is weighed, 0-100.
        text: the sentence.
        layer: whose sizes it changes; None for anything else.
        saving: ns a step that this saves as predicted; None where unknown.
    """

    share: float
    text: str
    layer: Value = None
    saving: Range | None = None


@dataclass(frozen=True, slots=True)
class _Scale:
    """What costs are told in.

    Attributes:
        steps: in the window; None where unknown.
        step_ns: time of one, None where unknown.
    """

    steps: int | None
    step_ns: float | None

    def told(self, share_pct: float, kernel_ns: float | None, unit: str) -> str:
        """Return a cost in words: kernel time in a step, where it is known, and its share of `unit`."""
        share = f"{f.percent(share_pct)} of the {unit}"
        if kernel_ns is None or self.steps is None:
            return share
        spent = f"{f.duration(kernel_ns / self.steps)} of kernel time"
        return f"{spent} in a step{f' of {f.duration(self.step_ns)}' if self.step_ns else ''}, {share}"


def steps(profile: Profile, cost: Cost | None) -> list[str]:
    """Return at most three things to do, the costliest first; nothing that stands for less than a hundredth.

    Of sizes the one whose change saves most comes first, where that is predicted.
    """
    step = summary_row(profile, "step_time_ns")
    step_ns = None if step is None or step["value"] is None else float(step["value"])
    scale = _Scale(steps_counted(profile), step_ns)
    sizes = worst_sizes(profile, None)
    found = [*_heads(sizes, cost, scale), *_blockers(profile, sizes, cost, scale), *_sizes(sizes, scale), *_few(sizes)]
    ranked = sorted((item for item in found if item.share >= SMALLEST_PCT), key=lambda item: -item.share)
    return [item.text for item in _by_saving(ranked)][:MOST]


def _by_saving(ranked: list[_Item]) -> list[_Item]:
    """Let those of known saving change places among themselves, so that the largest stands where the first did."""
    largest = iter(sorted((i for i in ranked if i.saving), key=lambda i: -(i.saving.mid if i.saving else 0.0)))
    return [next(largest) if item.saving else item for item in ranked]


def remedy(reason: str, op_type: str | None = None, compiled: bool = False) -> str | None:
    """Return what helps against a blocker; None where nothing is known to.

    Args:
        reason: the blocker in words.
        op_type: of the op that it blocks.
        compiled: XLA compiled the step already.
    """
    if VECTOR.search(reason):
        return None
    if CHOICE.search(reason):
        ways = ["8 or more channels", "NHWC layout"] if conv_like(op_type) else ["larger sizes or a larger batch"]
        ways += [] if compiled else ["XLA"]
        listed = ", ".join(ways[:-1]) + ("," * (len(ways) > 2)) + " or " * (len(ways) > 1) + ways[-1]
        return f"Try {listed}; then compare step times"
    return next((text for pattern, text in REMEDIES if re.search(pattern, reason)), None)


def _how(framework: str | None) -> dict[str, str]:
    """Return how each of the choices of a remedy is made in a framework."""
    known = (framework or "").lower()
    if known.startswith("tensorflow"):
        how = "tf.keras.mixed_precision, or tcprobe profile --precision"
        tf32 = "TF32 (unset NVIDIA_TF32_OVERRIDE, enable_tensor_float_32_execution(True))"
        return {HALF: f"mixed_float16 ({how})", MIXED: f"mixed_bfloat16 or mixed_float16 ({how})", TF32: tf32}
    if known.startswith("pytorch"):
        return {
            HALF: f"{HALF} (torch.autocast with dtype=torch.float16)",
            MIXED: f"{MIXED} (torch.autocast)",
            TF32: "TF32 (unset NVIDIA_TF32_OVERRIDE, torch.set_float32_matmul_precision('high'))",
        }
    return {}


def _in_words(cure: str, how: dict[str, str]) -> str:
    """Put a framework's words for what it names into a remedy."""
    return re.sub("|".join(map(re.escape, how)), lambda found: how[found[0]], cure) if how else cure


def _place(row: Row) -> str:
    """Return the name under which `bad_sizes` lists an op: its layer's, else its own."""
    return str(row["layer"] or row["op"])


def _off(cost: Cost | None) -> Iterator[tuple[Row, float]]:
    """Yield the ops off the Tensor Cores, the costliest first, each with its weight."""
    if cost is not None:
        yield from zip(cost.table.rows(), cost.weight.tolist(), strict=True)


def _heads(sizes: list[Size], cost: Cost | None, scale: _Scale) -> Iterator[_Item]:
    """Yield what to do about convolutions of few filters that a library ran without Tensor Cores."""
    for size in (row for row in sizes if few_filters(row)):
        off = [(row, weight) for row, weight in _off(cost) if _place(row) == size["layer"] and _chosen(row)]
        if not off or cost is None or not cost.measured or not cost.total:
            continue
        worst = off[0][0]
        spent = sum(weight for row, weight in off if row["pass"] == worst["pass"])
        share = 100 * spent / cost.total
        change, channels = _slice(size)
        why = f"{channels}: {_ran(worst)}; {scale.told(share, spent, 'kernel time')}{_gain([size])}"
        yield _Item(share, f"{change}. Why: {why}.", size["layer"], saving(size))


def _few(sizes: list[Size]) -> Iterator[_Item]:
    """Yield likewise what is predicted to save, where no kernel of the layer was measured."""
    alone = (row for row in sizes if few_filters(row) and row["kernel_ns"] is None and row["saving_ns"] is not None)
    for size in (row for row in alone if _pays([row])):
        change, channels = _slice(size)
        may = re.search(r"cuDNN may [^;]*", str(size["advice"]))
        why = f"{channels}{f': {may[0]}' if may else ''}{_gain([size])}"
        yield _Item(float(size["saving_pct"] or 0), f"{change}. Why: {why}.", size["layer"], saving(size))


def _slice(size: Size) -> tuple[str, str]:
    """Return what to do about a convolution of few filters, and what it has."""
    count = int(size["size"] or 0)
    kept = "the first" if count == 1 else f"the first {count}"
    change = f"Give {f.plain(size['layer'])} 8 filters, keep {kept} (slice) and measure{_line(size)}"
    return change, f"{count} output channel{'s' * (count > 1)}"


def _pays(rows: list[Size]) -> bool:
    """Return whether changing sizes of a layer likely saves, and may save a hundredth; True where it is unknown."""
    saved = _together(rows)
    if saved is None:
        return True
    if saved.mid <= 0:
        return False
    return sum(float(row["saving_pct"] or 0) for row in rows) * saved.high / saved.mid >= SMALLEST_PCT


def _together(rows: list[Size]) -> Range | None:
    """Return what rows of `bad_sizes` save together, in ns a step; None where one of them is unknown."""
    found = [saving(row) for row in rows]
    known = [saved for saved in found if saved is not None]
    if not known or len(known) < len(found):
        return None
    return Range(sum(k.low for k in known), sum(k.mid for k in known), sum(k.high for k in known))


def _gain(rows: list[Size]) -> str:
    """Return what changing sizes of a layer saves, as half a sentence; nothing where it is unknown or not likely."""
    saved = _together(rows)
    if saved is None or saved.mid <= 0:
        return ""
    bases = {str(row["saving_basis"]) for row in rows}
    of = "kernel time" if any("measured" in basis for basis in bases) else "step's products"
    by = " (calibrated)" if all("calibrated" in basis for basis in bases) else ""
    pct = f.percent(sum(float(row["saving_pct"] or 0) for row in rows))
    return f"; predicted{by} to save {span(saved)} a step in this layer, likely {pct} of the {of}"


def _chosen(row: Row) -> bool:
    """Return whether a library chose the op's kernel, where GPU and dtype would have allowed Tensor Cores."""
    reason = str(row["tc_blocker"])
    return bool(SHAPE.search(reason) or CHOICE.search(reason))


def _ran(row: Row) -> str:
    kernel = RAN.search(str(row["tc_blocker"]))
    named = f", {f.visible(kernel[1])}" if kernel else ""
    return f"cuDNN runs its {PASS_WORDS.get(str(row['pass']), 'convolution')} on a CUDA-core kernel{named}"


def _blockers(profile: Profile, sizes: list[Size], cost: Cost | None, scale: _Scale) -> Iterator[_Item]:
    """Yield one item per remedy, for the ops that no item on their layer's sizes speaks of."""
    how, compiled = _how(profile.metadata.framework), _compiled(profile)
    heads = {row["layer"] for row in sizes if few_filters(row)}
    settled = {row["layer"] for row in sizes if _to_change(row)} | _left_alone(sizes)
    groups: dict[str, list[tuple[Row, float]]] = {}
    for row, weight in _off(cost):
        reason, place = str(row["tc_blocker"]), _place(row)
        cure = remedy(reason, None if row["op_type"] is None else str(row["op_type"]), compiled)
        spoken_of = (place in heads and _chosen(row)) or (place in settled and SHAPE.search(reason))
        if cure and not spoken_of:
            groups.setdefault(cure, []).append((row, weight))
    for cure, off in groups.items():
        if cost is not None and cost.total:
            known = cure if sizes else cure.removesuffix(SEE_SIZES)
            yield _cured(_in_words(known, how), off, cost, scale)


def _cured(cure: str, off: list[tuple[Row, float]], cost: Cost, scale: _Scale) -> _Item:
    worst, spent = off[0][0], sum(weight for _, weight in off)
    share, unit = 100 * spent / cost.total, cost.unit.removeprefix("the ")
    costs = scale.told(share, spent if cost.measured else None, unit)
    why = f"{f.visible(str(worst['tc_blocker']))}; {costs}"
    return _Item(share, f"{cure}. Why: {why}; above all {where(worst)}{_line(worst)}.")


def _compiled(profile: Profile) -> bool:
    """Return whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
    types = {str(name).split("$")[0] for name in profile.require("graph_ops").names("op_type").names}
    return profile.metadata.xla is True or bool(types & HLO_TYPES)


def _left_alone(sizes: list[Size]) -> set[Value]:
    """Return the layers of which every listed size is best left as it is."""
    return {row["layer"] for row in sizes} - {row["layer"] for row in sizes if changes(row)}


def _to_change(row: Row) -> bool:
    """Return whether to change the size here: it costs something, and no other layer's size decides it."""
    advice = str(row["advice"] or "")
    elsewhere = ("no effect", "follows from", "fewer groups", "next to nothing")
    return changes(row) and not few_filters(row) and not any(words in advice for words in elsewhere)


def _sizes(sizes: list[Size], scale: _Scale) -> Iterator[_Item]:
    """Yield one item per layer: the sizes worth changing, with what the costliest of them costs."""
    layers: dict[Value, list[Size]] = {}
    for row in sizes:
        if _to_change(row) and not (row["share_pct"] is None and row["flops_pct"] is None):
            layers.setdefault(row["layer"], []).append(row)
    for layer, rows in layers.items():
        if _pays(rows):
            yield _sized(layer, rows, scale)


def _sized(layer: Value, rows: list[Size], scale: _Scale) -> _Item:
    first = rows[0]
    measured = first["share_pct"] is not None
    share = float((first["share_pct"] if measured else first["flops_pct"]) or 0)
    kernel_ns = None if first["kernel_ns"] is None else float(first["kernel_ns"])
    sizing = [f"from {r['size']} to {r['next_size']}" for r in rows]
    sizing[1:] = [f"{f.plain(r['dimension'])} {change}" for r, change in zip(rows[1:], sizing[1:], strict=True)]
    change = f"Change {f.plain(first['dimension'])} of {f.plain(layer)} {' and '.join(sizing)}"
    costs = scale.told(share, kernel_ns, "kernel time" if measured else "GEMM FLOPs")
    gain = _gain(rows)
    advice = f.visible(str(first["advice"])).removeprefix("predicted: " if gain else "") if first["advice"] else ""
    effect = f"; {advice}" if advice else ""
    return _Item(share, f"{change}{_line(first)}. Why: {costs}{gain}{effect}.", layer, _together(rows))


def _line(row: Row) -> str:
    return f" ({f.plain(row['source'])})" if row["source"] else ""
