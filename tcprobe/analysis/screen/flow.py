"""Add the first screen: where a step goes, what that says of the Tensor Cores, what to do first, how sure it is.

Choose what to do first: advice that says something about this run, with what it saves of the bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.causes.advice import with_items
from tcprobe.analysis.screen.answer import answer_of, bar_of, row_kind
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.advice import Advice, AdviceKind, Concern
from tcprobe.schema.columns import Table
from tcprobe.schema.finding import Range
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.screen import KERNELS, ON, WAITS, Answer, Bar, BarRow, FirstScreen, Item, LimitKind, RowKind
from tcprobe.schema.statement import Statement, say

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
    "fuse_chain": ("others", "unknown"),
    **dict.fromkeys(("fuse_kernels", "larger_batch", "fix_scale"), (*KERNELS, *WAITS)),
}
"""The rows that an item draws on, where its kind tells: it saves no more than the largest of them."""


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
    """Return what an item saves of the bar, whether that is likely, and the most.

    Of a run without a GPU, whose step is predicted, that is what is predicted.
    """
    if not item.saves_ns or item.saves_ns < 0 or _follows(item) or _records(item):
        return None, False, None
    saving = item.saving
    if (bar is None and saving is None) or (bar is not None and bar.of not in ("step", "capture")):
        return None, False, None
    return item.saves_ns, saving is not None, None if saving is None else saving.ns.high


def within(item: Advice, bar: Bar) -> Advice:
    """Return an item that saves no more than the row of the bar that it draws on, of several the largest.

    The bar is of a usual step, in which kernels that run at once share their time; an item's bound is of all steps.
    """
    most = max((bar.ns("kernels"), *(_part(item, row) for row in bar.rows if row.kind in drawn_rows(item))))
    if not most:
        return item
    concern, saving = item.concern, item.saving
    if concern.at_most_ns is not None and concern.at_most_ns > most:
        share = concern.share_pct if concern.share_of != "step" else concern.share_pct * most / concern.at_most_ns
        concern = replace(concern, at_most_ns=most, share_pct=share)
    if saving is not None and saving.ns.high > most:
        ns = Range(*(min(one, most) for one in (saving.ns.low, saving.ns.mid, saving.ns.high)))
        saving = replace(saving, ns=ns, pct=saving.pct * ns.mid / saving.ns.mid if saving.ns.mid > most else saving.pct)
    return replace(item, concern=concern, saving=saving)


def _part(item: Advice, row: BarRow) -> float:
    """Return the time of a row that an item can concern."""
    copies = item.kind == "keep_layout" and row.kind == "others"
    return dict(row.parts).get("copy", 0.0) if copies else row.ns


def drawn_rows(item: Advice) -> tuple[RowKind, ...]:
    """Return the rows of the bar that an item draws on."""
    says = item.says
    if item.kind == "feed_gpu":
        return ("copy", "wait") if says.get("work") in ("copy", "set") else ("idle", "wait")
    if item.kind == "change_kernel" and (cause := text_of(says.get("cause"))) is not None:
        return (row_kind(cause),)
    return DRAWS_ON.get(item.kind, KERNELS)


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


FULL_PCT: Final = 99.9  # of the kernel time
COARSE: Final = 0.01  # of the time for which ranks wait: clocks that are further apart are a doubt about it


def with_screen(profile: Profile) -> Profile:
    """Return the profile with its first screen.

    Args:
        profile: with all tables and its advice.
    """
    bar = bar_of(profile)
    if bar is not None and bar.of in ("step", "capture"):
        profile = with_items(profile, [within(item, bar) for item in profile.advice])
    answer = answer_of(profile, bar)
    items, limits = tuple(items_of(profile, answer, bar)), tuple(_limits(profile, answer, bar))
    return replace(profile, screen=FirstScreen(answer, bar, items, limits, profile.predicted, left_of(bar, items)))


def _limits(profile: Profile, answer: Answer, bar: Bar | None) -> Iterator[Statement[LimitKind]]:
    """Yield what limits the screen, most important first."""
    yield from _of_run(profile, answer, bar)
    if errors := sum(note.code == "profiler-error" for note in profile.metadata.notes):
        yield say("profiler_errors", errors=errors)


def _of_run(profile: Profile, answer: Answer, bar: Bar | None) -> Iterator[Statement[LimitKind]]:
    codes = {note.code for note in profile.metadata.notes}
    if profile.metadata.partial:
        yield say("partial")
    for note in profile.metadata.notes:
        if note.level == "error" and note.code != "profiler-error":
            yield say("noted", message=note.message)
    yield from _of_ranks(profile.require("ranks"))
    phases = list(profile.require("phases").rows())
    if len(phases) > 1 and (mine := [row for row in phases if row["in_window"]]):
        first, last = (int(mine[0][name] or 0) for name in ("first_step", "last_step"))
        yield say("phase", phase=int(mine[0]["phase"] or 0) + 1, phases=len(phases), first=first, last=last)
    if answer.word == "NOT MEASURED":
        if profile.predicted is not None:
            yield say("predicted", evidence=profile.predicted.evidence)
        return
    figure = profile.figure("tc_kernel_time_pct")
    if figure is not None and figure["basis"] is not None:
        told = bar is None or not bar.ns("unknown")  # what Tensor Cores have to do with every kernel
        coverage = profile.value("coverage_pct")
        full = coverage is not None and coverage > FULL_PCT
        yield say("basis", basis=str(figure["basis"]), coverage_pct=coverage if told or not full else None)
    if "serialises_kernels" in profile.traits:
        yield say("chosen_kernels")
        return
    steps = profile.counted_steps or profile.summed_steps
    if bar is not None and bar.of == "op_calls":
        yield say("op_times")
    if "simple-mode" in codes:
        yield say("no_op_named")
    elif "whole-run" in codes:
        yield say("whole_process")
    elif steps:
        yield say("steps", steps=steps, unusual=answer.says.kind in ("autotuning", "no_products"))
    else:
        yield say("no_steps", cut=profile.start_up is not None)
    if all(gpu["name"] is None and gpu["vendor"] in (None, "Nvidia") for gpu in profile.active_gpus):
        yield say("gpu_unknown")
    if profile.waiting is None and (bar is None or bar.of != "op_calls"):
        yield say("no_start_times")


def _of_ranks(ranks: Table) -> Iterator[Statement[LimitKind]]:
    """Yield that clocks of ranks cannot be compared, or not well enough for how long they wait for one another."""
    read = ranks.names("state").among("read")
    apart, waited = (ranks.numbers(name)[read] for name in ("clock_residual_ns", "waited_ns"))
    if len(apart) > 1 and (np.isnan(apart).any() or apart.max() > COARSE * np.nanmax(waited, initial=0.0)):
        yield say("clocks", residual_ns=None if np.isnan(apart).any() else float(apart.max()))
