"""Layers as the user's program constructs and calls them: names, settings, shapes, what feeds what, what is frozen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.kinds import (
    Draft,
    Graph,
    Items,
    Keywords,
    Named,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values import SpentError, plain_constant, tensors_of
from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.keras.row import KerasClass
from tcprobe.keras.settings import size_of, with_sizes, wrapped_layer
from tcprobe.keras.shapes import cell_units, output_shape
from tcprobe.schema.op import Shape, Size
from tcprobe.source.calls import Call
from tcprobe.source.values import Known

_MOST_CALLS: Final = 100_000
_JUDGED: Final = frozenset(
    name for row in LAYER_CLASSES for name in (row.output, *row.inner, *row.counts, *row.structure) if name
)
"""Arguments without which a layer's products are not known."""


def multiplies(kind: str) -> bool:
    """Return whether a layer of this class multiplies matrices."""
    return class_of(kind).products != "none"


class SourceLayers:
    """The layers of one file, in the order of construction.

    Attributes:
        drafts: the layers.
    """

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._counts: Counter[str] = Counter()
        self._names: set[str] = set()

    def make(self, kind: str, call: Call, values: Keywords, policy: str | None, lacking: bool = False) -> Draft:
        """Return the layer that a call constructs, its arguments evaluated; `lacking` if some are not known."""
        called = values.get("name")
        name = called.value if type(called) is Known and isinstance(called.value, str) else None
        inner = values.get("layer") or values.get("cell")
        arguments = {a.name: a.place for a in call.arguments.values()}
        unknown = {n: v for n, v in values.items() if type(v) is Unknown or type(v) is Tensor}
        missing = {n: _why_unknown(v) for n, v in unknown.items() if n in _JUDGED}
        read = {n for n in missing if type(v := unknown[n]) is Unknown and v.read}
        if lacking:
            missing.setdefault("arguments", "some are passed in a list or dictionary")
        given = {n: plain_constant(v) for n, v in values.items() if n not in ("name", "dtype", "trainable")}
        config, odd = with_sizes(kind, given)
        missing |= odd
        dtype, variable_dtype = _dtypes(values.get("dtype"), policy)
        frozen = values.get("trainable")
        trainable: bool | None = class_of(kind).weights
        if trainable and frozen is not None:
            trainable = frozen.value is not False if type(frozen) is Known else None
        draft = Draft(
            self._name(kind, name), kind, call.node, call.place, config, arguments, missing, read, dtype,
            variable_dtype, trainable,
        )  # fmt: skip
        draft.function = values.get("function") if kind == "Lambda" else None
        if type(inner) is Draft:
            inner.wrapped = True
            draft.arguments = {**inner.arguments, **draft.arguments}
            draft.missing = {**inner.missing, **draft.missing}
            draft.read |= inner.read
            draft.dtype, draft.variable_dtype = inner.dtype, inner.variable_dtype
        self.drafts.append(draft)
        return draft

    def apply(self, draft: Draft, tensors: list[Tensor]) -> Tensor:
        """Call a layer on tensors and return its output."""
        known = [t if t.shape is not None else self._fitted(draft.kind, t) for t in tensors]
        shapes: list[Shape | None] = [t.shape for t in known]
        told = any(s is not None for s in shapes)
        shape = output_shape(draft.kind, draft.config, shapes[0] if len(shapes) == 1 else shapes) if told else None
        symbolic = any(t.symbolic for t in tensors)
        row = class_of(draft.kind)
        ages = {t.fresh for t in tensors}
        fresh = False if row.weights or False in ages else (True if ages == {True} else None)
        if _takes_any_rank(row) and tensors and tensors[0].shape is None:
            shape = None  # three dimensions stood for any number of them
        features = shape[-1] if shape else self._features(draft, known)
        counts = {t.samples for t in tensors if t.shape and t.shape[0] is None}
        samples = counts.pop() if len(counts) == 1 else None if counts else 1
        output = Tensor(shape, features, (draft.name,), symbolic, fresh, samples)
        if not draft.applied:
            draft.inputs = known
            draft.is_first = True if ages == {True} else (False if False in ages else None)
            draft.output = output
        elif {s for t in tensors for s in t.sources} != {s for t in draft.inputs for s in t.sources}:
            draft.other += tensors
        if symbolic or not draft.applied:
            draft.applied += 1
            draft.calls = max(draft.applied, 1)
        return output

    def _features(self, draft: Draft, tensors: list[Tensor]) -> Size:
        """Return the output's last dimension where its rank is unknown."""
        row = class_of(draft.kind)
        if row.kind in ("dense", "embedding") and row.output is not None:
            return size_of(draft.config, row.output)
        if _takes_any_rank(row) and "output_shape" not in draft.config:
            return tensors[0].last if tensors else None
        return tensors[0].last if row.shape == "same" and len(tensors) == 1 else None

    def _fitted(self, kind: str, tensor: Tensor) -> Tensor:
        """Return a tensor of unknown rank as the layer's class demands it: a Conv2D takes four dimensions."""
        row = class_of(kind)
        wanted = row.dimensions
        if wanted is None and _takes_any_rank(row) and tensor.features is not None:
            wanted = 3  # of unknown rank: as three dimensions, so that no number of rows comes of it
        if wanted is None:
            return tensor
        shape = (*[None] * (wanted - 1), tensor.features)
        return replace(tensor, shape=shape)

    def _name(self, kind: str, given: str | None) -> str:
        if given is None:
            base = snake(kind)
            count = self._counts[base]
            self._counts[base] += 1
            given = f"{base}_{count}" if count else base
        name, again = given, 0
        while name in self._names:
            again += 1
            name = f"{given}_{again}"
        self._names.add(name)
        return name


def with_states(draft: Draft, output: Tensor) -> SourceValue:
    """Return what a call of a layer returns: its output, behind it the states where it is told to return them."""
    inner = wrapped_layer(draft.config) if draft.kind == "Bidirectional" else None
    kind, config = inner or (draft.kind, draft.config)
    row = class_of(kind)
    if row.kind != "recurrent" or not row.gates or config.get("return_state") is not True:
        return output
    count = 2 if row.gates == 4 else 1  # an LSTM's cell state beside the hidden one
    batch = output.shape[0] if output.shape else None
    state = replace(output, shape=(batch, cell_units(config)), features=None)
    return Items([output, *[state] * (2 * count if inner else count)])


def graph_members(graph: Graph, drafts: list[Draft]) -> list[SourceValue]:
    """Return the layers between a functional model's inputs and outputs; `drafts` are all of the file."""
    by_name = {draft.name: draft for draft in drafts}
    pending = [s for t in tensors_of(graph.outputs) for s in t.sources]
    ends = {s for t in tensors_of(graph.inputs) for s in t.sources}
    found: dict[str, SourceValue] = {}
    while pending:
        name = pending.pop()
        if name in found or name in ends or name not in by_name:
            continue
        found[name] = by_name[name]
        pending.extend(s for t in by_name[name].inputs for s in t.sources)
    return list(found.values())


def members(parts: Iterable[SourceValue], drafts: list[Draft]) -> Iterator[Draft]:
    """Yield the layers in parts of models, each as often as it stands there; `drafts` are all of the file.

    Raises:
        SpentError: models hold one another, or one another twice too often.
    """
    pending = list(parts)
    for _ in range(_MOST_CALLS):
        if not pending:
            return
        part = pending.pop()
        if type(part) is Draft:
            yield part
        elif type(part) is Stack:
            pending.extend(part.parts)
        elif type(part) is Graph:
            pending.extend(graph_members(part, drafts))
    raise SpentError


def count_again(parts: list[SourceValue], drafts: list[Draft]) -> None:
    """Count one more call of every layer in a model's parts."""
    for draft in members(parts, drafts):
        draft.applied += 1
        draft.calls = draft.applied


def freeze(target: SourceValue, value: SourceValue, drafts: list[Draft]) -> None:
    """Note ``layer.trainable = False`` or ``True`` for a layer, or for every layer of a model."""
    known = value.value if type(value) is Known else None
    for draft in members([target], drafts):
        if class_of(draft.kind).weights:
            draft.trainable = None if known is None else bool(known)


def _why_unknown(value: Unknown | Tensor) -> str:
    return value.reason if type(value) is Unknown else "is computed from data"


def _takes_any_rank(row: KerasClass) -> bool:
    """Return whether the last dimension of a layer's input is all that its products need."""
    return row.kind == "dense" or bool(row.inner)


def _dtypes(given: SourceValue | None, policy: str | None) -> tuple[str | None, str | None]:
    """Return compute and variable dtype of a layer: its own, else those of the policy."""
    if given is None or (type(given) is Known and given.value is None):
        return policy_dtypes(policy)
    name = plain_constant(given) if isinstance(given, (Known, Named)) else None
    return policy_dtypes(name if isinstance(name, str) else None)


def policy_dtypes(policy: str | None) -> tuple[str | None, str | None]:
    """Return compute and variable dtype of a precision policy (``mixed_float16``: float16, float32)."""
    if policy is None:
        return None, None
    if policy.startswith("mixed_"):
        return policy.removeprefix("mixed_"), "float32"
    return policy, policy


@lru_cache(maxsize=1024)
def snake(kind: str) -> str:
    """Return a class name as Keras makes it a layer's (``Conv2DTranspose``: ``conv2d_transpose``).

    Source: Keras 3, `keras.src.utils.naming.to_snake_case`.
    """
    name = re.sub(r"\W+", "", kind)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
