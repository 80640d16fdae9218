"""Read all reports of one DLProf profile into a `Profile`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.dlprof.launches import launch_tables
from tcprobe.readers.dlprof.layout import DETAILED, ITERATION, KERNEL, SUMMARY, TENSOR_CORE, ReportFile
from tcprobe.readers.dlprof.notes import idle_devices, is_simple, kernels_captured, notes_of
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.reported import reported_table
from tcprobe.readers.dlprof.summary import CONFIG, ITERATIONS, Summary
from tcprobe.readers.dlprof.tables import host_ops_table, kernels_table, ops_table
from tcprobe.readers.dlprof.text import read_report
from tcprobe.readers.one_run import check_one
from tcprobe.readers.rows import gpu_row
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.tables import DEVICES

Reports = dict[str, Report]

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
