"""Findings about code that several audited files use: each is told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcprobe.schema.finding import SEVERITIES, Audited, Finding
from tcprobe.schema.finding_kinds import COST_UNKNOWN
from tcprobe.schema.statement import parts


def told_once(audited: Sequence[Audited]) -> list[Audited]:
    """Return audits in which each finding about code that several files use stands once: where it matters most.

    Of equal severity, one of known cost stands before one of unknown cost. Where nobody knows what it costs, it stands
    with the file of its own place.
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
    return finding.code, finding.place, finding.layer_class, finding.dimension, finding.size


def _weight(rival: tuple[Audited, Finding]) -> tuple[int, bool, bool, float, bool]:
    one, finding = rival
    saved = finding.saving_ns
    severity = -SEVERITIES.index(finding.severity or "note")
    known = not any(part.kind in COST_UNKNOWN for part in parts(finding.why))
    own = finding.place is not None and finding.place.file == one.file
    return severity, known, saved is not None, saved.mid if saved is not None else 0.0, own
