"""Describe DLProf's reports (titles, file names, columns), and find them among other files by their first bytes.

DLProf 0.13 to 1.8 differ in which columns a report has and in their order, never in their names beyond
``Avg.``/``Avg`` and ``Using``/``Uses``; so columns are found by name, and a report by its title or header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tcprobe.foreign import below, encoding_of, head

SUMMARY: Final = "summary"
DETAILED: Final = "detailed"
ITERATION: Final = "iteration"
KERNEL: Final = "kernel"
TENSOR_CORE: Final = "tensor_core"
OP_TYPE: Final = "op_type"
GROUP_OP: Final = "group_op"
EXPERT_SYSTEMS: Final = "expert_systems"

SECTIONS: Final = {
    name.lower(): name for name in ("System Config", "Summary Report", "Iterations", "All Ops", "All Kernels")
}
"""Sections of the summary, by lower-case name, in DLProf's order."""

SIMPLE_OP: Final = "simple_mode_global_node"
"""Start of name and type of the one pseudo-op that stands for the whole process in simple mode."""

Dialect = Literal["csv", "json"]
PEEK_BYTES: Final = 16384  # the longest header seen has 700
_FIRST_KEY: Final = re.compile(r'\s*\{\s*"([^"\\]{1,40})"\s*:\s*([\[{])')
_SUMMARY_WORDS: Final = ("GPU Time (ns)", "Wall Clock Time (ns)", "Total Iterations", "GPU Count", "DLProf Version")
_ALIASES: Final = {"using tc": "uses tc", "data types": "data type", "calls": "no calls"}


class Layout(Struct, frozen=True):
    """One tabular report."""

    kind: str  # what tcprobe calls it; also the suffix of its file name
    titles: tuple[str, ...]  # its first line, in lower case
    needs: frozenset[str]  # columns without which it says nothing, as `canonical` writes them
    suffixes: tuple[str, ...] = ()  # ends of its file name in other versions
    # columns of whole numbers that differ from row to row, in a report of one row per launch
    times: frozenset[str] = frozenset()
    # columns that name a row, and figures that no other table holds, as DLProf writes them: `reported` has them
    rows: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


LAYOUTS: Final = (
    Layout(
        ITERATION,
        ("iteration report",),
        frozenset({"iteration", "kernel name", "gpu start time ns", "gpu duration ns"}),
        times=frozenset({"iteration", "gpu start time ns", "gpu duration ns", "api call start ns", "api call time ns"}),
    ),
    Layout(
        TENSOR_CORE,
        ("tensor core report",),
        frozenset({"op name", "tc gpu time ns"}),
        rows=("op id", "op name"),
        figures=(
            *("TC Utilization (%)", "Total GPU Time (ns)", "TC GPU Time (ns)", "Non-TC GPU Time (ns)"),
            *("Total Kernel Count", "TC Kernel Count", "Non-TC Kernel Count"),
        ),
    ),
    Layout(KERNEL, ("kernel report",), frozenset({"kernel name", "total gpu time ns"})),
    Layout(
        OP_TYPE,
        ("op type summary report",),
        frozenset({"op type", "# ops", "total gpu time ns"}),
        rows=("op type",),
        figures=(
            *("# Ops", "# Calls", "Total GPU Time (ns)", "Total CPU Time (ns)", "Total CPU Overhead (ns)"),
            "Total GPU Idle (ns)",
        ),
    ),
    Layout(DETAILED, ("all iterations",), frozenset({"op name", "total gpu time ns"})),
    Layout(
        GROUP_OP,
        ("group op report", "group node report"),
        frozenset({"name", "total gpu time ns"}),
        ("group_node",),
        rows=("name",),
        figures=(
            *("Num Calls Aggregated", "Num TC Eligible Ops", "Num Ops Using TC", "Total GPU Time (ns)"),
            "Total CPU Time (ns)",
        ),
    ),
    Layout(EXPERT_SYSTEMS, ("expert systems feedback",), frozenset({"problem", "recommendation"})),
)
_SUFFIXES: Final = (SUMMARY, *(s for layout in LAYOUTS for s in (layout.kind, *layout.suffixes)))


def canonical(header: str) -> str:
    """Return a header's name without case, punctuation and the spellings of versions.

    ``Avg. GPU Time (ns)`` and ``Avg GPU Time (ns)`` both give ``avg gpu time ns``.
    """
    words = " ".join(re.findall(r"[a-z0-9#%]+", header.lower()))
    return _ALIASES.get(words, words)


def by_title(title: str) -> Layout | None:
    """Return the layout whose first line (or JSON key) this is; None where none is."""
    wanted = title.strip().strip('"').strip().lower()
    return next((layout for layout in LAYOUTS if wanted in layout.titles), None)


def by_header(columns: Iterable[str]) -> Layout | None:
    """Return the layout that these canonical columns are enough for; None where none is.

    The feedback of the expert systems has too common a header to be told by it.
    """
    held = set(columns)
    return next((layout for layout in LAYOUTS if layout.needs <= held and layout.kind != EXPERT_SYSTEMS), None)


def profile_name(stem: str) -> str:
    """Return the profile's name from a file's stem: ``run1_op_type`` -> ``run1``."""
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if stem == suffix or stem.endswith(f"_{suffix}"):
            return stem[: -len(suffix)].rstrip("_")
    return stem


class ReportFile(Struct, frozen=True):
    """A file that looks like a report of DLProf's."""

    path: Path  # the file
    dialect: Dialect  # csv or json
    kind: str  # of the report, one of `layout`'s

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
    files = below(path, lambda name: name.lower().endswith((".csv", ".json"))).files
    return [found for candidate in files if (found := look(candidate))]


def look(path: Path) -> ReportFile | None:
    """Return what report a file is by its first bytes; None where it is none or cannot be read."""
    start = head(path, PEEK_BYTES) or b""
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
