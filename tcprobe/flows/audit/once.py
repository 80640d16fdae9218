"""Findings about code that several audited files use: each is told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcprobe.schema.finding import Audited, Finding


def told_once(audited: Sequence[Audited]) -> list[Audited]:
    """Return audits in which each finding about code that several files use stands once: where it costs most.

    Where nobody knows what it costs, it stands with the file of its own place.
    """
    found: dict[tuple[object, ...], list[tuple[Audited, Finding]]] = {}
    for one in audited:
        for finding in one.findings:
            found.setdefault(_about(finding), []).append((one, finding))
    dropped: dict[int, set[Finding]] = {}
    for rivals in found.values():
        if len({one.file for one, _ in rivals}) > 1:
            best = max(rivals, key=_weight)
            for one, finding in rivals:
                if one is not best[0]:
                    dropped.setdefault(id(one), set()).add(finding)
    return [
        replace(one, findings=tuple(f for f in one.findings if f not in dropped[id(one)]))
        if id(one) in dropped
        else one
        for one in audited
    ]


def _about(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.place, finding.layer_class, finding.dimension, finding.size, finding.suggested


def _weight(rival: tuple[Audited, Finding]) -> tuple[bool, float, bool]:
    one, finding = rival
    saved = finding.saving_ns
    own = finding.place is not None and finding.place.file == one.file
    return saved is not None, saved.mid if saved is not None else 0.0, own
