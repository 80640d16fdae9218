"""Read all reports of one DLProf profile into a `Profile`.

Its notes say what was not captured, what the figures include, and what DLProf itself advises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.dlprof.layout import DETAILED, ITERATION, KERNEL, SIMPLE_OP, SUMMARY, TENSOR_CORE, ReportFile
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.summary import (
    ALL_KERNELS,
    ALL_OPS,
    CONFIG,
    GPU_TIME,
    ITERATIONS,
    Summary,
    feedback,
    kernels_add_up,
    reported_table,
)
from tcprobe.readers.dlprof.tables import host_ops_table, kernels_table, launch_tables, ops_table
from tcprobe.readers.dlprof.text import read_report
from tcprobe.readers.one_run import check_one
from tcprobe.readers.rows import gpu_row
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.tables import DEVICES

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


_ABSENT: Final = {
    "memory_ops": "DLProf lists no copies; its summary gives their sum",
    "ranges": "DLProf's reports hold no ranges",
    "kernel_counters": "DLProf's reports hold no hardware counters",
    "step_marks": "DLProf's reports hold no host time of its iterations",
    "devices": "DLProf's summary, which names the GPUs, is not here",
    "reported": "none of DLProf's summaries is here",
}
_PREFERRED: Final = {SUMMARY: "json", TENSOR_CORE: "json"}
_NO_KERNELS: Final = "DLProf captured no kernel"
_SUMS_ONLY: Final = "DLProf's {} hold{} sums, not launches; its iteration report {}"


def read_profile(format_name: str, files: Sequence[ReportFile]) -> Profile:
    """Read the reports of one profile.

    Args:
        format_name: the reader's name, for the metadata.
        files: what was found.

    Raises:
        UsageError: the files belong to several profiles.
        InputError: a file is empty, damaged or no report of DLProf's.
    """
    check_one([found.path for found in files], [found.name for found in files], "reports of {} DLProf profiles")
    return profile_of(format_name, [found.path for found in files], *_load(files))


def profile_of(format_name: str, paths: list[Path], summary: Summary, reports: Reports) -> Profile:
    """Return what the reports of one profile tell together.

    Args:
        format_name: the reader's name, for the metadata.
        paths: the files that they were read from.
        summary: the summary; without a figure where there is none.
        reports: the others by kind.

    Raises:
        WrongFormat: a figure is damaged.
    """
    measured = kernels_captured(summary, reports)
    profile = Profile(_metadata(format_name, paths, summary, reports), traits=frozenset({"key_node"}))
    launched = launch_tables(reports[ITERATION]) if len(reports.get(ITERATION, ())) else []
    used = {int(device) for device in np.unique(launched[0].numbers("device"))} if launched else set()
    tables = [*launched, *_aggregated(reports, bool(launched)), _devices(summary, reports, used)]
    tables.append(reported_table(summary, reports, measured is not False))
    profile = profile.with_tables(*(table for table in tables if table is not None and len(table)))
    return profile.with_absent(**_absent(summary, reports, measured))


def _load(files: Sequence[ReportFile]) -> tuple[Summary, Reports]:
    """Read each report once: JSON where percentages matter, for it has more digits; CSV for long tables."""
    summary, reports = Summary(()), Reports()
    for found in sorted(files, key=lambda one: (one.dialect != _PREFERRED.get(one.kind, "csv"), one.path.name)):
        if found.kind in reports:
            continue
        held = read_report(found)
        if isinstance(held, Report):
            reports[held.kind] = held
        else:
            summary = summary.over(held) if summary else held
    return summary, reports


def _metadata(format_name: str, paths: list[Path], summary: Summary, reports: Reports) -> Metadata:
    framework = summary.text(CONFIG, "Framework")
    return Metadata(
        format=format_name,
        paths=tuple(str(path) for path in paths),
        profiler=_profiler(summary),
        framework=None if framework == "UNKNOWN" else framework or None,
        gpu_used=True,
        partial=summary.partial,
        window=_window(summary, reports),
        notes=notes_of(summary, reports),
    )


def _profiler(summary: Summary) -> str:
    number = re.match(r"v?(\d[\w.]*)", summary.text(CONFIG, "DLProf Version"))
    build = summary.text(CONFIG, "DLProf Build")
    return " ".join(p for p in ("DLProf", number[1] if number else "", f"(build {build})" if build else "") if p)


def _window(summary: Summary, reports: Reports) -> Window:
    """Return the iterations that DLProf itself aggregated; of rows, the analysis chooses its own."""
    first, last = (summary.value(ITERATIONS, f"{word} Iteration") for word in ("Start", "Stop"))
    is_one = is_simple(summary, reports) or (summary.value(ITERATIONS, "Total Iterations") or 0) <= 1
    if is_one or first is None or last is None or ITERATION in reports:
        return Window()
    return Window(int(first), int(last), basis="aggregated by DLProf")


def _aggregated(reports: Reports, launched: bool) -> Iterator[Table | None]:
    detail = None if is_simple(Summary(()), reports) else reports.get(DETAILED)
    if not launched and KERNEL in reports:
        yield kernels_table(reports[KERNEL], detail)
    if detail is not None:
        yield ops_table(detail, reports)
        yield host_ops_table(detail)


def _devices(summary: Summary, reports: Reports, used: set[int]) -> Table:
    """Return the GPUs: those that the summary names, and those that ran kernels, as far as launches say which.

    The summary's count and its names are two things (8 GPUs beside two names have been seen), so only the names
    count. Without any, one nameless GPU stands for those that ran.
    """
    names = [name.strip() for name in summary.text(CONFIG, "GPU Name(s)").split(",") if name.strip()]
    captured = kernels_captured(summary, reports)
    # some GPU ran kernels of which nothing tells the GPU
    ids = sorted({*range(len(names)), *used}) or ([0] if captured else [])
    idle = set(ids) - used if used else idle_devices(reports)
    only = names[0] if len(set(names)) == 1 else None
    rows = [
        gpu_row(
            device, names[device] if device < len(names) else only, ran=captured is not False and device not in idle
        )
        for device in ids[:MOST_DEVICES]
    ]
    return Table.from_rows(DEVICES, rows)


def _absent(summary: Summary, reports: Reports, measured: bool | None) -> dict[str, str]:
    held = [name for kind, name in ((KERNEL, "kernel report"), (DETAILED, "detail report")) if kind in reports]
    held += ["summary"] if summary else []
    without = "has no rows" if ITERATION in reports else "is not here"
    sums = _SUMS_ONLY.format(" and ".join(held) or "reports", "" if len(held) > 1 or not held else "s", without)
    kernels = "neither DLProf's kernel report nor its iteration report is here"
    ops = "DLProf's simple mode knows no ops" if is_simple(summary, reports) else "DLProf's detail report is not here"
    return {
        **_ABSENT,
        **dict.fromkeys(("launches", "op_details", "launch_configs"), _NO_KERNELS if measured is False else sums),
        "kernels": _NO_KERNELS if measured is False else kernels,
        **dict.fromkeys(("ops", "host_ops"), ops),
    }
