"""The report as GitHub-flavoured Markdown, for a pull request's comment: the tables fold away."""

from __future__ import annotations

from typing import TextIO

from tcprobe.report.base import ReportSpec
from tcprobe.report.grid import Section, escape_markdown, markdown_lines
from tcprobe.report.run.screen import screen
from tcprobe.schema.profile import Profile


def render(profile: Profile, spec: ReportSpec, out: TextIO) -> None:
    """Write the report; the first screen is open, the tables below it are folded unless asked for by name."""
    shown = screen(profile, spec)
    blocks = [["# Tensor Core report"], [f"**{escape_markdown(shown.answer[0])}**"]]
    blocks += [[escape_markdown(line)] for line in shown.answer[1:]]
    blocks.append([f"- {label}: {escape_markdown(text)}" for label, text in shown.facts])
    if shown.steps:
        blocks.append(
            ["## What to do first", "", *(f"{n}. {escape_markdown(s)}" for n, s in enumerate(shown.steps, 1))]
        )
    blocks += [["## " + s.title, "", *_table(s)] for s in shown.figures]
    blocks.append([_note(*warning) for warning in shown.warnings])
    blocks += [["## " + s.title, "", *_table(s)] for s in shown.why]
    blocks.append([_note(*note) for note in shown.notes])
    blocks += [["## " + s.title, "", *_table(s)] if spec.by else _folded(s) for s in shown.tables]
    blocks.append([f"- no {escape_markdown(name)}: {escape_markdown(why)}" for name, why in shown.absent])
    out.write("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def _table(section: Section) -> list[str]:
    return [*markdown_lines(section), *(line for note in section.notes for line in ("", escape_markdown(note)))]


def _folded(section: Section) -> list[str]:
    return [f"<details><summary>{section.title}</summary>", "", *_table(section), "", "</details>"]


def _note(level: str, message: str, remedy: str | None) -> str:
    advice = f" *What to do:* {escape_markdown(remedy)}" if remedy else ""
    return f"- **{level}**: {escape_markdown(message)}{advice}"
