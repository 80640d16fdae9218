"""The ranks of a job in words: their table, and their lines on the first screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tcprobe import formatting as f
from tcprobe.report.document import Cell, TextLine, TextPart, line_of
from tcprobe.report.fields import cell_of, field_of, name_of, number_of, sentence_of
from tcprobe.report.run.time_views import View
from tcprobe.rules.words import listed
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import HOST_WORK

HELD: Final[Mapping[str, str]] = {
    "kernels": "its kernels",
    "between two": "calls between two ranks",
    **{str(work): text for work, text in HOST_WORK.items()},
}
"""What takes a rank longer than the others."""
MOST_NAMED: Final = 6
_LABEL: Final = 29  # columns of the screen's first


class _Shown(NamedTuple):
    """A column of the screen."""

    head: str
    width: int
    column: str  # of `ranks`
    of: str | None = None  # what a share is taken of; None: it is shown as it is


_COLUMNS: Final = (
    _Shown("a step", 10, "step_ns"),
    _Shown("busy", 6, "gpu_busy_pct"),
    _Shown("exposed", 9, "exposed_ns", "window_ns"),
    _Shown("waits for all", 14, "waited_ns"),
    _Shown("comes last", 12, "last", "collectives"),
)


def _share(row: Row, column: str, of: str = "window_ns") -> Cell:
    part, whole = row[column], row[of]
    share = 100.0 * float(part) / float(whole) if part is not None and whole else None
    return Cell(f.percent(share), share, "pct")


def _tc(row: Row) -> Cell:
    total, on_tc, unknown = (float(row[c] or 0) for c in ("kernel_ns", "tc_ns", "unknown_ns"))
    if row["tc_ns"] is None or not total:
        return Cell(f.NA, None)
    return Cell(f.percents(100.0 * on_tc / total, 100.0 * (on_tc + unknown) / total), 100.0 * on_tc / total, "pct")


def _held(row: Row) -> Value:
    return f"{HELD[str(row['held_by'])]}, {f.duration(row['held_ns'])} longer" if row["held_by"] else None


RANK_VIEW = View(
    "ranks",
    "Ranks",
    (
        number_of("rank", "rank"),
        field_of("state", "state"),
        name_of("host", "host", 3),
        number_of("GPUs", "gpus", 4),
        number_of("a step", "step_ns"),
        number_of("GPU busy", "gpu_busy_pct"),
        number_of("kernel time", "kernel_ns", 1),
        cell_of("TC share", _tc, 1, right=True),
        cell_of("exposed communication", lambda row: _share(row, "exposed_ns"), right=True),
        number_of("of it", "exposed_ns", 4),
        name_of("most of it in", "exposed_op", 3),
        number_of("waits for the last rank", "waited_ns"),
        cell_of("comes last", lambda row: _share(row, "last", "collectives"), right=True),
        number_of("collectives", "collectives", 5),
        number_of("time in them", "collective_ns", 5),
        field_of("holds others up", "straggler", 2),
        sentence_of("what takes it longer", _held, 2),
        field_of("waits besides for", "wait", 3, show=lambda work: HOST_WORK.get(work, f.NA), wraps=True),
        number_of("that time", "wait_ns", 5),
        number_of("first GPU", "first_device", 6),
        number_of("clock off by", "clock_offset_ns", 6),
        number_of("and then by", "clock_residual_ns", 6),
        name_of("file", "source", 4),
        sentence_of("why not read", "why", 2),
    ),
    order=(),
)


def rank_lines(profile: Profile, most: int) -> Iterator[TextLine]:
    """Yield the lines of the ranks on the first screen: those that hold others up first; none of one process.

    Args:
        profile: of a job, or of one process.
        most: lines for ranks.
    """
    rows = list(profile.require("ranks").rows())
    read = [row for row in rows if row["state"] == "read"]
    if not rows:
        return
    late = [row for row in read if row["straggler"]]
    others = [row for row in read if not row["straggler"]]
    if len(read) <= most:
        groups = [[row] for row in read]
    else:
        groups = [[row] for row in late] if len(late) < most else [late]
        groups += [others] if others else []
    columns = [one for one in _COLUMNS if any(row[one.column] is not None for row in read)]
    captured = any(row["step_length"] == "capture" for row in read)
    heads = (f"{'captured' if captured and one.head == 'a step' else one.head:>{one.width}}" for one in columns)
    yield _line(TextPart(_title(rows, read), "strong"), heads)
    for group in groups:
        figures = (f"{_figure(group, one):>{one.width}}" for one in columns)
        yield _line(TextPart(_label(group), "bad" if group[0]["straggler"] else "plain"), figures)
    if late and (said := _sentence(late, read)):
        yield line_of(f"  {said}")


def _title(rows: Sequence[Row], read: Sequence[Row]) -> str:
    return f"Ranks, {len(read)} of {len(rows)}" if len(read) < len(rows) else f"Ranks, {len(rows)}"


def _line(label: TextPart, figures: Iterable[str]) -> TextLine:
    return line_of(label, " " * max(_LABEL - len(label.text), 1) + "".join(figures))


def _label(group: Sequence[Row]) -> str:
    named = listed([_number(row) for row in group]) if len(group) <= MOST_NAMED else f"{len(group):,} ranks"
    late = bool(group[0]["straggler"])
    several = ", median" if len(group) > 1 and not late else ""
    one, holds = len(group) == 1, group[0]["waited_ns"] is not None
    what = f"hold{'s' * one} the others up" if holds else f"{'has' if one else 'have'} longer steps"
    return f"  {named}{several}" + (f" {what}" if late else "")


def _number(row: Row) -> str:
    return "?" if row["rank"] is None else str(row["rank"])


def _figure(group: Sequence[Row], shown: _Shown) -> str:
    """Return what a rank, or the median of several, has in a column."""
    pairs = [(row[shown.column], row[shown.of] if shown.of else 1.0) for row in group]
    known = [float(part) / float(whole) for part, whole in pairs if part is not None and whole]
    if not known:
        return "-"
    if shown.of is None and shown.column.endswith("_ns"):
        return f.duration(float(np.median(known)))
    return f.whole_percent(float(np.median(known)) * (100.0 if shown.of else 1.0))


def _sentence(late: Sequence[Row], read: Sequence[Row]) -> str:
    """Return how long others wait for those that hold them up, and what takes the worst of these longer."""
    waits = [float(row["waited_ns"]) for row in read if not row["straggler"] and row["waited_ns"] is not None]
    kept = f"Others wait {f.duration(float(np.median(waits)))}" if waits else ""
    worst = max(late, key=lambda row: float(row["held_ns"] or 0))
    if not worst["held_by"]:
        return kept
    why = f"what takes rank {_number(worst)} longer: {HELD[str(worst['held_by'])]}, {f.duration(worst['held_ns'])}"
    return "; ".join(part for part in (kept, why) if part)
