"""TC306, TC307, TC308: sizes that make kernels slow, few filters, and kernels that a library chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tcprobe.gemm.ops import conv_like
from tcprobe.rules.model.sizes import grouped
from tcprobe.rules.run.base import SHAPES, Run, RunSays, names_of, summed, to_change
from tcprobe.rules.run.savings import followers, may_pay, of_sizes, share_of, size_key, sized
from tcprobe.rules.words import MAY_LEAVE, Act, kept, output_channels
from tcprobe.schema.advice import Advice, Concern, ShareOf, Where
from tcprobe.schema.records import text_of
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

PASSES: Final[dict[str | None, str]] = {
    "wgrad": "weight gradient",
    "dgrad": "input gradient",
    "forward": "forward pass",
}


def _change_size(item: Advice, others: int) -> Act:
    changes = ", ".join(f"{one.dimension} {one.size} -> {one.next_size}" for one in item.sizes)
    return Act(f"{changes} in {others + 1} ops" if others else f"{changes}: {_last(item)}")


def _last(item: Advice) -> str:
    return str(item.where.layer).rpartition("/")[2]


def _slice_filters(item: Advice) -> Act:
    count, channels = item.sizes[0].size, output_channels(item.sizes[0].size)
    title = f"filters {count} -> 8, keep {kept(count)}: {_last(item)}"
    if item.blocker is None:
        return Act(title, (), (f"{channels}{f': {MAY_LEAVE}' if item.effect and item.effect.sixteen_bit else ''}",))
    kernel = f", {item.blocker.kernel}" if item.blocker.kernel else ""
    ran = f"cuDNN runs its {PASSES.get(item.where.pass_, 'convolution')} on a CUDA-core kernel{kernel}"
    return Act(title, (), (f"{channels}: {ran}",))


def _library(_: Advice, convolution: bool, compiled: bool) -> Act:
    ways = ("8 or more channels", "channels last (NHWC)") if convolution else ("larger sizes", "a larger batch")
    return Act("Try, and compare step times", ways if compiled else (*ways, "XLA"))


SAYS: Final[RunSays] = {
    "change_size": _change_size,
    "align_sizes": lambda _, listed: Act("Make the sizes multiples of 8", ("see Badly sized",) if listed else ()),
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
    where = Where(layer=text_of(first["layer"]), source=text_of(first["source"]))
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
        where = Where(layer=text_of(row["layer"]), source=text_of(row["source"]))
        off = [op for op in run.off if op.place == row["layer"] and op.chosen] if run.measured and run.total else []
        if off:  # its kernels ran without Tensor Cores: in its costliest pass
            blocker, drawn = off[0].blocker, drawn | names_of(off)
            concern = run.concern_of([op for op in off if op.row["pass"] == off[0].row["pass"]])
            where = replace(where, op=text_of(off[0].row["op"]), pass_=text_of(off[0].row["pass"]))
        elif row["kernel_ns"] is None and row["saving_ns"] is not None and may_pay([row]):
            concern = run.concern(float(row["saving_pct"] or 0), share_of([row]), None)
        else:
            continue
        saving = of_sizes(run, "slice_filters", [row])
        yield Advice("TC307", say("slice_filters"), concern, where, saving, blocker, *sized([row]), drawn)


def tc308(run: Run) -> Iterator[Advice]:
    """Yield one item for convolutions, and one for other ops."""
    for convolution, ops in grouped(
        (conv_like(text_of(op.row["op_type"])), op) for op in run.blocked("library")
    ).items():
        yield run.item("TC308", "library", ops, convolution=convolution, compiled=run.compiled)
