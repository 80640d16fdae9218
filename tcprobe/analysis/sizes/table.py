"""The bad_sizes table: dimensions of layers that no Tensor Core tile divides evenly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final

from tcprobe.analysis.ops.attribution import graph_record, profile_record
from tcprobe.analysis.ops.gemms import Gemms, executions
from tcprobe.analysis.ops.table import Ops
from tcprobe.analysis.sizes.advice import Size, judged, left_alone
from tcprobe.analysis.sizes.savings import Change, Op, Predictor, Saving, Times
from tcprobe.cost.predict import Cost
from tcprobe.gemm.alignment import bytes_of, multiple_for, next_size
from tcprobe.gemm.conv import ConvPass, convolution_of
from tcprobe.gemm.dimensions import named_sizes, tells_features
from tcprobe.gemm.ops import OpFamily, family_of, gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.gemm.torch import torch_kind
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import GAINLESS, HARMLESS, SizeAdvice
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import BAD_SIZES, PASSES

_CONVOLUTIONS: Final[tuple[OpFamily, ...]] = ("conv", "conv_dgrad", "conv_wgrad", "hlo_conv")
_KINDS: Final[dict[str, ConvPass]] = {"conv": "forward", "conv_dgrad": "dgrad", "conv_wgrad": "wgrad"}


@dataclass(slots=True)
class _Layer:
    """The ops of one layer that execute."""

    name: str
    first: Row
    ops: list[Op] = field(default_factory=list)

    @property
    def transposed(self) -> bool:
        """Whether its forward pass is a convolution's input gradient, its input gradient a convolution."""
        kinds = {(family_of(op.record.op_type), op.record.pass_) for op in self.ops}
        return bool(kinds & {("conv_dgrad", "forward"), ("conv", "dgrad")})


@dataclass(slots=True)
class _Bad:
    """One unaligned dimension of a layer.

    Attributes:
        layer: whose it is.
        size: what is known of it.
        ops: that have it.
        multiple: what it should be one of.
        advice: what to do about it; None until it is known.
        saving: by its next size; None where unknown, or where it is best left alone.
    """

    layer: _Layer
    size: Size
    ops: list[Op]
    multiple: int
    advice: SizeAdvice | None = None
    saving: Saving | None = None

    @property
    def change(self) -> Change:
        """The next size."""
        new = next_size(self.size.size, self.multiple)
        return Change(self.size.dimension, self.size.size, new, self.layer.transposed)


def build_bad_sizes(
    profile: Profile, gemms: Gemms, ops: Ops | None, kernel_ns: float | None, predictor: Predictor
) -> Table | None:
    """Return one row per layer, dimension and size that is not aligned, costliest first.

    Without a graph, the shapes of the profile itself tell, where it is certain which dimensions are features; None
    where no shape tells.

    The batch is never listed: it is no contiguous dimension of any pass. An op outside any layer stands under
    its own name, once, in its forward pass.

    Args:
        profile: holds the graph and the iterations.
        gemms: tells which of its rows count.
        ops: kernel time per graph record, where measured.
        kernel_ns: all kernel time, None where nothing was measured.
        predictor: of what the next sizes save, on the GPU to judge against.
    """
    graph = profile.require("graph_ops")
    times = _times(profile, gemms, ops, kernel_ns)
    products = _products(graph, gemms, times) if len(graph) else _profile_products(profile, gemms, ops)
    layers = _layers(products, whole=bool(len(graph)))
    if not layers and not len(graph):
        return None
    basis = "graph" if len(graph) else "shape"
    flops = sum(op.flops or 0 for layer in layers for op in layer.ops)
    found = [bad for layer in layers for bad in _judged(layer, times, predictor)]
    predicted = any(bad.saving and bad.saving.pct is None for bad in found)
    step_ns = predictor.step_ns(op for _, op in products) if predicted else None
    rows = [{**_row(bad), "basis": basis, **_shares(bad, times, flops), **_saved(bad, step_ns)} for bad in found]
    _name_images(rows)
    rows.sort(key=_weight)
    return Table.from_rows(BAD_SIZES, rows)


def _times(profile: Profile, gemms: Gemms, ops: Ops | None, kernel_ns: float | None) -> Times:
    if ops is None:
        return Times(kernel_ns=kernel_ns)
    if len(profile.require("graph_ops")):
        return Times.of(profile, ops.graph_ns, ops.graph_gpus, kernel_ns)
    known = zip(gemms.records, gemms.table.values("kernel_ns"), strict=True)
    spent = {index: int(time) for index, time in known if time is not None}
    return Times.of(profile, spent, ops.detail_gpus, kernel_ns)


def _products(graph: Table, gemms: Gemms, times: Times) -> list[tuple[Row, Op]]:
    """Return the products of the graph that execute, or may, each with its row."""
    records = list(graph.rows())
    found: list[tuple[Row, Op]] = []
    for row in gemms.graph_rows:
        source = records[row]
        if source["executes"] == "no" or family_of(_text(source["op_type"])) is None:
            continue
        record, calls = graph_record(graph, row), executions(source["calls_per_step"])
        flops = flops_of(gemms_of(record))
        sure = source["executes"] == "yes" or row in times.spent
        found.append((source, Op(row, record, calls, sure, None if flops is None else round(flops * calls))))
    return found


def _profile_products(profile: Profile, gemms: Gemms, ops: Ops | None) -> list[tuple[Row, Op]]:
    """Return the products of the profile whose shapes it has."""
    details = profile.require("op_details")
    known = {(row["op"], row["op_type"]): row for row in ops.table.rows()} if ops else {}
    found: list[tuple[Row, Op]] = []
    for index in dict.fromkeys(gemms.records):
        source = known[details.names("op")[index], details.names("op_type")[index]]
        record = profile_record(details, index, _text(source["pass"]))
        found.append(({**source, "layer_class": None}, Op(index, record, flops=flops_of(gemms_of(record)))))
    return found


def _layers(products: list[tuple[Row, Op]], whole: bool) -> list[_Layer]:
    """Return the products by layer; where there is no whole graph, those that tell which dimensions are features."""
    found: dict[str, _Layer] = {}
    for source, op in products:
        if not whole and not tells_features(op.record):
            continue
        if not whole:
            op = replace(op, record=replace(op.record, pass_=op.record.pass_ or "forward"))
        elif source["layer"] is None and op.record.pass_ not in ("forward", "other"):
            continue
        name = str(source["layer"] or source["op"])
        found.setdefault(name, _Layer(name, source)).ops.append(op)
    return list(found.values())


def _judged(layer: _Layer, times: Times, predictor: Predictor) -> list[_Bad]:
    """Return the unaligned dimensions of a layer with what to do about each and what its next size saves."""
    found = _bad(layer)
    for bad in found:
        bad.advice = left_alone(bad.size, predictor.context)
    _save(found, times, predictor)
    vain = [b for b in found if b.size.few_filters and _in_vain(b.saving)]
    for bad in vain:
        bad.advice = SizeAdvice("slice_in_vain")
    if vain:
        _save(found, times, predictor)
    for bad in found:
        bad.advice = bad.advice or _advised(bad, times, predictor)
        if bad.advice.kind in GAINLESS:
            bad.saving = None
    return found


def _save(found: list[_Bad], times: Times, predictor: Predictor) -> None:
    """Predict every size that is to be changed, the others of the layer with it; a group's next size is another layer.

    More channels of a group are more work in every group, so that a saving would not be one of alignment.
    """
    wanted = {bad.change: bad for bad in found if bad.advice is None and bad.size.groups == 1}
    for bad in found:
        bad.saving = None
    for change, bad in wanted.items():
        beside = [other for other in wanted if other != change]
        bad.saving = predictor.saving(times, bad.ops, change, beside)


def _in_vain(saving: Saving | None) -> bool:
    """Whether a prediction says that more would not pay; a measured kernel may be one that no prediction expects."""
    return saving is not None and saving.pct is None and saving.ns.mid <= 0


def _advised(bad: _Bad, times: Times, predictor: Predictor) -> SizeAdvice:
    """Give the rates that are predicted, where the next size is too: of XLA's instructions it is not."""
    told = bad.saving is not None or bad.size.groups > 1
    costs = [cost for op in bad.ops if told and (cost := predictor.cost(op.record)) is not None]
    known: list[Cost] = costs if len(costs) == len(bad.ops) else []
    measured = any(op.row in times.spent for op in bad.ops)
    return judged(bad.size, predictor.context, known, predictor.compiled, measured)


def _bad(layer: _Layer) -> list[_Bad]:
    """Return the unaligned dimensions of the layer, each with the ops that it touches."""
    touched: dict[tuple[str, int], list[Op]] = {}
    for op in layer.ops:
        for dimension, size in named_sizes(op.record, layer.transposed):
            if size % multiple_for(op.record.dtype):
                touched.setdefault((dimension, size), []).append(op)
    return [_one(layer, *key, ops) for key, ops in touched.items()]


def _one(layer: _Layer, dimension: str, count: int, ops: list[Op]) -> _Bad:
    widest = min((op.record.dtype for op in ops), key=lambda d: (bytes_of(d) or 99, d or ""))
    passes = {op.record.pass_ for op in ops}
    size = Size(
        dimension=dimension,
        size=count,
        convolution=any(_convolves(op) for op in ops),
        dtype=widest,
        passes=tuple(p for p in PASSES if p in passes),
        groups=max(_groups(op) for op in ops),
    )
    return _Bad(layer, size, ops, multiple_for(widest))


def _convolves(op: Op) -> bool:
    kind = op.record.op_type
    return family_of(kind) in _CONVOLUTIONS or torch_kind(kind) == "conv"


def _groups(op: Op) -> int:
    """Return the groups of a convolution, 1 of anything else and where they are not known."""
    kind: ConvPass | None = _KINDS.get(family_of(op.record.op_type) or "")
    known = convolution_of(op.record, kind) if kind else None
    return (known.groups if known else None) or 1


def _row(bad: _Bad) -> Row:
    return {
        "layer": bad.layer.name,
        "layer_class": bad.layer.first["layer_class"],
        "dimension": bad.size.dimension,
        "size": bad.size.size,
        "next_size": bad.change.new,
        "multiple": bad.multiple,
        "passes": ", ".join(bad.size.passes) or None,
        "dtype": bad.size.dtype,
        "source": bad.layer.first["source"],
        **(bad.advice.columns() if bad.advice else {}),
    }


def _shares(bad: _Bad, times: Times, flops: int) -> Row:
    known = [time for op in bad.ops if (time := times.spent.get(op.row)) is not None]
    counts = [op.flops for op in bad.ops]
    return {
        "kernel_ns": sum(known) if known else None,
        "share_pct": 100.0 * sum(known) / times.kernel_ns if known and times.kernel_ns else None,
        "flops_pct": 100.0 * sum(f or 0 for f in counts) / flops if flops and None not in counts else None,
    }


def _saved(bad: _Bad, step_ns: float | None) -> Row:
    saving = bad.saving
    if saving is None:
        return {}
    low, likely, high = (round(ns) for ns in (saving.ns.low, saving.ns.mid, saving.ns.high))
    pct = 100.0 * saving.ns.mid / step_ns if saving.pct is None and step_ns else saving.pct
    return {
        "saving_low_ns": low,
        "saving_ns": likely,
        "saving_high_ns": high,
        "saving_pct": pct,
        "saving_basis": saving.basis,
    }


def _weight(row: Row) -> tuple[bool, float, float, float, int, str, str, int]:
    cost, saved, flops = (-float(row.get(c) or 0) for c in ("kernel_ns", "saving_ns", "flops_pct"))
    return (
        row["advice_kind"] in HARMLESS,
        cost,
        saved,
        flops,
        _published_rate(row),
        str(row["layer"]),
        str(row["dimension"]),
        int(row["size"] or 0),
    )


def _published_rate(row: Row) -> int:
    """Return the rate of large products of such a size, 100 where it was predicted or is not known."""
    published = row["rate_basis"] in ("published", "published products")
    return int(row["rate_low_pct"] or 0) if published else 100


def _text(value: Value) -> str | None:
    return None if value is None else str(value)


def _square(pixels: int) -> bool:
    """Return whether so many pixels make a square image of at least 4 x 4, as a generator's first one is."""
    return pixels >= 16 and isqrt(pixels) ** 2 == pixels


def _name_images(rows: list[Row]) -> None:
    """Units that become an image's channels must be changed through these."""
    channels = {int(row["size"] or 0) for row in rows if row["dimension"] == "channels"}
    for row in rows:
        if row["dimension"] != "units" or row["advice_kind"] in ("free", "measured_free"):
            continue
        size = int(row["size"] or 0)
        fits = [c for c in channels if c > 4 and size % c == 0 and _square(size // c)]
        row["image_channels"] = max(fits, default=None)
