"""The bad_sizes table: dimensions of layers that no Tensor Core tile divides evenly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final, TypeAlias

from tcprobe.analysis.advice import aligned_share, explain, is_harmless
from tcprobe.analysis.attribution import graph_record, profile_record
from tcprobe.analysis.context import Context
from tcprobe.analysis.gemms import Gemms, executions
from tcprobe.analysis.ops import Ops
from tcprobe.columns import Table, Value
from tcprobe.gemm.alignment import bytes_of, multiple_for, next_size
from tcprobe.gemm.dimensions import named_sizes, tells_features
from tcprobe.gemm.ops import Family, family_of, gemms_of
from tcprobe.gemm.record import OpRecord, flops_of
from tcprobe.gemm.torch import torch_kind
from tcprobe.profile import Profile
from tcprobe.tables import BAD_SIZES, PASSES

Row: TypeAlias = dict[str, Value]
Touched: TypeAlias = list[tuple[int, OpRecord, int | None]]
_CONVOLUTIONS: Final[tuple[Family, ...]] = ("conv", "conv_dgrad", "conv_wgrad", "hlo_conv")


@dataclass(slots=True)
class _Layer:
    """The ops of one layer that execute: their rows in `graph_ops`, records and FLOPs."""

    name: str
    first: Row
    ops: Touched = field(default_factory=list)

    @property
    def transposed(self) -> bool:
        """Whether its forward pass is a convolution's input gradient, its input gradient a convolution."""
        return any(
            (family_of(o.op_type), o.pass_) in (("conv_dgrad", "forward"), ("conv", "dgrad")) for _, o, _ in self.ops
        )


def build_bad_sizes(
    profile: Profile, gemms: Gemms, ops: Ops | None, context: Context, kernel_ns: float | None
) -> Table | None:
    """Return one row per layer, dimension and size that is not aligned, costliest first.

    Without a graph, the shapes of the profile itself tell, where it is certain which dimensions are features; None
    where no shape tells.

    The batch is never listed: it is no contiguous dimension of any pass. An op outside any layer stands under
    its own name, once, in its forward pass.

    Args:
        profile: holds the graph.
        gemms: tells which of its rows count.
        ops: kernel time per graph record, where measured.
        context: GPU to judge the cost against.
        kernel_ns: all kernel time, None where nothing was measured.
    """
    graph = profile.require("graph_ops")
    layers = _layers(graph, gemms) if len(graph) else _profile_layers(profile, gemms, ops)
    if not layers and not len(graph):
        return None
    basis = "graph" if len(graph) else "shape"
    flops = sum(f or 0 for layer in layers for _, _, f in layer.ops)
    spent = (ops.graph_ns if len(graph) else _profile_ns(gemms)) if ops else {}
    rows = [
        {**_row(layer, *key, touched, context), "basis": basis, **_shares(touched, spent, kernel_ns, flops)}
        for layer in layers
        for key, touched in _bad(layer).items()
    ]
    _name_images(rows)
    rows.sort(key=_weight)
    return Table.from_rows(BAD_SIZES, rows)


def _layers(graph: Table, gemms: Gemms) -> list[_Layer]:
    records = list(graph.rows())
    found: dict[str, _Layer] = {}
    for row in gemms.graph_rows:
        source, record = records[row], graph_record(graph, row)
        if source["executes"] == "no" or family_of(record.op_type) is None:
            continue
        if source["layer"] is None and record.pass_ not in ("forward", "other"):
            continue
        name = str(source["layer"] or source["op"])
        flops = flops_of(gemms_of(record))
        times = executions(source["calls_per_step"])
        layer = found.setdefault(name, _Layer(name, source))
        layer.ops.append((row, record, None if flops is None else round(flops * times)))
    return list(found.values())


def _profile_layers(profile: Profile, gemms: Gemms, ops: Ops | None) -> list[_Layer]:
    """Return the ops of the profile whose own shapes tell which dimensions are features."""
    details = profile.require("op_details")
    known = {(row["op"], row["op_type"]): row for row in ops.table.rows()} if ops else {}
    found: dict[str, _Layer] = {}
    for index in dict.fromkeys(gemms.records):
        source = known[details.names("op")[index], details.names("op_type")[index]]
        record = profile_record(details, index, None if source["pass"] is None else str(source["pass"]))
        if not tells_features(record):
            continue
        record = replace(record, pass_=record.pass_ or "forward")
        name = str(source["layer"] or source["op"])
        layer = found.setdefault(name, _Layer(name, {**source, "layer_class": None}))
        layer.ops.append((index, record, flops_of(gemms_of(record))))
    return list(found.values())


def _profile_ns(gemms: Gemms) -> dict[int, int]:
    times = zip(gemms.records, gemms.table.values("kernel_ns"), strict=True)
    return {index: int(time) for index, time in times if time is not None}


def _bad(layer: _Layer) -> dict[tuple[str, int], Touched]:
    """Return the ops that each unaligned dimension of the layer touches."""
    found: dict[tuple[str, int], Touched] = {}
    for op in layer.ops:
        for dimension, size in named_sizes(op[1], layer.transposed):
            if size % multiple_for(op[1].dtype):
                found.setdefault((dimension, size), []).append(op)
    return found


def _row(layer: _Layer, dimension: str, size: int, touched: Touched, context: Context) -> Row:
    widest = min((record.dtype for _, record, _ in touched), key=lambda d: (bytes_of(d) or 99, d or ""))
    multiple = multiple_for(widest)
    convolution = any(
        family_of(record.op_type) in _CONVOLUTIONS or torch_kind(record.op_type) == "conv" for _, record, _ in touched
    )
    passes = {record.pass_ for _, record, _ in touched}
    return {
        "layer": layer.name,
        "layer_class": layer.first["layer_class"],
        "dimension": dimension,
        "size": size,
        "next_size": next_size(size, multiple),
        "multiple": multiple,
        "passes": ", ".join(p for p in PASSES if p in passes) or None,
        "dtype": widest,
        "advice": explain(dimension, size, convolution, widest, context),
        "source": layer.first["source"],
    }


def _shares(touched: Touched, spent: dict[int, int], kernel_ns: float | None, flops: int) -> Row:
    times = [spent.get(row) for row, _, _ in touched]
    known = [t for t in times if t is not None]
    counts = [f for _, _, f in touched]
    return {
        "kernel_ns": sum(known) if known else None,
        "share_pct": 100.0 * sum(known) / kernel_ns if known and kernel_ns else None,
        "flops_pct": 100.0 * sum(f or 0 for f in counts) / flops if flops and None not in counts else None,
    }


def _weight(row: Row) -> tuple[bool, float, float, int, str, str, int]:
    cost, flops = (-float(row[c] or 0) for c in ("kernel_ns", "flops_pct"))
    return (
        is_harmless(str(row["advice"])),
        cost,
        flops,
        aligned_share(str(row["advice"])),
        str(row["layer"]),
        str(row["dimension"]),
        int(row["size"] or 0),
    )


def _square(pixels: int) -> bool:
    """Return whether so many pixels make a square image of at least 4 x 4, as a generator's first one is."""
    return pixels >= 16 and isqrt(pixels) ** 2 == pixels


def _name_images(rows: list[Row]) -> None:
    """Units that become an image's channels must be changed through these."""
    channels = {int(row["size"] or 0) for row in rows if row["dimension"] == "channels"}
    for row in rows:
        if row["dimension"] != "units":
            continue
        size = int(row["size"] or 0)
        fits = [c for c in channels if c > 4 and size % c == 0 and _square(size // c)]
        if fits:
            count = max(fits)
            better = next_size(count, 8)
            row["advice"] = (
                f"{row['advice']}; if it is reshaped to images of {count} channels ({size} = {size // count} x "
                f"{count}), give them {better}: {size // count} x {better} = {size // count * better} units"
            )
