"""Which findings comments silence, and which comments silence nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Unseen
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.source.source import Source

Unused: TypeAlias = tuple[Place, str]


def silenced(
    found: Iterable[tuple[Finding, ...]], sources: Mapping[str, Source], unseen: list[Unseen]
) -> tuple[frozenset[Finding], tuple[Unused, ...]]:
    """Return the findings that comments silence, and the comments that silence nothing.

    Comments are judged by everything the rules found, before an option leaves anything out.
    """
    commented = {path: source for path, source in sources.items() if _may_silence(source.text)}
    if not commented:
        return frozenset(), ()
    from tcprobe.audit.suppress import judge

    judged = judge(tuple(dict.fromkeys(f for findings in found for f in findings)), commented, unseen)
    return frozenset(judged.suppressed), tuple((_placed(place, sources), text) for place, text in judged.unused)


def _placed(place: Place, sources: Mapping[str, Source]) -> Place:
    return replace(place, in_cell=sources[place.file].in_cell(place.line))


def _may_silence(text: str) -> bool:
    """Say whether a file may have a suppressing comment; most have none and need not be tokenised."""
    lower = text.lower()
    return "noqa" in lower or "tcprobe:" in lower
