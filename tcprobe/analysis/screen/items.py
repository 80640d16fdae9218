"""Choose what to do first: advice that says something about this run, with what it saves of the bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tcprobe.analysis.screen.bar import KERNELS, ON, WAITS
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.advice import Advice, AdviceKind, Concern
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import Answer, Bar, Item, RowKind
from tcprobe.schema.statement import say

MOST: Final = 3
OTHER_RECORDING: Final[frozenset[AdviceKind]] = frozenset({"profile_later", "profile_usual_steps"})
"""Advice to record something else, beside which nothing stands where the verdict cannot be told."""
DRAWS_ON: Final[Mapping[AdviceKind, tuple[RowKind, ...]]] = {
    **dict.fromkeys(("use_float32", "use_float16", "mixed_precision", "allow_tf32", "check_tf32"), ("off",)),
    **dict.fromkeys(("library", "align_sizes"), ("off",)),
    "name_ops": ("off", "unknown"),
    "use_gpu": ("matmul",),
    **dict.fromkeys(("halve_precision", "change_size", "slice_filters"), (*ON, "off", "matmul")),
    **dict.fromkeys(("fill_waves", "align_kernel"), ON),
    "keep_layout": ("layout", "others"),
    "fuse_chain": ("others", "layout", "unknown"),
    "change_kernel": KERNELS,
    **dict.fromkeys(("fuse_kernels", "larger_batch", "fix_scale"), (*KERNELS, *WAITS)),
}
"""The rows that an item draws on, where its kind tells."""


def items_of(profile: Profile, answer: Answer, bar: Bar | None) -> Iterator[Item]:
    """Yield what to do first, at most three items, most important first."""
    chosen = [item for item in profile.advice if _says_something(item) and not _is_small(item, profile)]
    if answer.word == "CANNOT TELL" and answer.says.kind not in ("class_unknown", "no_matrices"):
        chosen = [item for item in chosen if item.kind in OTHER_RECORDING][:1] or [_record_steps(profile)]
    elif not chosen and bar is not None and bar.of == "kernel_time" and "serialises_kernels" not in profile.traits:
        chosen = [_record_steps(profile)]  # sums tell neither of steps nor of waiting
    for at, item in enumerate(chosen[:MOST]):
        beside = tuple(number for number, above in enumerate(chosen[:at], 1) if above.draws_on & item.draws_on)
        yield Item(item, *_saves(item, bar), beside=beside)


def left_of(bar: Bar | None, items: Sequence[Item]) -> float | None:
    """Return what is left of a step at best when all is done that saves; None where two draw on the same time."""
    saving = [item for item in items if item.saves_ns is not None]
    most = [item.most_ns if item.likely else item.saves_ns for item in saving]
    if bar is None or bar.of != "step" or len(most) < 2 or None in most or any(item.beside for item in saving):
        return None
    return max(0.0, bar.total_ns - sum(ns or 0.0 for ns in most))


def _says_something(item: Advice) -> bool:
    """Return whether an item is advice on this run, and no doubt about the report, which stands among its limits."""
    match item.kind:
        case "profile_steps":
            return False
        case "name_ops":  # which op a kernel is of saves nothing; of 16 bits off the Tensor Cores the way is known
            return item.says.get("sixteen_bit") is True
        case "change_kernel":  # an item above it on the same time says what to do
            return not item.beside and item.says.get("cause") not in ("op_unknown", "kernels_unknown")
        case "feed_gpu":  # of a whole process whose waiting nobody recorded nothing is known
            return item.says.get("work_pct") is not None or item.says.get("length") != "capture"
        case _:
            return True


def _is_small(item: Advice, profile: Profile) -> bool:
    """Return whether an item likely saves under `SMALLEST_PCT` of the step that is predicted of a run without a GPU."""
    if profile.predicted is None or item.saving is None:
        return False
    return 100.0 * item.saving.ns.mid < SMALLEST_PCT * profile.predicted.steps[0].ns.mid


def _record_steps(profile: Profile) -> Advice:
    return Advice("TC313", say("profile_steps", steps=profile.marked_steps), Concern(100.0, "step"))


def _saves(item: Advice, bar: Bar | None) -> tuple[float | None, bool, float | None]:
    """Return what an item saves of the bar, at most the rows that it draws on, whether that is likely, and the most.

    Of a run without a GPU, whose step is predicted, that is what is predicted.
    """
    if not item.saves_ns or item.saves_ns < 0 or _follows(item) or _records(item):
        return None, False, None
    saving = item.saving
    if bar is None:
        return (None, False, None) if saving is None else (saving.ns.mid, True, saving.ns.high)
    if bar.of not in ("step", "capture"):
        return None, False, None
    drawn = DRAWS_ON.get(item.kind, KERNELS)
    if item.kind == "feed_gpu":
        drawn = ("copy", "wait") if item.says.get("work") in ("copy", "set") else ("idle", "wait")
    most = bar.ns("kernels", *drawn) if drawn[-1] != "wait" else bar.ns(*drawn)
    most = most or bar.total_ns
    return min(item.saves_ns, most), saving is not None, None if saving is None else min(saving.ns.high, most)


def _records(item: Advice) -> bool:
    """Return whether an item is to record what sums, a first step or names do not tell, which saves nothing."""
    says = item.says
    if item.kind == "change_kernel":
        return says.get("cause") == "tc_slow"
    first = says.get("work") == "unknown" and says.get("recorded") is True and says.get("several") is False
    return item.kind == "feed_gpu" and (first or says.get("work_pct") is None)


def _follows(item: Advice) -> bool:
    """Return whether an item is what to look at again after another: layouts of convolutions in a slower precision."""
    off = item.says.get("kept_off") in ("dtype", "tf32", "tf32_unknown")
    return item.kind == "keep_layout" and off and "conv" in str(item.says.get("op_type")).lower()
