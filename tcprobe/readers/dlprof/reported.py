"""Turn DLProf's own figures into rows of `reported`, named as DLProf names them after their section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.readers.dlprof.layout import DETAILED, EXPERT_SYSTEMS, LAYOUTS, Layout, canonical
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.summary import CONFIG, Summary
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.tables import REPORTED

OP_TIMES: Final = ("Total GPU Time (ns)", "Total GPU Idle (ns)")
"""Of an op: the time that it uses the GPU; the rest of the spans of its calls from first to last use."""


def reported_table(summary: Summary, reports: dict[str, Report], measured: bool) -> Table:
    """Return `reported`, the summary's figures first.

    Args:
        summary: the summary; without a figure where there is none.
        reports: the other reports by kind.
        measured: False where no kernel was captured; DLProf's percentages are then text, for they are no figures.
    """
    figures = sorted(summary, key=lambda figure: figure.section == CONFIG)
    rows = [_row(one.metric, one.name, one.value, one.text, one.source, measured) for one in figures]
    for layout in LAYOUTS:
        if layout.kind in reports:
            rows += _rows(reports[layout.kind], layout, measured)
    rows += _sums_of_ops(reports, measured)
    for problem, advice in feedback(reports):
        text = f"{problem} -> {advice}" if advice else problem
        rows.append({"metric": "Expert Systems Feedback", "text": text, "source": reports[EXPERT_SYSTEMS].path.name})
    return Table.from_rows(REPORTED, rows)


def unit_of(name: str) -> str | None:
    """Return the unit that a figure's name tells."""
    if "%" in name:
        return "percent"
    if "(ns)" in name or name == "Iteration Time Standard Deviation":
        return "ns"
    is_count = name.startswith(("#", "Num ")) or name.endswith((" Count", " Iterations"))
    return "count" if is_count else None


def _row(metric: str, name: str, value: float | None, text: str, source: str, measured: bool) -> dict[str, Value]:
    unit = unit_of(name)
    if unit == "percent" and not measured:
        value, text = None, f"{text} (no kernel was captured)"
    shown = text if value is None else None
    return {"metric": metric, "value": value, "text": shown or None, "unit": unit, "source": source}


def _rows(report: Report, layout: Layout, measured: bool) -> Iterator[dict[str, Value]]:
    heading = layout.titles[0].title()
    parts = [report.texts(name).tolist() for name in layout.rows if report.has(name)]
    held = {label: name for label in layout.figures if report.has(name := canonical(label))}
    figures = {label: report.numbers(name).tolist() for label, name in held.items()}
    for number, named in enumerate(zip(*parts, strict=True)):
        row = " ".join(part for part in named if part)
        for label, values in figures.items():
            if (value := values[number]) == value:
                metric = f"{heading} / {row} / {label}"
                yield _row(metric, label, value, f"{value:g}", f"{report.path.name}, {heading}", measured)


def _sums_of_ops(reports: dict[str, Report], measured: bool) -> Iterator[dict[str, Value]]:
    """Yield the times of all ops of the detail report together, where it says how long the GPU is idle within them."""
    if DETAILED not in reports or not (report := reports[DETAILED]).has(*map(canonical, OP_TIMES)):
        return
    for label in OP_TIMES:
        spent = float(np.nansum(report.numbers(canonical(label))))
        yield _row(f"All Iterations / All ops / {label}", label, spent, f"{spent:g}", report.path.name, measured)


def feedback(reports: dict[str, Report]) -> list[tuple[str, str | None]]:
    """Return (problem, recommendation) of each message of DLProf's expert systems."""
    if EXPERT_SYSTEMS not in reports:
        return []
    problems, advice = (reports[EXPERT_SYSTEMS].texts(name).tolist() for name in ("problem", "recommendation"))
    return [(problem, one) for problem, one in zip(problems, advice, strict=True) if problem]
