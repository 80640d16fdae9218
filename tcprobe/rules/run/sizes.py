"""TC306, TC307, TC308: sizes that make kernels slow, few filters, and kernels that a library chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tcprobe.gemm.ops import conv_like
from tcprobe.rules.base import Says
from tcprobe.rules.model.sizes import grouped
from tcprobe.rules.run.base import SHAPES, Run, names_of, summed, text, to_change
from tcprobe.rules.run.savings import followers, may_pay, of_sizes, share_of, size_key, sized
from tcprobe.rules.words import MAY_LEAVE, kept, output_channels
from tcprobe.schema.advice import Advice, Concern, ShareOf, SizeChange, Where
from tcprobe.schema.kinds import Blocker, SizeAdvice
from tcprobe.schema.statement import Both, say

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

PASSES: Final = {"wgrad": "weight gradient", "dgrad": "input gradient", "forward": "forward pass"}


def _change_size(sizes: Sequence[SizeChange], others: int, layer: str, line: str, **_: Any) -> str:
    first, *rest = sizes
    if others:
        also = f"{others} other op{'s' * (others > 1)}"
        return f"Change {first.dimension} of {layer} and {also} from {first.size} to {first.next_size}{line}"
    also = "".join(f" and {row.dimension} from {row.size} to {row.next_size}" for row in rest)
    return f"Change {first.dimension} of {layer} from {first.size} to {first.next_size}{also}{line}"


def _slice_filters(
    sizes: Sequence[SizeChange], blocker: Blocker | None, effect: SizeAdvice | None, layer: str, line: str, **f: Any
) -> Both:
    count = sizes[0].size
    order = f"Give {layer} 8 filters, keep {kept(count)} (slice) and measure{line}"
    channels = output_channels(count)
    if blocker is None:
        return Both(order, f"{channels}{f': {MAY_LEAVE}' if effect and effect.sixteen_bit else ''}")
    ran = f"{channels}: cuDNN runs its {PASSES.get(f['pass_'], 'convolution')} on a CUDA-core kernel"
    return Both(order, ran + (f", {blocker.kernel}" if blocker.kernel else ""))


def _library(convolution: bool, compiled: bool, **_: Any) -> str:
    ways = ["8 or more channels", "NHWC layout"] if convolution else ["larger sizes or a larger batch"]
    ways += [] if compiled else ["XLA"]
    listed = ", ".join(ways[:-1]) + ("," * (len(ways) > 2)) + " or " * (len(ways) > 1) + ways[-1]
    return f"Try {listed}; then compare step times"


SAYS: Final[Says] = {
    "change_size": _change_size,
    "align_sizes": lambda listed, **_: f"Make the sizes multiples of 8{' (see Badly sized)' if listed else ''}",
    "slice_filters": _slice_filters,
    "library": _library,
}


def tc306(run: Run) -> Iterator[Advice]:
    """Yield one item per layer to change, one per size that ops outside layers share, one for ops of no row."""
    costly = [row for row in run.sizes if row["share_pct"] is not None or row["flops_pct"] is not None]
    after = followers(run.sizes)
    for rows in grouped((_number(row), row) for row in costly if to_change(row)).values():
        follow = [other for row in rows for other in after.get(size_key(row), ()) if other["saving_ns"] is not None]
        if may_pay([*rows, *follow]):
            yield _of_layer(run, rows, follow)
    if ops := run.blocked(*SHAPES):
        yield run.item("TC306", "align_sizes", ops, listed=bool(run.sizes))


def _number(row: Row) -> tuple[object, ...]:
    """Return what a row's size is changed with: its layer's others; outside layers, where they are of one number."""
    return (row["layer"],) if row["layer_class"] is not None else (row["size"], row["next_size"])


def _of_layer(run: Run, rows: Sequence[Row], follow: Sequence[Row]) -> Advice:
    """Return the item on the sizes of one layer, or on one size of several ops, the costliest first."""
    first = rows[0]
    where = Where(layer=text(first["layer"]), source=text(first["source"]))
    saving = of_sizes(run, "change_size", rows, follow)
    drawn = frozenset(str(row["layer"]) for row in (*rows, *follow))
    others = len({row["layer"] for row in rows}) - 1
    sizes, effect = sized(rows[:1] if others else rows)
    concern = _concern(run, rows)
    return Advice("TC306", say("change_size", others=others), concern, where, saving, None, sizes, effect, drawn)


def _concern(run: Run, rows: Sequence[Row]) -> Concern:
    """Return how much of a step the costliest size of each layer concerns."""
    each = [group[0] for group in grouped((row["layer"], row) for row in rows).values()]
    if each[0]["share_pct"] is None:
        of: ShareOf = "known_flops" if each[0]["flops_at_most"] else "flops"
        return run.concern(summed(each, "flops_pct"), of, None)
    timed = all(row["kernel_ns"] is not None for row in each)
    return run.concern(summed(each, "share_pct"), "kernel_time", summed(each, "kernel_ns") if timed else None)


def tc307(run: Run) -> Iterator[Advice]:
    """Yield one item for each such convolution: by its kernels if these were measured, else by prediction."""
    for row in run.few_filters():
        blocker, drawn = None, frozenset([str(row["layer"])])
        where = Where(layer=text(row["layer"]), source=text(row["source"]))
        off = [op for op in run.off if op.place == row["layer"] and op.chosen] if run.measured and run.total else []
        if off:  # its kernels ran without Tensor Cores: in its costliest pass
            blocker, drawn = off[0].blocker, drawn | names_of(off)
            concern = run.concern_of([op for op in off if op.row["pass"] == off[0].row["pass"]])
            where = replace(where, op=text(off[0].row["op"]), pass_=text(off[0].row["pass"]))
        elif row["kernel_ns"] is None and row["saving_ns"] is not None and may_pay([row]):
            concern = run.concern(float(row["saving_pct"] or 0), share_of([row]), None)
        else:
            continue
        saving = of_sizes(run, "slice_filters", [row])
        yield Advice("TC307", say("slice_filters"), concern, where, saving, blocker, *sized([row]), drawn)


def tc308(run: Run) -> Iterator[Advice]:
    """Yield one item for convolutions, and one for other ops."""
    for convolution, ops in grouped((conv_like(text(op.row["op_type"])), op) for op in run.blocked("library")).items():
        yield run.item("TC308", "library", ops, convolution=convolution, compiled=run.compiled)
