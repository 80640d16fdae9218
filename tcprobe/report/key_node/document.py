"""The document of a search for a key node: candidates, what only seems to be one, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tcprobe import __version__
from tcprobe.report.blocks import (
    Block,
    Cell,
    ColumnHead,
    Facts,
    Heading,
    LeftOut,
    Lines,
    Remark,
    Remarks,
    Section,
    TextLine,
    TextPart,
)  # fmt: skip
from tcprobe.report.document import DataTable
from tcprobe.report.formatting import NA, any_text, count, duration
from tcprobe.report.key_node.words import ENDS_AT, SELDOM, UNSURE, UNSURE_REMEDY, fires, next_command, reasons, steps_of
from tcprobe.schema.columns import Value
from tcprobe.schema.key_nodes.found import Candidate, KeyNodes
from tcprobe.schema.key_nodes.kinds import StepsBasis

ROWS: Final = 10
OTHERS: Final = 5
COLUMNS: Final = (
    *("rank", "key", "kind", "op_id", "name", "op_type", "domain", "cadence", "every", "calls", "steps"),
    *("steps_basis", "seen_in_each_step", "position_pct", "gap_cv", "gpu_ns", "merits", "flaws"),
)


@dataclass(frozen=True, slots=True)
class KeyNodeDocument:
    """What a search found, as a `tcprobe.report.document.Document`.

    Attributes:
        found: with a candidate.
        path: the profile that was searched.
        words: the workload that was run for it; empty where a profile was given.
        top: rows of the table; 0 shows all, None 10 to people and all to programs.
    """

    found: KeyNodes
    path: str
    words: tuple[str, ...] = ()
    top: int | None = None

    def screen(self) -> list[Block]:
        """Return steps, candidates, what is none, and as the last line what to type."""
        rest = LeftOut("--width 0 or --format csv shows all")
        return [self._facts(), *self._tables(), *self._unsure(), rest, Lines((self._next("plain"),))]

    def page(self) -> list[Block]:
        """Return the same under a title."""
        facts, tables = self._facts(), self._tables()
        return [Heading("Key node", 1), facts, *tables, *self._unsure(), Lines((self._next("code"),))]

    def data(self) -> dict[str, Any]:
        """Return all as raw values; kinds are words of closed lists."""
        found, limit = self.found, self.top or None
        return {
            "schema": 1,
            "tcprobe": __version__,
            "path": self.path,
            "format": found.format,
            "steps": found.steps,
            "steps_basis": found.basis,
            "ops_that_agree": found.agreeing,
            "ops_weighed": found.among,
            "candidates": [_as_dict(self, c, n) for n, c in enumerate(found.candidates[:limit], 1)],
            "not_once_per_step": [_as_dict(self, c, None) for c in found.others[:limit]],
            "next": next_command(found, self.words, self.path),
        }

    def tables(self) -> Iterator[DataTable]:
        """Return the one table."""
        yield self.table()

    def table(self) -> DataTable:
        """Return candidates, best first, then what fires more or less often, which has no rank."""
        found, limit = self.found, self.top or None
        ranked = [(c, n) for n, c in enumerate(found.candidates[:limit], 1)]
        rows = [*ranked, *((c, None) for c in found.others[:limit])]
        return DataTable("key_nodes", COLUMNS, lambda: [_row(self, c, rank) for c, rank in rows])

    def _facts(self) -> Facts:
        best = self.found.best
        shown = "none" if best is None else best.fired.key
        what = "step range" if best is not None and best.fired.what == "range" else "key node"
        return Facts((("profile", self.path), ("steps", steps_of(self.found)), (what, shown)))

    def _tables(self) -> Iterator[Section]:
        limit = ROWS if self.top is None else self.top or None
        yield _candidates(self.found, limit)
        others = self.found.others
        if others:
            yield _others(others, OTHERS if self.top is None else limit)

    def _unsure(self) -> Iterator[Remarks]:
        best = self.found.best
        if best is not None and not best.seen and self.found.basis == "calls":
            yield Remarks((Remark("note", UNSURE, UNSURE_REMEDY),))

    def _next(self, style: Any) -> TextLine:
        command = next_command(self.found, self.words, self.path)
        return TextLine((TextPart("Next: "), TextPart(command, style)))


def _candidates(found: KeyNodes, limit: int | None) -> Section:
    shown = found.candidates[:limit]
    ids, timed = any(c.fired.op_id for c in shown), any(c.position is not None for c in shown)
    gpu = any(c.fired.gpu_ns is not None for c in shown)
    ranges = all(c.fired.what == "range" for c in shown)
    heads = [
        (True, ColumnHead("#", right=True)),
        (ids, ColumnHead("Op ID")),
        (True, ColumnHead("Range" if ranges else "Op Name", least=24)),
        (True, ColumnHead("Type", rank=2)),
        (True, ColumnHead("Calls", right=True)),
        (timed, ColumnHead("Ends at", right=True, rank=1)),
        (gpu, ColumnHead("GPU time", right=True, rank=2)),
        (True, ColumnHead("Why", rank=1, wraps=True)),
    ]
    cells = [
        tuple(cell for (wanted, _), cell in zip(heads, _cells(c, n, found.basis), strict=True) if wanted)
        for n, c in enumerate(shown, 1)
    ]
    title = f"Once in each step ({len(shown):,} of {len(found.candidates):,})"
    return Section(title, tuple(head for wanted, head in heads if wanted), tuple(cells), (ENDS_AT,) if timed else ())


def _cells(candidate: Candidate, rank: int, basis: StepsBasis | None) -> tuple[Cell | str, ...]:
    fired, position = candidate.fired, candidate.position
    return (
        Cell(str(rank), rank),
        fired.op_id or NA,
        fired.name,
        any_text(fired.op_type),
        Cell(count(fired.calls), fired.calls),
        Cell(NA if position is None else f"{position * 100:.0f} %", position),
        Cell(duration(fired.gpu_ns), fired.gpu_ns, "ns"),
        reasons(candidate, basis),
    )


def _others(others: Sequence[Candidate], limit: int | None) -> Section:
    ids = any(c.fired.op_id for c in others[:limit])
    heads = [(ids, ColumnHead("Op ID")), (True, ColumnHead("Name", least=24)), (True, ColumnHead("Type", rank=2))]
    heads += [(True, ColumnHead("Calls", right=True)), (True, ColumnHead("Fires", wraps=True))]
    rows: list[tuple[Cell | str, ...]] = []
    for one in others[:limit]:
        fired = one.fired
        cells = (fired.op_id or NA, fired.name, any_text(fired.op_type), Cell(count(fired.calls), fired.calls))
        row: tuple[Cell | str, ...] = (*cells, fires(one.cadence, one.every))
        rows.append(tuple(cell for (wanted, _), cell in zip(heads, row, strict=True) if wanted))
    title = f"No key nodes: not once in each step ({len(rows):,} of {len(others):,})"
    notes = (SELDOM,) if any(one.cadence == "per_epoch" for one in others[:limit]) else ()
    return Section(title, tuple(head for wanted, head in heads if wanted), tuple(rows), notes)


def _row(document: KeyNodeDocument, one: Candidate, rank: int | None) -> tuple[Value, ...]:
    fired, found, position = one.fired, document.found, one.position
    return (
        *(rank, fired.key, fired.what, fired.op_id, fired.name, fired.op_type, fired.domain),
        *(one.cadence, one.every, fired.calls, found.steps, found.basis, one.seen),
        *(None if position is None else position * 100, one.gap_cv, fired.gpu_ns),
        *(" ".join(one.merits), " ".join(one.flaws)),
    )


def _as_dict(document: KeyNodeDocument, one: Candidate, rank: int | None) -> dict[str, Any]:
    row = dict(zip(COLUMNS, _row(document, one, rank), strict=True))
    return {**row, "merits": list(one.merits), "flaws": list(one.flaws)}
