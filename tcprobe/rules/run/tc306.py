"""TC306: finds layers whose sizes make their kernels slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.base import SHAPES, RunSubject, SizeRow, text, to_change
from tcprobe.rules.run.savings import may_pay, of_layer, saving_of_rows, sized
from tcprobe.schema.advice import Advice, Concern, ShareOf, Where
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC306",
    name="sizes-cost-time",
    summary="Sizes of a layer are no multiples of 8, and cost time in this run.",
    explanation=(
        "A Tensor Core kernel wants contiguous dimensions that are multiples of 16 bytes: 8 elements of 16 bits. Other "
        "sizes run on slower kernels, and on some GPUs and libraries on none that uses Tensor Cores. TC101 finds the "
        "same in a model that has not run; here the kernels' own times weigh it.\n\n"
        "Each layer is one item, with all its sizes that are worth changing and what that is predicted to save, as a "
        "share of its measured time where it was measured. Sizes to leave alone (the channels of an image, small "
        "heads) are not listed."
    ),
    severity="it counts the predicted saving; where none is predicted, the kernel time concerned at most.",
    bad="layer = keras.layers.Dense(3087)\n",
    good="layer = keras.layers.Dense(3088)\n",
    sources=(
        "cuBLAS documentation, section Tensor Core Usage",
        "docs/cost-model.md: the rates of unaligned products, and how far predictions of them are off",
    ),
)


def _change(fields: Mapping[str, Any]) -> str:
    first, *rest = fields["sizes"]
    also = "".join(f" and {row.dimension} from {row.size} to {row.next_size}" for row in rest)
    return f"Change {first.dimension} of {{layer}} from {first.size} to {first.next_size}{also}{{line}}"


SAYS: Final[Says] = {
    "change_size": _change,
    "align_sizes": lambda fields: f"Make the sizes multiples of 8{' (see Badly sized)' if fields['listed'] else ''}",
}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item per layer to change, and one for the ops whose sizes no row tells."""
    layers: dict[str | None, list[SizeRow]] = {}
    for row in subject.sizes:
        if to_change(row) and not (row["share_pct"] is None and row["flops_pct"] is None):
            layers.setdefault(text(row["layer"]), []).append(row)
    for rows in layers.values():
        if may_pay(rows):
            yield _of_layer(subject, rows)
    if ops := subject.blocked(*SHAPES):
        yield subject.item(DOC.code, "align_sizes", ops, listed=bool(subject.sizes))


def _of_layer(subject: RunSubject, rows: list[SizeRow]) -> Advice:
    """Return the item on the sizes of one layer, the costliest first."""
    first = rows[0]
    where = Where(layer=text(first["layer"]), source=text(first["source"]))
    saving = of_layer(subject, "change_size", rows) or saving_of_rows(subject, rows)
    sizes, effect = sized(rows)
    drawn = frozenset([str(first["layer"])])
    return Advice(DOC.code, say("change_size"), _concern(subject, first), where, saving, None, sizes, effect, drawn)


def _concern(subject: RunSubject, row: SizeRow) -> Concern:
    """Return how much of a step the costliest size of a layer concerns."""
    if row["share_pct"] is None:
        of: ShareOf = "known_flops" if row["flops_at_most"] else "flops"
        return subject.concern(float(row["flops_pct"] or 0), of, None)
    spent = None if row["kernel_ns"] is None else float(row["kernel_ns"])
    return subject.concern(float(row["share_pct"]), "kernel_time", spent)
