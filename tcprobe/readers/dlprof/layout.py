"""Describe DLProf's reports (titles, file names, columns), and recognise one by its title or header.

DLProf 0.13 to 1.8 differ in which columns a report has and in their order, never in their names beyond
``Avg.``/``Avg`` and ``Using``/``Uses``; so columns are found by name, and a report by its title or header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

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

_ALIASES: Final = {"using tc": "uses tc", "data types": "data type", "calls": "no calls"}


@dataclass(frozen=True, slots=True)
class Layout:
    """One tabular report.

    Attributes:
        kind: what tcprobe calls it; also the suffix of its file name.
        titles: its first line, in lower case.
        needs: columns without which it says nothing, as `canonical` writes them.
        suffixes: ends of its file name in other versions.
        times: columns of whole numbers that differ from row to row, in a report of one row per launch.
    """

    kind: str
    titles: tuple[str, ...]
    needs: frozenset[str]
    suffixes: tuple[str, ...] = ()
    times: frozenset[str] = frozenset()


LAYOUTS: Final = (
    Layout(
        ITERATION,
        ("iteration report",),
        frozenset({"iteration", "kernel name", "gpu start time ns", "gpu duration ns"}),
        times=frozenset({"iteration", "gpu start time ns", "gpu duration ns", "api call start ns", "api call time ns"}),
    ),
    Layout(TENSOR_CORE, ("tensor core report",), frozenset({"op name", "tc gpu time ns"})),
    Layout(KERNEL, ("kernel report",), frozenset({"kernel name", "total gpu time ns"})),
    Layout(OP_TYPE, ("op type summary report",), frozenset({"op type", "# ops", "total gpu time ns"})),
    Layout(DETAILED, ("all iterations",), frozenset({"op name", "total gpu time ns"})),
    Layout(
        GROUP_OP,
        ("group op report", "group node report"),
        frozenset({"name", "total gpu time ns"}),
        ("group_node",),
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
