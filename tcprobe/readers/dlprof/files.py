"""Find DLProf's reports among other files by their first bytes, and tell which belong together."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tcprobe.foreign import below, encoding_of, head
from tcprobe.readers.dlprof.layout import SECTIONS, SUMMARY, by_header, by_title, canonical, profile_name

Dialect = Literal["csv", "json"]
PEEK_BYTES: Final = 16384  # the longest header seen has 700
_FIRST_KEY: Final = re.compile(r'\s*\{\s*"([^"\\]{1,40})"\s*:\s*([\[{])')
_SUMMARY_WORDS: Final = ("GPU Time (ns)", "Wall Clock Time (ns)", "Total Iterations", "GPU Count", "DLProf Version")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file that looks like a report of DLProf's.

    Attributes:
        path: the file.
        dialect: csv or json.
        kind: of the report, one of `layout`'s.
    """

    path: Path
    dialect: Dialect
    kind: str

    @property
    def name(self) -> str:
        """The profile's name, from the file's."""
        return profile_name(self.path.stem)

    @property
    def home(self) -> tuple[Path, str]:
        """What the reports of one profile share: folder and profile name."""
        return (self.path.parent, self.name)


def scan(path: Path) -> list[ReportFile]:
    """Return the reports at `path`: itself, or those in a directory and below, sorted.

    In a directory only ``*.csv`` and ``*.json`` are looked into; what cannot be read is left out.
    """
    if not path.is_dir():
        return [found] if (found := look(path)) else []
    return [found for candidate in below(path, _may_be_one).files if (found := look(candidate))]


def _may_be_one(name: str) -> bool:
    return name.lower().endswith((".csv", ".json"))


def look(path: Path) -> ReportFile | None:
    """Return what report a file is by its first bytes; None where it is none or cannot be read."""
    start = head(path, PEEK_BYTES)
    if start is None:
        return None
    text = start.decode(encoding_of(start), errors="replace").lstrip("\ufeff")
    if "\0" in text:
        return None
    if kind := _json_kind(text):
        return ReportFile(path, "json", kind)
    kind = _csv_kind(text)
    return ReportFile(path, "csv", kind) if kind else None


def _json_kind(text: str) -> str | None:
    match = _FIRST_KEY.match(text)
    if match is None:
        return None
    if match[2] == "[":
        layout = by_title(match[1])
        return layout.kind if layout else None
    is_summary = match[1].lower() in SECTIONS and any(word in text for word in _SUMMARY_WORDS)
    return SUMMARY if is_summary else None


def _csv_kind(text: str) -> str | None:
    lines = [line for line in text.splitlines()[:20] if line.strip(" ,")]
    if not lines:
        return None
    first = lines[0].strip().strip(",").strip('"').strip()
    if layout := by_title(first):
        return layout.kind
    if first.lower() in SECTIONS:
        return SUMMARY if any(word in text for word in _SUMMARY_WORDS) or len(lines) == 1 else None
    header = next(csv.reader([lines[0]]), [])
    layout = by_header(canonical(cell) for cell in header)
    return layout.kind if layout else None
