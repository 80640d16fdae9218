"""Turn DLProf's own figures into rows of `reported`, named as DLProf names them after their section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.readers.dlprof.layout import EXPERT_SYSTEMS, GROUP_OP, OP_TYPE, TENSOR_CORE
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.summary import CONFIG, Figure, Summary
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.tables import REPORTED

# Of the per-row reports: heading, the column(s) that name a row, and the figures that no other table holds.
_TABLES: Final = (
    (TENSOR_CORE, "Tensor Core Report", ("op id", "op name"), {
        "tc utilization %": "TC Utilization (%)", "total gpu time ns": "Total GPU Time (ns)",
        "tc gpu time ns": "TC GPU Time (ns)", "non tc gpu time ns": "Non-TC GPU Time (ns)",
        "total kernel count": "Total Kernel Count", "tc kernel count": "TC Kernel Count",
        "non tc kernel count": "Non-TC Kernel Count",
    }),
    (OP_TYPE, "Op Type Summary Report", ("op type",), {
        "# ops": "# Ops", "# calls": "# Calls", "total gpu time ns": "Total GPU Time (ns)",
        "total cpu time ns": "Total CPU Time (ns)", "total cpu overhead ns": "Total CPU Overhead (ns)",
        "total gpu idle ns": "Total GPU Idle (ns)",
    }),
    (GROUP_OP, "Group Op Report", ("name",), {
        "num calls aggregated": "Num Calls Aggregated", "num tc eligible ops": "Num TC Eligible Ops",
        "num ops using tc": "Num Ops Using TC", "total gpu time ns": "Total GPU Time (ns)",
        "total cpu time ns": "Total CPU Time (ns)",
    }),
)  # fmt: skip


def reported_table(summary: Summary | None, reports: dict[str, Report], measured: bool) -> Table | None:
    """Return `reported`, the summary's figures first; None where there is nothing to report.

    Args:
        summary: the summary, where there is one.
        reports: the other reports by kind.
        measured: False where no kernel was captured; DLProf's percentages are then text, for they are no figures.
    """
    rows: list[dict[str, Value]] = []
    if summary is not None:
        figures = sorted(summary, key=lambda figure: figure.section == CONFIG)
        rows += [_figure(figure, measured) for figure in figures]
    for kind, heading, names, columns in _TABLES:
        if kind in reports:
            rows += _rows(reports[kind], heading, names, columns, measured)
    if EXPERT_SYSTEMS in reports:
        rows += _feedback(reports[EXPERT_SYSTEMS])
    return Table.from_rows(REPORTED, rows) if rows else None


def unit_of(name: str) -> str | None:
    """Return the unit that a figure's name tells."""
    if "%" in name:
        return "percent"
    if "(ns)" in name or name == "Iteration Time Standard Deviation":
        return "ns"
    is_count = name.startswith(("#", "Num ")) or name.endswith((" Count", " Iterations"))
    return "count" if is_count else None


def _figure(figure: Figure, measured: bool) -> dict[str, Value]:
    return _row(figure.metric, figure.name, figure.value, figure.text, figure.source, measured)


def _row(metric: str, name: str, value: float | None, text: str, source: str, measured: bool) -> dict[str, Value]:
    unit = unit_of(name)
    if unit == "percent" and not measured:
        value, text = None, f"{text} (no kernel was captured)"
    shown = text if value is None else None
    return {"metric": metric, "value": value, "text": shown or None, "unit": unit, "source": source}


def _rows(
    report: Report, heading: str, names: tuple[str, ...], columns: dict[str, str], measured: bool
) -> Iterator[dict[str, Value]]:
    parts = [report.texts(name).tolist() for name in names if report.has(name)]
    figures = {label: report.numbers(name).tolist() for name, label in columns.items() if report.has(name)}
    source = f"{report.path.name}, {heading}"
    for number, named in enumerate(zip(*parts, strict=True)):
        row = " ".join(part for part in named if part)
        for label, values in figures.items():
            if (value := values[number]) == value:
                yield _row(f"{heading} / {row} / {label}", label, value, f"{value:g}", source, measured)


def _feedback(report: Report) -> Iterator[dict[str, Value]]:
    for problem, advice in feedback(report):
        text = f"{problem} -> {advice}" if advice else problem
        yield {"metric": "Expert Systems Feedback", "text": text, "source": report.path.name}


def feedback(report: Report) -> list[tuple[str, str | None]]:
    """Return (problem, recommendation) of each message of DLProf's expert systems."""
    pairs = zip(report.texts("problem").tolist(), report.texts("recommendation").tolist(), strict=True)
    return [(problem, advice) for problem, advice in pairs if problem]
