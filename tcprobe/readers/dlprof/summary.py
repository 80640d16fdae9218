"""Read DLProf's summary, CSV or JSON: figures by section, row and name.

Its own figures become rows of `reported`, named as DLProf names them after their section.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tcprobe.errors import WrongFormat
from tcprobe.readers.dlprof.layout import DETAILED, EXPERT_SYSTEMS, LAYOUTS, SECTIONS, Layout, canonical
from tcprobe.readers.dlprof.report import DAMAGED, Report, parse_number, unquoted
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.tables import REPORTED

CONFIG: Final = "System Config"
REPORT: Final = "Summary Report"
ITERATIONS: Final = "Iterations"
ALL_OPS: Final = "All Ops"
ALL_KERNELS: Final = "All Kernels"
GPU_TIME: Final = "GPU Time (ns)"
TC_UTILIZATION: Final = "Tensor Core Kernel Utilization %"
_ORDER: Final = {
    REPORT: ("Wall Clock Time (ns)", TC_UTILIZATION, "GPU Utilization %", "GPU Idle %"),
    ITERATIONS: ("Total Iterations", "Aggregated Iterations", "Start Iteration", "Stop Iteration"),
    ALL_OPS: (GPU_TIME, "CPU Time (ns)", "# Ops"),
    ALL_KERNELS: (GPU_TIME, "CPU Time (ns)", "# Kernels"),
}
_ROWS: Final = (
    "All ops", "Ops using TC", "Ops eligible for TC but not using", "All other ops",
    "All kernels", "Kernels using TC", "Memory", "All other kernels",
)  # fmt: skip


class Figure(Struct, frozen=True):
    """One figure of the summary."""

    # section, row, name: where it stands; row is None outside the two small tables.
    section: str
    row: str | None
    name: str
    text: str  # as printed
    value: float | None  # the number, None where it is text or undefined
    source: str  # file and section

    @property
    def key(self) -> tuple[str, str, str]:
        """Where it stands, without case."""
        return (self.section.lower(), (self.row or "").lower(), self.name.lower())

    @property
    def metric(self) -> str:
        """Its name with all that stands above it, as DLProf writes it."""
        return " / ".join(part for part in (self.section, self.row, self.name) if part)


class Summary:
    """All figures of a summary, in DLProf's order."""

    def __init__(self, figures: Iterable[Figure], partial: bool = False) -> None:
        self._by_key = {figure.key: figure for figure in figures}
        self.partial = partial

    def __iter__(self) -> Iterator[Figure]:
        return iter(sorted(self._by_key.values(), key=_place))

    def __len__(self) -> int:
        return len(self._by_key)

    def text(self, section: str, name: str) -> str:
        """Return a figure as printed; empty where it is absent."""
        found = self._by_key.get((section.lower(), "", name.lower()))
        return found.text if found else ""

    def value(self, section: str, name: str, row: str = "") -> float | None:
        """Return a figure's number; None where it is absent or undefined."""
        found = self._by_key.get((section.lower(), row.lower(), name.lower()))
        return found.value if found else None

    def over(self, other: Summary) -> Summary:
        """Return these figures, and those of `other` that are missing here."""
        return Summary([*other._by_key.values(), *self._by_key.values()], self.partial and other.partial)


def _place(figure: Figure) -> tuple[int, int, int]:
    """Return where DLProf's CSV prints a figure; its JSON sorts by name."""
    sections, heads = list(SECTIONS), _ORDER.get(figure.section, ())
    section = figure.section.lower()
    return (
        sections.index(section) if section in sections else len(sections),
        heads.index(figure.name) if figure.name in heads else len(heads),
        _ROWS.index(figure.row) if figure.row in _ROWS else len(_ROWS),
    )


def from_lines(path: Path, text: str) -> Summary:
    """Read the CSV form: sections of ``key,value`` lines, then two small tables; values may hold commas.

    A last line that does not end in a newline may have been cut.

    Raises:
        WrongFormat: a line belongs to no section, or is no figure.
    """
    lines = text.splitlines()
    try:
        whole = Summary(_figures(path, lines))
    except WrongFormat:
        if text.endswith("\n"):
            raise
        whole = Summary(())
    if text.endswith("\n") or kernels_add_up(whole):
        return whole
    last = max((number for number, line in enumerate(lines) if line.strip(" ,")), default=0)
    return Summary(_figures(path, lines[:last]), partial=True)


def _figures(path: Path, lines: list[str]) -> Iterator[Figure]:
    section, heads = "", None
    for number, line in enumerate(lines, 1):
        bare = line.strip().rstrip(",").strip('"').strip()
        if bare.lower() in SECTIONS:
            section, heads = SECTIONS[bare.lower()], None
        elif line.startswith(",") and bare and section:
            heads = [_bare(cell) for cell in line.strip().strip(",").split(",")]
        elif bare:
            if not section or "," not in line:
                found = f"line {number} of the summary is '{bare[:40]}', where 'name,value' was expected"
                raise WrongFormat(path, found, DAMAGED)
            yield from _line(path, number, section, heads, line.strip())


def _line(path: Path, number: int, section: str, heads: list[str] | None, line: str) -> Iterator[Figure]:
    if heads is None:
        name, _, value = line.partition(",")
        yield _figure(path, section, None, _bare(name), _bare(value.rstrip(",")))
        return
    row, *values = line.rstrip(",").rsplit(",", len(heads))
    if len(values) != len(heads):
        found = f"line {number} of the summary has {len(values)} figures, where {len(heads)} were expected"
        raise WrongFormat(path, found, "the file is cut off; copy it again")
    for name, value in zip(heads, values, strict=True):
        yield _figure(path, section, _bare(row), name, _bare(value))


def from_object(path: Path, held: Mapping[str, Any]) -> Summary:
    """Read the JSON form: an object of sections; figures stand in arrays of one element.

    Raises:
        WrongFormat: a section or figure has another shape.
    """
    return Summary(figure for section, content in held.items() for figure in _section(path, section, content))


def _section(path: Path, section: str, content: Any) -> Iterator[Figure]:
    name = SECTIONS.get(section.strip().lower(), section.strip())
    if not isinstance(content, dict):
        raise WrongFormat(path, f"section '{section[:40]}' holds no figures", DAMAGED)
    for key, value in content.items():
        nested = isinstance(value, dict)
        for column, inner in (value if nested else {key: value}).items():
            yield _figure(path, name, _bare(key) if nested else None, _bare(column), _bare(unquoted(path, inner)))


def _figure(path: Path, section: str, row: str | None, name: str, text: str) -> Figure:
    value = None
    if text and (section != CONFIG or name == "GPU Count"):
        try:
            value = parse_number(text)
        except ValueError as error:
            if section in SECTIONS.values():
                found = f"'{name[:40]}' under {section} is '{text[:40]}', where a number was expected"
                raise WrongFormat(path, found, DAMAGED) from error
    return Figure(section, row, name, text, value if value == value else None, f"{path.name}, {section}")


def _bare(text: str) -> str:
    return text.strip().strip('"').strip()


def kernels_add_up(summary: Summary) -> bool:
    """Say whether Tensor Core, memory and other kernels sum to the total, as they do in a whole summary."""
    rows = ("Kernels using TC", "Memory", "All other kernels")
    total = summary.value(ALL_KERNELS, GPU_TIME, "All kernels")
    parts = [summary.value(ALL_KERNELS, GPU_TIME, row) for row in rows]
    return total is not None and None not in parts and sum(p or 0.0 for p in parts) == total


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
