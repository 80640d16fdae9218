"""What to do first, in sentences: a remedy for each of the costliest blockers, then the costliest bad sizes."""

from __future__ import annotations

import re
from typing import Final

from tcprobe.profile import Profile
from tcprobe.report import formatting as f
from tcprobe.report.findings import Cost, Row, by_reason, changes, where, worst_sizes

MOST: Final = 3
SMALLEST_PCT: Final = 1.0
HALF: Final = "mixed precision in float16"
MIXED: Final = "mixed precision"
TF32: Final = "TF32 (unset NVIDIA_TF32_OVERRIDE)"
REMEDIES: Final = (
    (r"float64 cannot use", "Compute in float32 or less"),
    (r"bfloat16 cannot use", "Use mixed_float16: this GPU's Tensor Cores take float16"),
    (r"float(32)? cannot use", f"Train in {HALF}"),  # before compute capability 8.0, which has no bfloat16
    (r"TF32 off", f"Allow {TF32} first; then try {MIXED}"),
    (r"whether TF32 was allowed", f"Make sure that the run allows {TF32}"),
    (r"GPU has no Tensor Cores", "Run on a GPU with Tensor Cores (Volta or later, but no GTX 16xx)"),
    (r"multiple", "Make the sizes multiples of 8 (see Badly sized)"),
    (r"library choice", "Try 8 or more channels, NHWC layout, or XLA; then compare step times"),
)


def steps(profile: Profile, cost: Cost | None) -> list[str]:
    """Return at most three things to do, the costliest first; nothing that stands for less than a hundredth."""
    found = [*_blockers(cost, _how(profile.metadata.framework)), *_sizes(profile)] if cost else _sizes(profile)
    ranked = sorted(found, key=lambda item: -item[0])
    return [text for share, text in ranked if share >= SMALLEST_PCT][:MOST]


def remedy(reason: str) -> str | None:
    """Return what helps against a blocker; None where nothing is known to."""
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


def _blockers(cost: Cost, how: dict[str, str]) -> list[tuple[float, str]]:
    found = []
    for group in by_reason(cost):
        cure = remedy(group.reason)
        if cure and group.share_pct is not None:
            why = f"{f.visible(group.reason)}, {f.percent(group.share_pct)} of {cost.unit}"
            at = f"above all {where(group.worst)}{_line(group.worst)}"
            found.append((group.share_pct, f"{_in_words(cure, how)}. Why: {why}; {at}."))
    return found


def _sizes(profile: Profile) -> list[tuple[float, str]]:
    """Return the sizes worth changing: not those that cost nothing, nor those that another layer's size decides."""
    found = []
    for row in worst_sizes(profile, None):
        measured = row["share_pct"] is not None
        share, unit = (row["share_pct"], "kernel time") if measured else (row["flops_pct"], "GEMM FLOPs")
        advice = str(row["advice"] or "")
        if share is None or not changes(row) or "no effect" in advice or "follows from" in advice:
            continue
        change = (
            f"Change {f.plain(row['dimension'])} of {f.plain(row['layer'])} from {row['size']} to {row['next_size']}"
        )
        effect = f"; {f.visible(advice.split('; ')[0])}" if advice else ""
        found.append((float(share), f"{change}{_line(row)}. Why: {f.percent(share)} of the {unit}{effect}."))
    return found


def _line(row: Row) -> str:
    return f" ({f.plain(row['source'])})" if row["source"] else ""
