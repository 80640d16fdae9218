"""Build models, steps and findings for the tests of the rules on sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tcprobe.cost.predict import Target
from tcprobe.hardware import find_gpu
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.shapes import output_shape
from tcprobe.report.audit.words import message
from tcprobe.rules.base import Subject
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.rules.model.step import Step
from tcprobe.rules.registry import RULES, Rule
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Model, Place, Product
from tcprobe.schema.op import OpRecord, Shape

FILE = "/project/model.py"
tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109 = RULES[:9]


@dataclass
class Network:
    """Builds a model layer by layer, as a functional model is: each call takes the names of what feeds it."""

    batch: int = 8192
    dtype: str = "float16"
    batch_known: bool = True
    compiled: bool | None = None
    layers: list[Layer] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    features: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def input(self, *shape: int) -> str:
        """Add an input of the model and return its name; it is no layer."""
        name = f"input_{len(self.shapes)}"
        self.shapes[name], self.features[name] = (None, *shape), ()
        return name

    def add(self, kind: str, config: Mapping[str, Any], *sources: str, name: str = "", **more: Any) -> str:
        """Add a layer and return its name; ``reshape`` and the like hand on what feeds them."""
        name = name or f"{kind.lower()}_{len(self.layers)}"
        shapes = tuple(self.shapes[source] for source in sources)
        first = all(source.startswith("input_") for source in sources)
        out = output_shape(kind, config, shapes[0] if len(shapes) == 1 else list(shapes))
        place = Place(FILE, len(self.layers) + 1)
        layer = Layer(
            name, kind, kind, place, self.dtype, self.dtype, shapes, out, dict(config), is_first=first, **more
        )
        fed = tuple(dict.fromkeys(f for source in sources for f in self.features[source]))
        found = records_of(layer, self.batch)
        for record, calls in found:
            forward = record.pass_ == "forward"
            op = f"{name}/{record.pass_}"
            self.products.append(Product(record, name, calls, op, fed if forward else (), self.compiled, place))
        self.layers.append(layer)
        self.shapes[name] = out or ()
        self.features[name] = (name,) if found or kind == "Embedding" else fed
        return name

    def model(self, **more: Any) -> Model:
        """Return the model; its last layer puts out what it puts out."""
        layers = tuple(replace(layer, is_last=layer is self.layers[-1]) for layer in self.layers)
        return Model("traced", "model.py", FILE, layers, tuple(self.products), self.batch, self.batch_known, **more)


def dense(*sizes: int, batch: int = 8192, dtype: str = "float16", **more: Any) -> Model:
    """Return Dense layers one after another, of these units; the first size is the data's."""
    network = Network(batch, dtype, **more)
    last = network.input(sizes[0])
    for number, units in enumerate(sizes[1:]):
        last = network.add("Dense", {"units": units}, last, name=f"dense_{number}")
    return network.model()


def raw(record: OpRecord, **more: Any) -> Model:
    """Return a model of one op of the user's own."""
    return Model("traced", "model.py", FILE, (), (Product(record, None, op="matmul", place=Place(FILE, 1)),), **more)


def step_of(model: Model, gpu: str = "a100-sxm-40", dtype: str | None = None, **target: Any) -> Step:
    """Return the step of a model on a GPU."""
    return Step(model, Target(find_gpu(gpu), **target), dtype)


def check(rule: Rule, model: Model, gpu: str = "a100-sxm-40", **target: Any) -> list[Finding]:
    """Return what a rule finds in a model on a GPU."""
    return list(rule.check(Subject(model, step_of(model, gpu, **target), {})))


def found(findings: Iterable[Finding]) -> list[tuple[str | None, str | None, int | None, int | None]]:
    """Return layer, dimension, size and suggestion of findings."""
    return [(f.layer, f.dimension, f.size, f.suggested) for f in findings]


def golden(path: Path, rules: Sequence[Rule], update: bool) -> tuple[list[str], list[str]]:
    """Return the lines that the rules yield for a source file, and those that its golden file holds."""
    from tcprobe.audit.source.read import read_model, read_source

    source = read_source(path)
    lines = [
        line
        for model in read_model(source)
        for rule in rules
        for line in map(_line, rule.check(Subject(model, step_of(model), {str(path): source})))
    ]
    expected = path.with_suffix(".txt")
    if update:
        expected.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines, expected.read_text(encoding="utf-8").splitlines()


def _line(f: Finding) -> str:
    size = "" if f.size is None else f" {f.size}->{f.suggested if f.suggested is not None else '-'}"
    place = f"{f.place.line}:{f.place.column}" if f.place else "-"
    what = f"{f.layer or '-'} {f.dimension or '-'}{size}"
    said = re.sub(r"\d+(?:-\d+)? %(?= of (?:an aligned|the predicted))", "# %", message(f))  # the cost model's business
    return f"{place} {f.code} {f.severity or 'by cost'} {what}: {said}"


def record_after(step: Step, index: int, changes: Iterable[LinkedChange]) -> OpRecord:
    """Return the record of a product after changes, its own where none of them touches it."""
    return step.records_after(tuple(changes)).get(index, step.model.products[index].record)
