"""The changes of sizes of a run that are likely to pay: of the next size, and of few filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.whatif.parts import StepParts
from tcprobe.rules.model.bad import Bad
from tcprobe.rules.model.links import Linked
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.shares import Saved, shared_out
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS
from tcprobe.rules.model.step import Changes, ProductTime, added
from tcprobe.rules.run.base import CHOSEN
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind

_Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change of one dimension of a layer, and what follows from it.

    Attributes:
        kind: change_size or slice_filters.
        row: of `bad_sizes`.
        changes: what is made of another size, the layer's own first.
        saved: its part, in ns a step, of what all changes of sizes save together.
        alone: whether it pays without a change of precision.
    """

    kind: ChangeKind
    row: Row
    changes: Changes
    saved: Range
    alone: bool = True


def size_changes(judged: JudgedStep, rows: Table, parts: StepParts) -> list[SizeChange]:
    """Return the changes of sizes that are advised, and those that would be if the precision were lowered.

    What takes a size, and is not aligned for it, changes with it where only one layer of the run puts out such a size:
    a run does not tell what feeds what. Where several do, the taker changes when all sizes do.

    Args:
        judged: the step whose sizes were judged.
        rows: `bad_sizes`.
        parts: the time of each product.
    """
    known = {_key_of_row(row): row for row in rows.rows()}
    times = {i: ProductTime(part.ns, part.ns) for i, part in enumerate(parts.products[: len(judged.run.timed)])}
    bads = [bad for bad in settled_sizes(judged.step) if bad.linked is not None and _key(bad) in known]
    saved = shared_out(judged.step.timed_as(times), [bad.linked for bad in bads if bad.linked])
    found = [
        _change(*kind, bad, _followers(bad, bads, known), known, saved)
        for bad in bads
        if (kind := _kind(known[_key(bad)], bad, parts)) is not None
    ]
    return sorted(
        found, key=lambda made: (str(made.row["layer"]), str(made.row["dimension"]), int(made.row["size"] or 0))
    )


def _key(bad: Bad) -> _Key:
    return bad.dimension.layer, bad.dimension.name, bad.dimension.size


def _key_of_row(row: Row) -> _Key:
    return str(row["layer"]), str(row["dimension"]), int(row["size"] or 0)


def _kind(row: Row, bad: Bad, parts: StepParts) -> tuple[ChangeKind, bool] | None:
    """Return what would change, and whether it pays without a change of precision.

    None where the size is best left, or follows from another. Few filters pay alone where a library left the Tensor
    Cores for them; in 16 bits it may.
    """
    advice = row["advice_kind"]
    if bad.is_image:
        kinds = {kind for index in bad.dimension.products for kind in parts.products[index].blockers}
        alone = advice == "slice" and not kinds.isdisjoint(CHOSEN)
        return ("slice_filters", alone) if advice in ("slice", "float32") else None
    if advice == "float32":
        return None if bad.dimension.name in INPUTS else ("change_size", False)
    return ("change_size", True) if advice in ("change", None) else None


def _change(
    kind: ChangeKind,
    alone: bool,
    bad: Bad,
    followers: list[Bad],
    rows: Mapping[_Key, Row],
    saved: Mapping[Linked, Saved],
) -> SizeChange:
    links = [one.linked for one in (bad, *followers) if one.linked]
    changes = tuple(dict.fromkeys(change for linked in links for change in linked.changes))
    gained = added(saved[linked].ns for linked in links if linked in saved)
    return SizeChange(kind, rows[_key(bad)], changes, gained, alone)


def _followers(bad: Bad, bads: Iterable[Bad], known: Mapping[_Key, Row]) -> list[Bad]:
    """Return the sizes that surely follow from what a layer puts out, as no other puts out the same."""
    dimension = bad.dimension
    if dimension.name not in OUTPUTS or bad.is_image:
        return []
    like = [other for other in bads if other.dimension.size == dimension.size and other.suggested == bad.suggested]
    sources = {other.dimension.layer for other in like if other.dimension.name in OUTPUTS}
    takers = [other for other in like if other.dimension.name in INPUTS and _follows(known[_key(other)])]
    return [taker for taker in takers if sources - {taker.dimension.layer} == {dimension.layer}]


def _follows(row: Row) -> bool:
    return row["advice_kind"] in ("change_before", "float32")
