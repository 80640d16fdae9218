"""The report as text: one screen that says how good, why and what first, then the tables."""

from __future__ import annotations

import textwrap
from typing import TextIO

from tcprobe.report.base import ReportSpec
from tcprobe.report.grid import Section, left_out, text_lines
from tcprobe.report.run.screen import Said, Screen, screen
from tcprobe.schema.profile import Profile

BOLD, DIM, YELLOW, RED, RESET = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
LEVEL_COLORS = {"error": RED, "warning": YELLOW, "note": DIM}


def render(profile: Profile, spec: ReportSpec, out: TextIO) -> None:
    """Write the report; without ``spec.width`` every name is whole and every column there."""
    shown = screen(profile, spec)
    blocks = [_facts(shown, spec), _answer(shown, spec), _steps(shown, spec)]
    blocks += [_section(section, spec) for section in shown.figures]
    blocks += [_said(shown.warnings, spec)]
    blocks += [_section(section, spec) for section in shown.why]
    blocks += [_said(shown.notes, spec)]
    blocks += [_section(section, spec) for section in shown.tables]
    blocks += [_absent(shown, spec), _hidden(shown, spec)]
    out.write("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def _facts(shown: Screen, spec: ReportSpec) -> list[str]:
    widest = max((len(label) for label, _ in shown.facts), default=0)
    lines = []
    for label, text in shown.facts:
        indent = " " * (widest + 2)
        lines += _wrapped(f"{label.ljust(widest)}  {text}", spec, indent)
    return lines


def _answer(shown: Screen, spec: ReportSpec) -> list[str]:
    first, *rest = shown.answer
    return [_paint(line, BOLD, spec) for line in _wrapped(first, spec)] + [x for r in rest for x in _wrapped(r, spec)]


def _steps(shown: Screen, spec: ReportSpec) -> list[str]:
    lines = [x for n, step in enumerate(shown.steps, 1) for x in _wrapped(f"{n}. {step}", spec, "   ")]
    return [_paint("What to do first", BOLD, spec), *lines] if lines else []


def _section(section: Section, spec: ReportSpec) -> list[str]:
    lines = text_lines(section, spec.width)
    notes = [x for note in section.notes for x in _wrapped(note, spec, "   ")]
    if not lines:
        return [_paint(section.title, BOLD, spec), *notes]
    return [_paint(section.title, BOLD, spec), _paint(lines[0], DIM, spec), *lines[1:], *notes]


def _said(notes: tuple[Said, ...], spec: ReportSpec) -> list[str]:
    lines = []
    for level, message, remedy in notes:
        first, *rest = _wrapped(f"{level}: {message}", spec, "  ")
        lines += [_paint(level, LEVEL_COLORS[level], spec) + first[len(level) :], *rest]
        lines += _wrapped(f"  what to do: {remedy}", spec, "  ") if remedy else []
    return lines


def _absent(shown: Screen, spec: ReportSpec) -> list[str]:
    return [x for name, why in shown.absent for x in _wrapped(f"no {name.replace('_', ' ')}: {why}", spec, "  ")]


def _hidden(shown: Screen, spec: ReportSpec) -> list[str]:
    tables = [s.title.split(" (")[0] for s in (*shown.figures, *shown.why, *shown.tables) if left_out(s, spec.width)]
    said = f"Columns are left out to fit {spec.width} ({', '.join(tables)}); --width 0 or --format csv shows all."
    return [_paint(line, DIM, spec) for line in _wrapped(said, spec)] if tables else []


def _wrapped(text: str, spec: ReportSpec, indent: str = "") -> list[str]:
    """Break a sentence at spaces; a long path or name stays whole, so that it can be copied."""
    if spec.width is None:
        return [text]
    return textwrap.wrap(
        text, spec.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _paint(text: str, code: str, spec: ReportSpec) -> str:
    return f"{code}{text}{RESET}" if spec.color else text
