"""What the probe wrote about traced steps, as models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec.structs import replace

from tcprobe import formatting
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import MOST_SHAPE_DIMENSIONS, flops_of
from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.settings import is_size, no_size, with_sizes
from tcprobe.schema.model import SAMPLES, GpuAsked, Layer, Model, Place, Product, Unseen
from tcprobe.schema.op import PASSES, OpRecord, Shape, known_shape, known_size

OPEN: Final = "its model leaves %s open, so that its products cannot be predicted; --input-shape tells them"
SINGLE: Final = "groups of one channel run in a depthwise kernel, whose time is not predicted"
AXES: Final = {3: ("length",), 4: ("height", "width"), 5: ("depth", "height", "width")}
IN_SIZES: Final = "sizes change from step to step: a step is the mean of the {} that were counted, in {} sets of sizes"
COUNTED_ONCE: Final = "%s %s in a loop or branch of unknown length; counted once"


def read_models(document: Mapping[str, Any], graph: Mapping[str, Any], file: str, batch: int | None) -> list[Model]:
    """Return one model per unit of audit.json.

    Args:
        document: audit.json.
        graph: graph.json.
        file: absolute path of the audited file.
        batch: samples that the user asked for, where the step leaves them open.
    """
    unseen = tuple(_unseen(item) for item in document.get("unseen", ()))
    gpu_asked = tuple(GpuAsked(str(a["call"]), Place.parse(a["place"])) for a in document.get("gpu_asked", ()))
    units = document.get("units", ())
    models = [_model(unit, document, graph, batch) for unit in units]
    return [
        Model(
            mode="traced",
            label=str(unit["label"]),
            file=file,
            policy=document.get("policy"),
            tf32_off=bool(document.get("tf32_off")),
            keras=document.get("keras"),
            tensorflow=document.get("tensorflow"),
            own_step=bool(unit["own_step"]),
            incomplete=bool(document.get("incomplete")),
            inputs=tuple(map(str, document.get("inputs", ()))),
            answered=tuple(map(str, document.get("answered", ()))),
            gpu_asked=gpu_asked,
            unseen=(
                *(unseen if index == 0 else ()),
                *(why for record in unit["layers"] for why in _no_sizes(record)),
                *_unpredicted(model["layers"], model["products"]),
            ),
            **model,
        )
        for index, (unit, model) in enumerate(zip(units, models, strict=True))
    ]


def _model(
    unit: Mapping[str, Any], document: Mapping[str, Any], graph: Mapping[str, Any], batch: int | None
) -> dict[str, Any]:
    shares = unit.get("in_sizes") or [{"calls": 1}]
    batches = _batches(shares, known_size(unit.get("batch")) or batch)
    known, varies = max(batches, key=lambda size: batches[size]), len(batches.keys() - {None}) > 1
    own = known_size(unit.get("batch"))
    layers = _layers(unit)
    notes = [str(note) for note in document.get("notes", ())]
    products: list[Product] = []
    steps = sum(share["calls"] for share in shares)
    looped, flops, gone = 0, list[float | None](), set[str | None]()
    for share in shares:
        rows = known_size(share.get("batch")) or known or SAMPLES
        traced, on_gpu, unknown = _products({**unit, **share}, graph, int(rows))
        gone |= {p.layer for p in traced}
        products += [replace(p, calls=p.calls * share["calls"] / steps) for p in on_gpu]
        flops.append(_flops(on_gpu))
        looped = max(looped, sum(unknown))
    gone -= {p.layer for p in products}
    if len(shares) > 1:
        notes.append(_in_sizes([share["calls"] for share in shares], flops, bool(unit.get("more_sizes"))))
    if looped:
        notes.append(COUNTED_ONCE % ((looped, "products run") if looped > 1 else (1, "product runs")))
    return {
        "layers": tuple(layer for layer in layers if layer.name not in gone),
        "products": tuple(products),
        "batch": int(known or SAMPLES),
        "batch_known": bool((unit["batch_known"] and own == unit.get("batch")) or (batch and own is None))
        and not varies,
        "batch_varies": varies,
        "xla": unit["xla"] if unit["own_step"] else any(p.compiled for p in products) if products else None,
        "xla_by_default": unit["xla_by_default"],
        "notes": tuple(notes),
    }


def _batches(shares: Iterable[Mapping[str, Any]], known: int | None) -> Counter[int | None]:
    """Return how many steps were counted of each batch; `known` is that of sets that tell none."""
    counts = Counter[int | None]()
    for share in shares:
        counts[known_size(share.get("batch")) or known] += share["calls"]
    return counts


def _in_sizes(calls: Sequence[int], flops: Sequence[float | None], more: bool) -> str:
    """Return what is said of a step that is the mean of several kinds.

    Args:
        calls: how many steps of each were counted.
        flops: of one step of each.
        more: whether others followed that were not counted.
    """
    sets = len(calls)
    said = IN_SIZES.format(sum(calls), f"{sets} of at least {sets + 1}" if more else sets)
    counted = [f for f in flops if f is not None]
    if len(counted) < len(flops):
        return said
    mean = sum(n * f for n, f in zip(calls, counted, strict=True)) / sum(calls)
    return (
        f"{said} ({formatting.flops(mean)} each; {formatting.flops(min(counted))} to {formatting.flops(max(counted))})"
    )


def _flops(products: Iterable[Product]) -> float | None:
    """Return what a step multiplies, in FLOPs; None if unknown."""
    each = [(flops_of(gemms_of(p.record)), p.calls) for p in products]
    return None if any(f is None for f, _ in each) else sum(f * calls for f, calls in each if f is not None)


def _products(
    unit: Mapping[str, Any], graph: Mapping[str, Any], batch: int
) -> tuple[list[Product], list[Product], list[bool]]:
    """Return the products of a step as traced and as on a GPU, and which of these run an unknown number of times."""
    names = {path: str(record["name"]) for record in unit["layers"] for path in record["paths"]}
    layers = _layers(unit)
    functions = [
        f for f in graph.get("functions", ()) if f.get("training") and f.get("python_name") in unit["functions"]
    ]
    ops = [
        {**op, "calls": _calls(f, op)}
        for f in functions
        for op in f["ops"]
        if op.get("executes") != "no" and _multiplies(op)
    ]
    places = {layer.name: layer.place for layer in layers}
    roots = _roots(ops)
    traced = [_product(op, unit, names, places, roots) for op in ops]
    fed = {str(record["name"]): tuple(record.get("fed_by", ())) for record in unit["layers"]}
    return traced, *on_a_gpu(traced, [_loop(op) for op in ops], layers, fed, batch)


def _layers(unit: Mapping[str, Any]) -> tuple[Layer, ...]:
    lines = {path: record.get("source") for record in unit["layers"] for path in record["paths"]}
    return tuple(_layer(record, lines) for record in unit["layers"])


def _unpredicted(layers: Iterable[Layer], products: Sequence[Product]) -> list[Unseen]:
    """Return the layers whose products cannot be predicted and why, each once."""
    unknown = {p.layer for p in products if any(None in (g.m, g.n, g.k, g.batch) for g in gemms_of(p.record))}
    multiplies = {p.layer for p in products}
    found = []
    for layer in (layer for layer in layers if layer.name in multiplies):
        shape = (layer.input_shapes[0] if layer.input_shapes else None) or ()
        if layer.name in unknown:
            names = [name for name, size in zip(AXES.get(len(shape), ()), shape[1:-1], strict=False) if size is None]
            reason = OPEN % (" and ".join(names) or "sizes")
        elif layer.config.get("groups", 1) != 1 and shape and layer.config["groups"] == shape[-1]:
            reason = SINGLE
        else:
            continue
        found.append(Unseen(f"{layer.class_name} '{layer.name}'", reason, layer.place, layer.name))
    return found


def _no_sizes(record: Mapping[str, Any]) -> Iterator[Unseen]:
    """Yield what of a layer is given as a size and is none."""
    odd = with_sizes(str(record["kind"]), record["config"])[1]
    sizes = {"its input": record["input_shapes"], "its output": [record.get("output_shape")]}
    for name, shapes in sizes.items():
        given = [size for shape in shapes for size in shape or () if size is not None and not is_size(size)]
        odd |= {name: no_size(given[0])} if given else {}
    for name, why in odd.items():
        yield Unseen(f"{record['class_name']} '{record['name']}': {name}", why, _spanned(record), str(record["name"]))


def _layer(record: Mapping[str, Any], lines: Mapping[str, Any]) -> Layer:
    return Layer(
        name=str(record["name"]),
        kind=str(record["kind"]),
        class_name=str(record["class_name"]),
        place=_spanned(record) or _nearest(str(record["name"]), lines),
        dtype=record.get("dtype"),
        variable_dtype=record.get("variable_dtype"),
        input_shapes=tuple(_shape(s) for s in record["input_shapes"]),
        output_shape=_shape(record.get("output_shape")),
        config={n: _tuples(v) for n, v in with_sizes(str(record["kind"]), record["config"])[0].items()},
        inputs_from=tuple(record["inputs_from"]),
        is_first=record.get("is_first"),
        is_last=record.get("is_last"),
        calls=max(round(record["calls"]), 1),
        trainable=record.get("trainable"),
    )


def _spanned(record: Mapping[str, Any]) -> Place | None:
    """Return the place of the very call that constructs a layer; None where only its line is known."""
    place, span = Place.parse(record.get("source")), record.get("span")
    if place is None or not isinstance(span, list) or len(span) != 4 or span[0] != place.line:
        return None
    line, column, end_line, end_column = map(int, span)
    return Place(place.file, line, column + 1, end_line, end_column + 1)


def _nearest(name: str, lines: Mapping[str, Any]) -> Place | None:
    """Return where a layer is constructed; one that a layer makes for itself stands where that layer does."""
    while name:
        if lines.get(name):
            return Place.parse(lines[name])
        name = name.rpartition("/")[0]
    return None


def _multiplies(op: Mapping[str, Any]) -> bool:
    """Return whether an op is a product; a depthwise convolution multiplies no matrices."""
    return family_of(str(op["op_type"])) != "depthwise"


def _loop(op: Mapping[str, Any]) -> Loop:
    """Return whether a loop or branch stands around an op, and whether it tells how often it runs."""
    if op["calls"] is None or op.get("at_least") or op.get("in_steps_loop"):
        return "unknown"
    return "none" if op.get("repeats", 1.0) == 1.0 else "known"


def _calls(function: Mapping[str, Any], op: Mapping[str, Any]) -> float | None:
    """Return how often a step runs an op of a function; None where that is unknown."""
    calls, repeats = function.get("calls_per_step"), op.get("repeats")
    return None if calls is None or repeats is None else float(calls * repeats)


def _roots(ops: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the op of the forward pass behind each gradient outside any layer: all passes of one have its name."""
    of = {str(op["op"]): str(op["gradient_of"]) for op in ops if not op.get("layer") and op.get("gradient_of")}
    found: dict[str, str] = {}
    for name in of:
        root, seen = name, set[str]()
        while root in of and root not in seen:
            seen.add(root)
            root = of[root]
        found[name] = root
    return found


def _product(
    op: Mapping[str, Any],
    unit: Mapping[str, Any],
    names: Mapping[str, str],
    places: Mapping[str, Place | None],
    roots: Mapping[str, str],
) -> Product:
    layer = names.get(op["layer"], op["layer"]) if op.get("layer") else None
    fed = op.get("fed_by") or {}
    calls = op["calls"]
    place = places.get(layer) if layer else None
    return Product(
        record=_record(op),
        layer=layer,
        calls=1.0 if calls is None else calls,
        op=roots.get(str(op["op"]), str(op["op"])),
        inputs_from=tuple(names.get(name, name) for name in fed.get("layers", ())),
        compiled=unit["xla"] if unit["own_step"] else bool(op.get("compiled") or unit["xla"]),
        place=place or Place.parse(op.get("source")) or Place.parse(op.get("called_from")),
    )


def _record(op: Mapping[str, Any]) -> OpRecord:
    shapes = op.get("output_shapes") or [None]
    return OpRecord(
        op_type=str(op["op_type"]),
        input_shapes=tuple(_shape(s) for s in op.get("input_shapes", ())),
        output_shape=_shape(shapes[0]),
        attributes=op.get("attributes") or {},
        dtype=_dtype(op.get("input_dtypes", ())),
        pass_=op["pass"] if op.get("pass") in PASSES else None,
    )


def _dtype(names: Iterable[str]) -> str | None:
    """Return the dtype of the inputs, sizes and resources left out; several joined by ``+``."""
    listed = list(dict.fromkeys(names))
    return "+".join([n for n in listed if n not in ("int32", "int64", "resource")] or listed) or None


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list) or len(value) > MOST_SHAPE_DIMENSIONS:
        return None
    return known_shape(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _unseen(item: Mapping[str, Any]) -> Unseen:
    return Unseen(str(item["what"]), str(item["reason"]), Place.parse(item.get("place")))


# Recurrent layers of a step that was traced on a CPU, as a GPU would run them


Loop = Literal["none", "known", "unknown"]
"""What stands around a product: no loop, one that runs a known number of times, or one that the data ends."""


def on_a_gpu(
    products: Sequence[Product],
    loops: Sequence[Loop],
    layers: Sequence[Layer],
    fed: Mapping[str, tuple[str, ...]],
    batch: int,
) -> tuple[list[Product], list[bool]]:
    """Return the products with those of recurrent layers as on a GPU, and which still run an unknown number of times.

    On a CPU Keras runs LSTM and GRU as a loop; on a GPU they are one cuDNN op where its conditions hold. The loop's
    products are replaced; those of a cell that is no Keras layer's own run once for each time step.

    Args:
        products: as traced.
        loops: what stands around each.
        layers: of the same step.
        fed: names of the layers whose features a layer takes.
        batch: samples of the step.
    """
    replaced: dict[int, list[Product]] = {}
    counted: dict[int, Product] = {}
    for layer in (layer for layer in layers if class_of(layer.kind).kind == "recurrent"):
        own = [i for i, product in enumerate(products) if _inside(product.layer, layer.name)]
        inside = [i for i in own if loops[i] != "none"]
        if not own or (not inside and layer.config.get("unroll") is not False):  # an eager step has no loop to see
            continue
        records = records_of(layer, batch)
        shape = layer.input_shapes[0] if layer.input_shapes else None
        steps = shape[1] if shape is not None and len(shape) == 3 else None
        if records:
            made = [_of_recurrent(layer, record, calls, products[own[0]], fed) for record, calls in records]
            replaced.update({i: made if i == own[0] else [] for i in own})
        elif steps is not None:
            open_ended = (i for i in inside if loops[i] == "unknown")
            counted.update({i: replace(products[i], calls=float(steps * layer.calls)) for i in open_ended})
    result: list[Product] = []
    unknown: list[bool] = []
    for i, product in enumerate(products):
        new = replaced.get(i, [counted.get(i, product)])
        result += new
        unknown += [loops[i] == "unknown" and i not in replaced and i not in counted] * len(new)
    return result, unknown


def _of_recurrent(
    layer: Layer, record: OpRecord, calls: float, instead: Product, fed: Mapping[str, tuple[str, ...]]
) -> Product:
    return Product(
        record=record,
        layer=layer.name,
        calls=calls,
        op=f"{layer.name}/{record.op_type}",
        inputs_from=fed.get(layer.name, ()) if record.pass_ == "forward" else (),
        compiled=instead.compiled,
        place=layer.place,
    )


def _inside(name: str | None, layer: str) -> bool:
    return name is not None and (name == layer or name.startswith(layer + "/"))
