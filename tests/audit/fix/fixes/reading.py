"""Read a model from a file in the simplest way, with a finding for every size that is not a multiple of 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.links import output_of
from tcprobe.audit.source.read import parse_source
from tcprobe.cost.predict import Target
from tcprobe.hardware import find_gpu
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.shapes.layers import output_shape
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.statement import say
from tcprobe.source.calls import Call
from tcprobe.source.source import Source


def chain(source: Source, batch: int = 64, last: bool = False) -> Model:
    """Return the model of the file's layers in the order of their calls, each fed by the one before.

    An argument of several values makes one layer of each; only one of the last value with `last`.
    """
    layers: list[Layer] = []
    products: list[Product] = []
    shape: Any = None
    for call in source.calls():
        head, _, kind = call.name.rpartition(".")
        if kind == "Input":
            known = next(iter(call.arguments.values())).known
            shape = (batch, *(known.value if known else ()))
        elif head == "keras.layers" and kind != "Lambda":
            for config in _configs(source, call)[-1 if last else 0 :]:
                layer = a_layer(call, kind, config, shape, layers)
                layers.append(layer)
                feeds = tuple(p.layer for p in products[-1:] if p.layer)
                products += [
                    Product(record, layer.name, calls, f"{layer.name}/{record.pass_}", feeds, False, call.place)
                    for record, calls in records_of(layer, batch)
                ]
                shape = layer.output_shape
    layers[-1] = replace(layers[-1], is_last=True)
    return Model("source", "chain", source.path, tuple(layers), tuple(products), batch, True)


def a_layer(call: Call, kind: str, config: dict[str, Any], shape: Any, before: list[Layer]) -> Layer:
    """Return the layer that a call makes behind others."""
    return Layer(
        name=f"{kind.lower()}_{len(before)}",
        kind=kind,
        class_name=kind,
        place=call.place,
        dtype="float16",
        variable_dtype="float32",
        input_shapes=(shape,),
        output_shape=output_shape(kind, config, shape),
        config=config,
        arguments={name: argument.place for name, argument in call.arguments.items()},
        inputs_from=tuple(layer.name for layer in before[-1:]),
        is_first=not before,
        is_last=False,
        trainable=True,
    )


def _configs(source: Source, call: Call) -> list[dict[str, Any]]:
    values = {name: [k.value for k in source.alternatives(a.node)] or [...] for name, a in call.arguments.items()}
    count = max((len(v) for v in values.values()), default=1)
    return [{name: v[i % len(v)] for name, v in values.items()} for i in range(count)]


def findings_of(model: Model, step: Step) -> list[Finding]:
    """Return a warning on every size that a layer sets and that is no multiple of 8, the last layer's left out."""
    found = []
    for layer in model.layers:
        name = output_of(layer) or ""
        size = layer.config.get(name)
        few = isinstance(size, int) and name == "filters" and size <= 4
        if isinstance(size, int) and size % 8 and (few or not layer.is_last):
            wanted = 8 if few else step.link(layer.name, name, size, size + -size % 8).changes[0].new
            found.append(finding(layer, name, size, wanted))
    return found


def finding(layer: Layer, dimension: str, size: int, suggested: int) -> Finding:
    """Return a warning on one size."""
    return Finding(
        "TC101",
        say("not_a_multiple"),
        layer.place,
        "warning",
        layer.name,
        layer.class_name,
        dimension,
        size,
        suggested,
        dtype="float16",
    )


def step_of(model: Model) -> Step:
    """Return the step of a model on an A100."""
    return Step(model, Target(find_gpu("a100-sxm-40")))


def fixed(text: str, path: str = "/model.py", last: bool = False, others: Sequence[Source] = ()) -> list[Finding]:
    """Return the findings on a file's sizes, with their fixes."""
    source = parse_source(text, path)
    model = chain(source, last=last)
    step = step_of(model)
    return with_fixes(findings_of(model, step), model, step, {s.path: s for s in (source, *others)})
