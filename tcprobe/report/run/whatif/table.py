"""The table of what-ifs: for each change the step that is predicted with it."""

from __future__ import annotations

from typing import Final

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead, Section
from tcprobe.report.run.whatif.words import legend, said
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.profile import Profile

LONGER: Final = " or longer"
LESS: Final = " or less"
FIGURES: Final = 3
"""Digits of a step, as of the step now beside it: with two, 5.2 ms of 5.25 ms would look like a gain."""


def what_if_table(profile: Profile, top: int | None) -> Section | None:
    """Return the table of changes and the steps predicted with them; None where nothing is predicted.

    The last row, of all changes together, always stands.
    """
    found = profile.what_ifs
    if not found:
        return None
    last = found[-1:] if found[-1].change == "together" else ()
    single = found[: len(found) - len(last)]
    shown = (*single[:top], *last)
    left = len(found) - len(shown)
    more = (f"({left:,} more; --top 0 shows all)",) if left else ()
    columns = _columns(shown)
    cells = tuple(tuple(column[row] for _, column in columns) for row in range(len(shown)))
    return Section("What if (predicted)", tuple(head for head, _ in columns), cells, (*more, *legend(shown)))


def _columns(shown: tuple[WhatIf, ...]) -> list[tuple[ColumnHead, list[Cell | str]]]:
    columns: list[tuple[ColumnHead, list[Cell | str]]] = [
        (ColumnHead("change", least=36), [said(one) for one in shown]),
        (
            ColumnHead("step now", right=True, rank=1),
            [Cell(f.duration(one.step_ns), one.step_ns, "ns") for one in shown],
        ),
        (ColumnHead("then", right=True), [_then(one) for one in shown]),
        (ColumnHead("likely", right=True), [_likely(one) for one in shown]),
        (ColumnHead(_saves(shown), right=True), [_gain(one) for one in shown]),
        (ColumnHead("throughput", right=True, rank=2), [_speed(one) for one in shown]),
        (ColumnHead("ops", right=True, rank=3), [Cell(f.count(one.ops), one.ops) for one in shown]),
        (ColumnHead("not predicted", right=True, rank=4), [_unpredicted(one) for one in shown]),
        (ColumnHead("source", rank=1, least=20, path=True), [f.any_text(one.source) for one in shown]),
    ]
    return [(head, cells) for head, cells in columns if any(str(cell) != f.NA for cell in cells)]


def _saves(shown: tuple[WhatIf, ...]) -> str:
    return "saves a step" if shown[0].step_ns is not None else "saves of the capture"


def _gain(one: WhatIf) -> Cell:
    return Cell(f.range_text(one.gain_ns), one.gain_ns.mid, "ns")


def _then(one: WhatIf) -> Cell:
    then = one.new_step_ns
    if then is None:
        return Cell(f.NA, None, "ns")
    return Cell(f"{f.range_text(then, FIGURES)}{LONGER if one.may_cost else ''}", then.mid, "ns")


def _likely(one: WhatIf) -> Cell:
    ns = None if one.new_step_ns is None else one.new_step_ns.mid
    return Cell(f.duration(ns), ns, "ns")


def _speed(one: WhatIf) -> Cell:
    speed = one.throughput
    if speed is None:
        return Cell(f.NA, None)
    low, high = (f.full_number(value, 3) for value in (speed.then.low, speed.then.high))
    then = low if low == high else f"{low}-{high}"
    unit = f" {speed.unit}" if speed.unit else ""
    return Cell(f"{f.full_number(speed.now, 3)} -> {then}{unit}{LESS if one.may_cost else ''}", speed.then.mid)


def _unpredicted(one: WhatIf) -> Cell:
    return Cell(f.count(one.unpredicted) if one.unpredicted else f.NA, one.unpredicted)
