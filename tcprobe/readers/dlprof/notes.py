"""Write the notes on a DLProf profile: what was not captured, what the figures include, DLProf's own advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.readers.dlprof.layout import DETAILED, ITERATION, KERNEL, SIMPLE_OP, TENSOR_CORE
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.reported import feedback
from tcprobe.readers.dlprof.summary import ALL_KERNELS, ALL_OPS, GPU_TIME, ITERATIONS, Summary, kernels_add_up
from tcprobe.schema.profile import Note

Reports = dict[str, Report]

KERNELS_USING_TC: Final = "Kernels using TC"
MODE_SHARE: Final = 0.5  # of the ops that must agree on a number of calls before it counts as the cadence
ROUNDING_NS: Final = 1.0
NO_KERNELS: Final = "DLProf captured no GPU kernel: Tensor Core use was not measured, and its 0 % figures mean nothing"
RUN_AGAIN: Final = (
    "run it again (a first run has been seen to record nothing), and check that the driver suits the container and "
    "that the workload uses the GPU"
)


def kernels_captured(summary: Summary, reports: Reports) -> bool | None:
    """Say whether the profile holds any kernel; None where the reports at hand cannot tell.

    In simple mode the iteration report has no rows, and an eligible op need not exist: emptiness alone proves nothing
    while another report tells of kernels.
    """
    told = [len(reports[kind]) > 0 for kind in (ITERATION, KERNEL, TENSOR_CORE) if kind in reports]
    if any(told):
        return True
    if (total := summary.value(ALL_KERNELS, GPU_TIME, "All kernels")) is not None:
        return total > (summary.value(ALL_KERNELS, GPU_TIME, "Memory") or 0.0)
    if ITERATION in reports or KERNEL in reports:
        return False
    if DETAILED in reports:
        return bool(np.nansum(reports[DETAILED].numbers("total gpu time ns")) > 0)
    return None


def notes_of(summary: Summary, reports: Reports) -> tuple[Note, ...]:
    """Return all notes, the gravest first."""
    measured = kernels_captured(summary, reports)
    found = [*_not_measured(measured), *_iterations(summary, reports), *_cadence(summary, reports)]
    found += [*_contents(summary, reports), *_disagreements(summary, reports), *_advice(summary, reports)]
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda note: order[note.level]))


def _not_measured(measured: bool | None) -> Iterator[Note]:
    if measured is False:
        yield Note("no-kernels", NO_KERNELS, RUN_AGAIN, "error")


def _iterations(summary: Summary, reports: Reports) -> Iterator[Note]:
    if is_simple(summary, reports):
        yield Note(
            "simple-mode",
            "DLProf ran in simple mode: the figures cover the whole process, start-up and autotuning included",
            "profile in a framework mode with a key node to leave the start-up out",
        )
        return
    total = summary.value(ITERATIONS, "Total Iterations")
    first, last = (summary.value(ITERATIONS, f"{word} Iteration") for word in ("Start", "Stop"))
    if total is not None and total <= 1:
        yield Note(
            "whole-run",
            "DLProf found no iterations (no key node): the whole process is one, start-up included",
            "give a key node, an op that runs once a step: tcprobe profile --profiler dlprof --key-node NAME",
        )
    elif total is not None and first is not None and last is not None:
        yield from _ends(int(total), int(first), int(last), ITERATION in reports)


def _ends(total: int, first: int, last: int, has_rows: bool) -> Iterator[Note]:
    """Iteration 0 begins with the process; the last one is what ran after the last key node."""
    start = ["iteration 0 (start-up)"] if first == 0 else []
    tail = [f"iteration {total - 1} (the rest after the last step)"] if last >= total - 1 else []
    held = [*start, *tail]
    if held:
        yield Note(
            "start-or-tail-inside",
            f"DLProf's own figures include {' and '.join(held)}",
            f"have DLProf aggregate iterations {max(first, 1)} to {max(min(last, total - 2), 1)}",
            "note" if has_rows else "warning",
        )


def is_simple(summary: Summary, reports: Reports) -> bool:
    """Say whether DLProf ran in simple mode: no iterations, or its one pseudo-op."""
    named = (
        name for kind in reports for column in ("op name", "op type") for name in reports[kind].texts(column).names
    )
    if any(name.startswith(SIMPLE_OP) for name in named):
        return True
    return summary.value(ITERATIONS, "Total Iterations") == 0


def modal_multiple(calls: list[int], iterations: int) -> int | None:
    """Return how many times most ops run in one iteration, where that is 2 or more; None otherwise.

    A key node that fires once an epoch leaves every other op with a multiple of its calls. The last iteration is
    the rest after the last key node, so the ops ran in `iterations` or in one less.

    Args:
        calls: of each op.
        iterations: counted by the key node, or the calls of the key node itself.
    """
    if not calls or iterations < 2:
        return None
    counts, many = np.unique(np.array(calls), return_counts=True)
    modal = int(counts[np.argmax(many)])
    if many.max() < MODE_SHARE * len(calls):
        return None
    fits = [modal // n for n in (iterations, iterations - 1) if modal % n == 0]
    return fits[0] if fits and fits[0] > 1 and modal // iterations >= 1 else None


def _cadence(summary: Summary, reports: Reports) -> Iterator[Note]:
    if DETAILED not in reports:
        return
    iterations = summary.value(ITERATIONS, "Aggregated Iterations")
    calls = reports[DETAILED].numbers("no calls")
    counted = calls[~np.isnan(calls)].astype(np.int64).tolist()
    multiple = modal_multiple(counted, int(iterations or 0))
    if multiple:
        yield Note(
            "key-node-cadence",
            f"most ops run {multiple} times in an iteration: the key node fires once an epoch or once in several "
            "steps, not once a step",
            "choose a key node that runs as often as the other ops",
        )


def _contents(summary: Summary, reports: Reports) -> Iterator[Note]:
    if DETAILED in reports and KERNEL not in reports and ITERATION not in reports:
        yield Note(
            "op-times-are-unions",
            "the times of ops are DLProf's: unions over their kernels and copies, so they are no kernel times"
            + _share_using(reports[DETAILED]),
            "ask DLProf for its iteration report (--reports=all)",
        )
    if DETAILED in reports and (idle := _eligible_without_time(reports[DETAILED])):
        yield Note(
            "eligible-without-gpu-time",
            f"{idle} ops that DLProf calls eligible ran nothing on the GPU: not counted",
            None,
            "note",
        )
    if ITERATION in reports and len(reports[ITERATION]) and not reports[ITERATION].has("device id"):
        yield Note("device-unknown", "the iteration report names no device: all launches count as GPU 0", None, "note")
    if summary.partial:
        yield Note("cut-off", "the summary ends in the middle of a line, which was left out", "copy the file again")


def _share_using(detail: Report) -> str:
    """Say what share the ops take that DLProf marks as using Tensor Cores."""
    time, uses = np.nan_to_num(detail.numbers("total gpu time ns")), detail.flags("uses tc") == 1
    if not detail.has("uses tc") or time.sum() <= 0:
        return ""
    share = 100.0 * time[uses].sum() / time.sum()
    return (
        f"; those that DLProf marks as using Tensor Cores take {share:.1f} % of the ops' time, which is an upper "
        "bound: one such kernel marks the whole op"
    )


def _eligible_without_time(detail: Report) -> int:
    eligible = detail.flags("tc eligible") == 1
    return int(np.sum(eligible & (detail.numbers("total gpu time ns") == 0)))


def _disagreements(summary: Summary, reports: Reports) -> Iterator[Note]:
    """Compare the summary with the rows that it sums up; unions and sums apart, they agree to the nanosecond."""
    if summary.value(ALL_KERNELS, GPU_TIME, "All other kernels") is not None and not kernels_add_up(summary):
        yield Note(
            "dlprof-disagrees", "the kernel times of the summary do not add up to its total", "take DLProf's own file"
        )
    for kind, column in ((ITERATION, "gpu duration ns"), (KERNEL, "total gpu time ns")):
        if kind in reports and len(reports[kind]):
            yield from _against_rows(summary, reports[kind], column)
            return


def _against_rows(summary: Summary, report: Report, column: str) -> Iterator[Note]:
    time, uses = report.numbers(column), report.flags("uses tc") == 1
    for row, ours in ((KERNELS_USING_TC, np.nansum(time[uses])), ("All other kernels", np.nansum(time[~uses]))):
        theirs = summary.value(ALL_KERNELS, GPU_TIME, row)
        if theirs is not None and report.has("uses tc") and abs(theirs - ours) > ROUNDING_NS:
            yield Note(
                "dlprof-disagrees",
                f"'{row}' takes {theirs:.0f} ns in DLProf's summary and {ours:.0f} ns in the rows of its "
                f"{report.kind} report: ours follow the rows",
                "the reports may stem from different runs or iteration ranges",
            )


def _advice(summary: Summary, reports: Reports) -> Iterator[Note]:
    """Pass on what DLProf's expert systems say, with what is known to mislead."""
    in_use = (summary.value(ALL_OPS, GPU_TIME, "Ops using TC") or 0.0) > 0.0
    for problem, advice in feedback(reports):
        overlooks = in_use and re.search(r"none are using FP16", problem, re.IGNORECASE)
        aside = " (Tensor Cores are in use here: DLProf overlooks TF32)" if overlooks else ""
        yield Note("dlprof-advice", f"DLProf: {problem}{aside}", advice, "note")


def idle_devices(reports: Reports) -> set[int]:
    """Return the devices that DLProf's feedback calls unused."""
    listed = re.compile(r"GPU device IDs? are not being used:\s*([\d,\s]+)", re.IGNORECASE)
    found = filter(None, (listed.search(problem) for problem, _ in feedback(reports)))
    return {int(number) for match in found for number in re.findall(r"\d{1,4}", match[1])}
