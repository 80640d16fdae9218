"""Add the first screen: where a step goes, what that says of the Tensor Cores, what to do first, how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.screen.answer import answer_of
from tcprobe.analysis.screen.bar import bar_of
from tcprobe.analysis.screen.items import items_of, left_of
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import Answer, Bar, FirstScreen, LimitKind
from tcprobe.schema.statement import Statement, say

FULL_PCT: Final = 99.9  # of the kernel time
COARSE: Final = 0.01  # of the time for which ranks wait: clocks that are further apart are a doubt about it


def with_screen(profile: Profile) -> Profile:
    """Return the profile with its first screen.

    Args:
        profile: with all tables and its advice.
    """
    bar = bar_of(profile)
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
