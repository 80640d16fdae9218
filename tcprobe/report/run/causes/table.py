"""The table of where a step goes: its parts, the causes in each, and what is costliest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead, Section
from tcprobe.report.run import words as run_words
from tcprobe.report.run.causes.words import CAUSE_WORDS, GROUP_WORDS, MARKS
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import CAUSE_GROUPS, CauseGroup, CauseKind
from tcprobe.schema.profile import Profile

WIDTH: Final = 60  # characters of the bar


@dataclass(frozen=True, slots=True)
class Part:
    """One cause, the mean over the GPUs that ran kernels.

    Attributes:
        group, cause: what it is.
        share_pct: of the window, else of all kernel time.
        low_pct, high_pct: least and most over the GPUs.
        step_ns: of a step; None where none is known.
        launches: kernels, over all GPUs; None where unknown, or it has none.
        row: of the GPU on which it takes most.
    """

    group: CauseGroup
    cause: CauseKind
    share_pct: float
    low_pct: float
    high_pct: float
    step_ns: float | None
    launches: float | None
    row: Row


def cause_table(profile: Profile) -> Section | None:
    """Return the table of where the time goes; None where no kernel has a cause."""
    found = parts(profile)
    if not found:
        return None
    gpus = _gpus(profile)
    waiting = profile.waiting
    of_steps = profile.counted_steps is not None or (waiting is not None and waiting.length == "reported")
    each = "a step" if of_steps else "time"
    columns = [
        (head, cells) for head, cells in _columns(found, gpus, each) if any(str(c) not in ("", f.NA) for c in cells)
    ]
    cells = tuple(zip(*(column for _, column in columns), strict=True))
    return Section(_title(profile, gpus), tuple(head for head, _ in columns), cells, _notes(found, profile))


def parts(profile: Profile) -> list[Part]:
    """Return each cause of the table `causes`, in its order, the mean over GPUs."""
    members: dict[tuple[CauseGroup, CauseKind], list[Row]] = {}
    for row in profile.require("causes").rows():
        key = cast(CauseGroup, row["group"]), cast(CauseKind, row["cause"])
        members.setdefault(key, []).append(row)
    gpus = _gpus(profile)
    made = [_part(group, cause, rows, gpus) for (group, cause), rows in members.items()]
    order = list(CAUSE_GROUPS)
    return sorted(made, key=lambda part: (order.index(part.group), -part.share_pct, part.cause))


def _gpus(profile: Profile) -> int:
    return len({row["device"] for row in profile.require("causes").rows()}) or 1


def _part(group: CauseGroup, cause: CauseKind, rows: Sequence[Row], gpus: int) -> Part:
    shares = [float(row["share_pct"] or 0) for row in rows] + [0.0] * (gpus - len(rows))
    steps = [row["step_ns"] for row in rows]
    launches = [row["launches"] for row in rows if row["launches"] is not None]
    return Part(
        group, cause, sum(shares) / gpus, min(shares), max(shares),
        None if None in steps else sum(float(ns or 0) for ns in steps) / gpus,
        sum(float(count or 0) for count in launches) if launches else None,
        max(rows, key=lambda row: float(row["sum_ns"] or row["split_ns"] or 0)),
    )  # fmt: skip


def _title(profile: Profile, gpus: int) -> str:
    several = f"; mean of {gpus} GPUs" if gpus > 1 else ""
    length = _length_ns(profile)
    if not any(row["split_ns"] is not None for row in profile.require("causes").rows()):
        return f"Where the kernel time goes{f' ({several[2:]})' if several else ''}"
    steps = profile.counted_steps
    if steps is None:
        return f"Where the time goes (of the {f.duration(length)} captured{several})"
    return f"Where a step goes (of {f.duration(length / steps)} a step in the window{several})"


def _length_ns(profile: Profile) -> float:
    """Return the time that the parts of one GPU add up to."""
    rows = list(profile.require("causes").rows())
    first = rows[0]["device"]
    return sum(float(row["split_ns"] or 0) for row in rows if row["device"] == first)


def _columns(found: Sequence[Part], gpus: int, each: str) -> list[tuple[ColumnHead, list[Cell | str]]]:
    first = [at == 0 or found[at - 1].group != part.group for at, part in enumerate(found)]
    whole = {g: sum(p.share_pct for p in found if p.group == g) for g in {p.group for p in found}}
    return [
        (ColumnHead("part", least=27, wraps=True), [
            f"{MARKS[p.group]} {GROUP_WORDS[p.group]}" if new else "" for p, new in zip(found, first, strict=True)
        ]),
        (ColumnHead("in all", right=True), [
            Cell(f.percent(whole[p.group]) if new else "", whole[p.group], "pct")
            for p, new in zip(found, first, strict=True)
        ]),
        (ColumnHead("why", least=26, wraps=True), [Cell(CAUSE_WORDS[p.cause] or f.NA, p.cause) for p in found]),
        (ColumnHead("share", right=True), [Cell(f.percent(p.share_pct), p.share_pct, "pct") for p in found]),
        (ColumnHead("over GPUs", right=True, rank=3), [_range(p) if gpus > 1 else f.NA for p in found]),
        (ColumnHead(each, right=True), [Cell(f.duration(p.step_ns), p.step_ns, "ns") for p in found]),
        (ColumnHead("kernels", right=True, rank=5), [Cell(f.count(p.launches), p.launches) for p in found]),
        (ColumnHead("costliest", least=28, rank=1), [_costliest(p) for p in found]),
        (ColumnHead("its kernel", least=28, rank=4), [f.any_text(p.row["kernel"]) for p in found]),
        (ColumnHead("source", least=20, rank=2, path=True), [f.any_text(p.row["source"]) for p in found]),
    ]  # fmt: skip


def _range(part: Part) -> str:
    return f.percents(part.low_pct, part.high_pct)


def _costliest(part: Part) -> str:
    row = part.row
    return f.NA if row["op"] is None else run_words.where(row["layer"], row["op"], row["pass"])


def _notes(found: Sequence[Part], profile: Profile) -> tuple[str, ...]:
    """Return the bar, and what it is of."""
    several = "while several kernels run, each has an equal part of the time"
    split = any(row["split_ns"] is not None for row in profile.require("causes").rows())
    return (f"[{bar(found)}]", *([several] if split else []))


def bar(found: Sequence[Part]) -> str:
    """Return the parts as one line of `WIDTH` characters, each by its mark; rounded in sum, not apart."""
    total = sum(part.share_pct for part in found)
    if total <= 0:
        return ""
    line, passed, drawn = "", 0.0, 0
    for part in found:
        passed += part.share_pct
        end = round(WIDTH * passed / total)
        line += MARKS[part.group] * (end - drawn)
        drawn = end
    return line
