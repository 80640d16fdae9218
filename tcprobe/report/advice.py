"""What to do first, in sentences: one for each remedy and for each layer whose sizes cost most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tcprobe.columns import Value
from tcprobe.gemm.ops import conv_like
from tcprobe.profile import Profile
from tcprobe.report import formatting as f
from tcprobe.report.findings import Cost, Row, changes, few_filters, where, worst_sizes
from tcprobe.report.headline import summary_row
from tcprobe.report.window import steps_counted

Item: TypeAlias = tuple[float, str]  # share of what is weighed, 0-100, and the sentence
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
    """Return at most three things to do, the costliest first; nothing that stands for less than a hundredth."""
    step = summary_row(profile, "step_time_ns")
    step_ns = None if step is None or step["value"] is None else float(step["value"])
    scale = _Scale(steps_counted(profile), step_ns)
    sizes = worst_sizes(profile, None)
    found = [*_heads(sizes, cost, scale), *_blockers(profile, sizes, cost, scale), *_sizes(sizes, scale)]
    ranked = sorted(found, key=lambda item: -item[0])
    return [text for share, text in ranked if share >= SMALLEST_PCT][:MOST]


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


def _heads(sizes: list[dict[str, Value]], cost: Cost | None, scale: _Scale) -> Iterator[Item]:
    """Yield what to do about convolutions of few filters that a library ran without Tensor Cores."""
    for size in (row for row in sizes if few_filters(row)):
        off = [(row, weight) for row, weight in _off(cost) if _place(row) == size["layer"] and _chosen(row)]
        if not off or cost is None or not cost.measured or not cost.total:
            continue
        worst = off[0][0]
        spent = sum(weight for row, weight in off if row["pass"] == worst["pass"])
        share, count = 100 * spent / cost.total, int(size["size"] or 0)
        kept = "the first" if count == 1 else f"the first {count}"
        change = f"Give {f.plain(size['layer'])} 8 filters, keep {kept} (slice) and measure{_line(size)}"
        channels = f"{count} output channel{'s' * (count > 1)}"
        yield share, f"{change}. Why: {channels}: {_ran(worst)}; {scale.told(share, spent, 'kernel time')}."


def _chosen(row: Row) -> bool:
    """Return whether a library chose the op's kernel, where GPU and dtype would have allowed Tensor Cores."""
    reason = str(row["tc_blocker"])
    return bool(SHAPE.search(reason) or CHOICE.search(reason))


def _ran(row: Row) -> str:
    kernel = RAN.search(str(row["tc_blocker"]))
    named = f", {f.visible(kernel[1])}" if kernel else ""
    return f"cuDNN runs its {PASS_WORDS.get(str(row['pass']), 'convolution')} on a CUDA-core kernel{named}"


def _blockers(profile: Profile, sizes: list[dict[str, Value]], cost: Cost | None, scale: _Scale) -> Iterator[Item]:
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


def _cured(cure: str, off: list[tuple[Row, float]], cost: Cost, scale: _Scale) -> Item:
    worst, spent = off[0][0], sum(weight for _, weight in off)
    share, unit = 100 * spent / cost.total, cost.unit.removeprefix("the ")
    costs = scale.told(share, spent if cost.measured else None, unit)
    why = f"{f.visible(str(worst['tc_blocker']))}; {costs}"
    return share, f"{cure}. Why: {why}; above all {where(worst)}{_line(worst)}."


def _compiled(profile: Profile) -> bool:
    """Return whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
    types = {str(name).split("$")[0] for name in profile.require("graph_ops").names("op_type").names}
    return profile.metadata.xla is True or bool(types & HLO_TYPES)


def _left_alone(sizes: list[dict[str, Value]]) -> set[Value]:
    """Return the layers of which every listed size is best left as it is."""
    return {row["layer"] for row in sizes} - {row["layer"] for row in sizes if changes(row)}


def _to_change(row: Row) -> bool:
    """Return whether to change the size here: it costs something, and no other layer's size decides it."""
    advice = str(row["advice"] or "")
    return changes(row) and not few_filters(row) and "no effect" not in advice and "follows from" not in advice


def _sizes(sizes: list[dict[str, Value]], scale: _Scale) -> Iterator[Item]:
    """Yield one item per layer: the sizes worth changing, with what the costliest of them costs."""
    layers: dict[Value, list[dict[str, Value]]] = {}
    for row in sizes:
        if _to_change(row) and not (row["share_pct"] is None and row["flops_pct"] is None):
            layers.setdefault(row["layer"], []).append(row)
    for layer, rows in layers.items():
        first = rows[0]
        measured = first["share_pct"] is not None
        share = float((first["share_pct"] if measured else first["flops_pct"]) or 0)
        kernel_ns = None if first["kernel_ns"] is None else float(first["kernel_ns"])
        sizing = [f"from {r['size']} to {r['next_size']}" for r in rows]
        sizing[1:] = [f"{f.plain(r['dimension'])} {change}" for r, change in zip(rows[1:], sizing[1:], strict=True)]
        change = f"Change {f.plain(first['dimension'])} of {f.plain(layer)} {' and '.join(sizing)}"
        costs = scale.told(share, kernel_ns, "kernel time" if measured else "GEMM FLOPs")
        effect = f"; {f.visible(str(first['advice']))}" if first["advice"] else ""
        yield share, f"{change}{_line(first)}. Why: {costs}{effect}."


def _line(row: Row) -> str:
    return f" ({f.plain(row['source'])})" if row["source"] else ""
