"""Read all reports of one DLProf profile into a `Profile`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.dlprof.launches import Rows, kernels_of, read_rows
from tcprobe.readers.dlprof.layout import DETAILED, ITERATION, KERNEL, SUMMARY, TENSOR_CORE, ReportFile
from tcprobe.readers.dlprof.notes import idle_devices, is_simple, kernels_captured, notes_of
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.reported import reported_table
from tcprobe.readers.dlprof.summary import CONFIG, ITERATIONS, Summary
from tcprobe.readers.dlprof.tables import host_ops_table, kernels_table, ops_table
from tcprobe.readers.dlprof.text import read_report
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
}
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
    _check_one(files)
    summary, reports = _load(files)
    measured = kernels_captured(summary, reports)
    profile = Profile(_metadata(format_name, [f.path for f in files], summary, reports), traits=frozenset({"key_node"}))
    rows = read_rows(reports[ITERATION]) if len(reports.get(ITERATION, ())) else None
    tables = [*_per_launch(rows), *_aggregated(reports, rows), _devices(summary, reports, rows)]
    tables.append(reported_table(summary, reports, measured is not False))
    profile = profile.with_tables(*(table for table in tables if table is not None and len(table)))
    absent = _absent(summary, reports, measured)
    return profile.with_absent(**{name: why for name, why in absent.items() if name not in profile.tables})


def _check_one(files: Sequence[ReportFile]) -> None:
    names = list(dict.fromkeys(found.name for found in files))
    if len(names) > 1:
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise UsageError(
            f"{files[0].path.parent}: reports of {len(names)} DLProf profiles lie here: {shown}",
            f"name one file, as in: tcprobe report {files[0].path}",
        )


def _load(files: Sequence[ReportFile]) -> tuple[Summary | None, Reports]:
    """Read each report once: JSON where percentages matter, for it has more digits; CSV for long tables."""
    summary: Summary | None = None
    reports: Reports = {}
    for found in sorted(files, key=_preference):
        if found.kind in reports:
            continue
        held = read_report(found)
        if isinstance(held, Report):
            reports[held.kind] = held
        else:
            summary = held if summary is None else summary.over(held)
    return summary, reports


def _preference(found: ReportFile) -> tuple[bool, str]:
    wanted = "json" if found.kind in (SUMMARY, TENSOR_CORE) else "csv"
    return (found.dialect != wanted, found.path.name)


def _metadata(format_name: str, paths: list[Path], summary: Summary | None, reports: Reports) -> Metadata:
    framework = summary.text(CONFIG, "Framework") if summary is not None else None
    return Metadata(
        format=format_name,
        paths=tuple(str(path) for path in paths),
        profiler=_profiler(summary),
        framework=None if framework in (None, "", "UNKNOWN") else framework,
        gpu_used=True,
        partial=summary is not None and summary.partial,
        window=_window(summary, reports),
        notes=notes_of(summary, reports),
    )


def _profiler(summary: Summary | None) -> str:
    version = (summary.text(CONFIG, "DLProf Version") if summary else None) or ""
    build = (summary.text(CONFIG, "DLProf Build") if summary else None) or ""
    number = re.match(r"v?(\d[\w.]*)", version)
    return " ".join(p for p in ("DLProf", number[1] if number else "", f"(build {build})" if build else "") if p)


def _window(summary: Summary | None, reports: Reports) -> Window:
    """Return the iterations that DLProf itself aggregated; of rows, the analysis chooses its own."""
    if summary is None or is_simple(summary, reports) or (summary.value(ITERATIONS, "Total Iterations") or 0) <= 1:
        return Window()
    first, last = (summary.value(ITERATIONS, f"{word} Iteration") for word in ("Start", "Stop"))
    if first is None or last is None or ITERATION in reports:
        return Window()
    return Window(int(first), int(last), basis="aggregated by DLProf")


def _per_launch(rows: Rows | None) -> list[Table]:
    return [] if rows is None else [rows.launches(), rows.ops, rows.configs, kernels_of(rows)]


def _aggregated(reports: Reports, rows: Rows | None) -> list[Table | None]:
    detail = None if is_simple(None, reports) else reports.get(DETAILED)
    tables: list[Table | None] = []
    if rows is None and KERNEL in reports:
        tables.append(kernels_table(reports[KERNEL], detail))
    if detail is not None:
        tables += [ops_table(detail, reports), host_ops_table(detail)]
    return tables


def _devices(summary: Summary | None, reports: Reports, rows: Rows | None) -> Table | None:
    """Return the GPUs: those that the summary names, and those that ran kernels.

    The summary's count and its names are two things (8 GPUs beside two names have been seen), so only the names
    count. Without any, one nameless GPU stands for those that ran.
    """
    names, captured = _gpu_names(summary), kernels_captured(summary, reports)
    used = set() if rows is None else {int(device) for device in np.unique(rows.device)}
    if not names and not used and captured:
        used = {0}  # some GPU ran these kernels; which, nothing tells
    ids = sorted({*range(len(names)), *used})
    idle = idle_devices(reports) if rows is None else set(ids) - used
    if captured is False:
        idle = set(ids)
    only = names[0] if len(set(names)) == 1 else None
    named = {device: names[device] if device < len(names) else only for device in ids[:MOST_DEVICES]}
    table = [gpu_row(device, name, ran=device not in idle) for device, name in named.items()]
    return Table.from_rows(DEVICES, table) if table else None


def _gpu_names(summary: Summary | None) -> list[str]:
    text = (summary.text(CONFIG, "GPU Name(s)") if summary else None) or ""
    return [name.strip() for name in text.split(",") if name.strip()]


def _absent(summary: Summary | None, reports: Reports, measured: bool | None) -> dict[str, str]:
    held = [name for kind, name in ((KERNEL, "kernel report"), (DETAILED, "detail report")) if kind in reports]
    if summary is not None:
        held.append("summary")
    without = "has no rows" if ITERATION in reports else "is not here"
    sums = _SUMS_ONLY.format(" and ".join(held) or "reports", "" if len(held) > 1 or not held else "s", without)
    launches = _NO_KERNELS if measured is False else sums
    kernels = _NO_KERNELS if measured is False else "neither DLProf's kernel report nor its iteration report is here"
    reasons = {"launches": launches, "op_details": launches, "launch_configs": launches, "kernels": kernels}
    ops = "DLProf's simple mode knows no ops" if is_simple(summary, reports) else "DLProf's detail report is not here"
    reasons |= {"ops": ops, "host_ops": ops}
    reasons |= {"devices": "DLProf's summary, which names the GPUs, is not here"}
    reasons |= {"reported": "none of DLProf's summaries is here"}
    return {**_ABSENT, **reasons}
