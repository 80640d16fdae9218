"""From what the user's program constructs to a model: layers, products, what was not seen."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.fixed import fixed_layers
from tcprobe.audit.source.kinds import Draft, Instance, Multiplied, SourceValue, Stack, Tensor, Training
from tcprobe.audit.source.layers import multiplies
from tcprobe.audit.source.models import ENTRANCE, UNUSED, unused_layers
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.apart import SourceStep, compiled_by_xla, never_trained, steps_of
from tcprobe.audit.source.steps.batches import batch_of
from tcprobe.audit.source.values import tensors_of
from tcprobe.keras.catalogue import class_of, layer_class
from tcprobe.keras.products.layers import Operand, own_records, records_kept
from tcprobe.keras.products.passes import Records
from tcprobe.rules.precision.policy import setters
from tcprobe.schema.model import SAMPLES, Layer, Model, NotJudged, Place, Product, Unseen
from tcprobe.schema.op import Shape
from tcprobe.source.calls import Call
from tcprobe.source.frameworks import ELSEWHERE, Foreign, foreign, foreign_base, foreign_layer
from tcprobe.source.source import Source

UNKNOWN_POLICY: Final = "the precision policy is set to what the file does not tell; --dtype says it"
INPUT: Final = "its input"
NEVER_TRAINED: Final = "a model that nothing here trains"
SEVERAL_POLICIES: Final = ("set_global_policy", "set_dtype_policy", "set_policy", "set_floatx")

_SETTERS: Final = ("set_global_policy", "set_dtype_policy", "set_policy", "set_floatx")


class Constructed:
    """What a followed program constructs.

    Args:
        state: what `follow` found.
        asked: the user's own batch; None to take it from the file, where that has one alone.
    """

    def __init__(self, state: State, asked: int | None) -> None:
        self._state = state
        self._asked = asked
        self._unused = unused_layers(state)
        self._drafts = [draft for draft in _ended(state) if is_layer(draft) and draft.name not in self._unused]
        self._own = list(state.multiplied.values())
        self._fixed = fixed_layers(state)

    def model(self) -> list[Model]:
        """Return everything as one model."""
        names = frozenset(draft.name for draft in self._drafts)
        return [self._with_file(self._model(SourceStep(names, frozenset(map(id, self._own)))))]

    def steps(self) -> list[Model]:
        """Return a model for each step; what is said of the file stands with the first."""
        steps = steps_of(self._state, self._drafts, self._own)
        idle = never_trained(self._state, steps)
        steps = [step for step in steps if step not in idle]
        models = [self._model(step) for step in steps]
        if len(models) > 1:
            models = [replace(m, label=self._label(m, step)) for m, step in zip(models, steps, strict=True)]
        first = self._with_file(models[0])
        return [replace(first, unseen=(*first.unseen, *(self._idle(step) for step in idle))), *models[1:]]

    def _idle(self, step: SourceStep) -> Unseen:
        (model,) = step.models
        kind = "Sequential" if type(model) is Stack else "Model"
        kind = model.of.node.name if type(model) is Instance else kind
        where = f" at {Path(step.place.file).name}:{step.place.position}" if step.place is not None else ""
        return Unseen(f"{kind}{where}", NEVER_TRAINED, step.place)

    def _label(self, model: Model, step: SourceStep) -> str:
        return model.label if step.place is None else f"{model.label}:{step.place.position}"

    def _model(self, step: SourceStep) -> Model:
        state, source = self._state, self._state.source
        drafts = [draft for draft in self._drafts if draft.name in step.layers]
        fed = (_layer(draft, state.fed, step.frozen) for draft in drafts)
        layers = tuple(replace(layer, fixed_by=self._fixed.get(layer.name)) for layer in fed)
        made = [one for one in self._own if id(one) in step.products]
        known, by_default = self._batch(step) if layers or made else (None, False)
        batch = known or SAMPLES
        xla = compiled_by_xla(state, step, layers)
        products = (p for p in _products(layers, batch, xla.on) if _is_told(p, state))
        return Model(
            mode="source",
            label=Path(source.path).name,
            file=source.path,
            layers=layers,
            products=(*products, *_own_products([(one, _own_passes(one, batch)) for one in made], xla.on)),
            batch=batch,
            batch_known=known is not None,
            batch_by_default=by_default,
            policy=state.policy,
            tf32_off=state.tf32_off,
            xla=xla.on,
            xla_by_default=xla.by_default,
            policy_assumed=_assumes_policy(state),
            gpu_hidden=state.gpu_there is False or state.gpu_visible is False,
        )

    def _batch(self, step: SourceStep) -> tuple[int | None, bool]:
        if self._asked:
            return self._asked, False
        training = step.training or Training()
        if training.batch is not None:
            return training.batch, False
        found = batch_of(self._state.source, training.node)
        return (min(training.rows), False) if found[0] is None and len(training.rows) == 1 else found

    def _with_file(self, model: Model) -> Model:
        """Return a model with what is said of the file as a whole."""
        state, source = self._state, self._state.source
        judged = {made.node for made in self._own if _own_passes(made, model.batch)}
        return replace(
            model,
            unseen=tuple(_unseen(state, self._unused)),
            notes=(*_policy_notes(state), *state.notes, *state.given.remarks),
            inputs=tuple(state.given.inputs),
            answered=tuple(sorted(state.given.answered)),
            not_judged=not_judged(source, judged, state.operators),
            gpu_asked=tuple(state.gpu_asked.values()),
        )


def _policy_notes(state: State) -> tuple[str, ...]:
    if not state.layers.drafts:
        return ()
    names = sorted({setter.policy or "one that it does not tell" for setter in setters(state.source)})
    several = (f"{SEVERAL_POLICIES} {' and '.join(names)}",) if len(names) > 1 else ()
    return (*((UNKNOWN_POLICY,) if state.policy is None else ()), *several)


def _assumes_policy(state: State) -> bool:
    known = bool(state.layers.drafts) and state.policy is not None
    return known and not _sets_policy(state.source)


def _sets_policy(source: Source) -> bool:
    return any(call.name.rpartition(".")[2] in _SETTERS for call in source.calls())


def _ended(state: State) -> list[Draft]:
    """Say of each layer whether its output is the model's."""
    drafts = state.layers.drafts
    taken = ([s for t in (*d.inputs, *d.other) for s in t.sources] for d in drafts)
    consumed = {name for sources in taken for name in _behind(sources, state.fed)[0]}
    outputs = {name for given in _outputs(state) for name in _made(given)}
    for instance in state.instances:
        if instance.keras == "model" and instance.uses <= 1 and not instance.is_inner and instance.output is not None:
            outputs |= _made(instance.output) - consumed  # what a generator makes, another model may judge
    multiplied = {name for made in state.multiplied.values() for name in (*made.a.sources, *made.b.sources)}
    for draft in drafts:
        weighs = draft.name in multiplied and "softmax" in (draft.kind.lower(), draft.config.get("activation"))
        if draft.name in outputs and not weighs:  # an attention's weights, that a model gives too
            draft.is_last = True
        elif draft.name in consumed or weighs:
            draft.is_last = False
    return drafts


def _outputs(state: State) -> Iterator[SourceValue]:
    """Yield what each model of Keras' own classes gives that no other model calls."""
    yield from (stack.output for stack in state.stacks if not stack.uses and stack.output is not None)
    yield from (graph.outputs for graph in state.graphs if not graph.uses)


def _made(outputs: SourceValue) -> set[str]:
    """Return the layers whose outputs are a model's; one whose output goes into another of the outputs is inside."""
    sources = [set(tensor.sources) for tensor in tensors_of(outputs)]
    inside = {name for own in sources for name in own if len(own) > 1 and {name} in sources}
    return set().union(*sources) - inside


def _layer(draft: Draft, fed: dict[str, list[Tensor]], frozen: frozenset[str] | None) -> Layer:
    """Return a layer, trained as `frozen` has it; None as the program leaves it at its end."""
    known = any(t.shape is not None for t in draft.inputs)
    sources, given = _behind([s for t in draft.inputs for s in t.sources], fed)
    is_first = False if draft.is_first and any(t.fresh is False for t in given) else draft.is_first
    return Layer(
        name=draft.name,
        kind=draft.kind,
        class_name=draft.kind,
        place=draft.place,
        dtype=draft.dtype,
        variable_dtype=draft.variable_dtype,
        input_shapes=tuple(t.shape for t in draft.inputs) if known else (),
        output_shape=draft.output.shape if draft.output is not None else None,
        config=draft.config,
        arguments=draft.arguments,
        inputs_from=tuple(sources),
        also_from=_also(draft, fed),
        is_first=is_first,
        is_last=draft.is_last,
        calls=draft.calls,
        trainable=_trainable(draft, frozen),
        samples=draft.inputs[0].samples if draft.inputs else 1,
    )


def _trainable(draft: Draft, frozen: frozenset[str] | None) -> bool | None:
    if frozen is None or draft.trainable is None:
        return draft.trainable
    return draft.name not in frozen and class_of(draft.kind).weights


def _also(draft: Draft, fed: dict[str, list[Tensor]]) -> tuple[str, ...]:
    """Return the layers that a draft's features must fit besides those of its first call; "" where one is none."""
    found: dict[str, None] = {}
    for tensor in (*draft.inputs, *draft.other) if draft.other else ():
        found.update(dict.fromkeys(_behind(list(tensor.sources), fed)[0] or [""]))
    return tuple(found)


def is_layer(draft: Draft) -> bool:
    """Return whether a draft is a layer of the model by itself: no cell, and not inside a wrapper."""
    return not draft.wrapped and class_of(draft.kind).kind != "cell"


def _behind(names: list[str], fed: dict[str, list[Tensor]]) -> tuple[dict[str, None], list[Tensor]]:
    """Return the layers behind a tensor's sources, through the inputs of models that others call, and what came in."""
    found: dict[str, None] = {}
    given: list[Tensor] = []
    pending, seen = list(reversed(names)), set()
    while pending:
        name = pending.pop()
        if name.startswith(ENTRANCE) and name not in seen:
            given.extend(fed.get(name, ()))
            pending.extend(s for t in fed.get(name, ()) for s in t.sources)
        elif not name.startswith(ENTRANCE):
            found[name] = None
        seen.add(name)
    return found, given


def _products(layers: tuple[Layer, ...], batch: int, xla: bool | None) -> Iterator[Product]:
    by_name = {layer.name: layer for layer in layers}
    spared = _nothing_trained_behind(by_name)
    alike: dict[object, Records] = {}
    for layer in layers:
        records = records_kept(replace(layer, is_first=True) if layer.name in spared else layer, batch, alike)
        feeds = feeding(layer, by_name) if records else ()
        for record, calls in records:
            forward = record.pass_ in (None, "forward")
            yield Product(
                record, layer.name, calls, f"{layer.name}/{record.pass_}", feeds if forward else (), xla, layer.place
            )


def _nothing_trained_behind(by_name: Mapping[str, Layer]) -> set[str]:
    """Return the layers of whose inputs no step takes a gradient, for all behind them is frozen."""
    frozen = any(layer.trainable is False and class_of(layer.kind).weights for layer in by_name.values())
    takers: dict[str, list[str]] = {}
    pending: list[str] = []  # what a gradient reaches
    for layer in by_name.values() if frozen else ():
        for source in layer.inputs_from:
            takers.setdefault(source, []).append(layer.name)
        behind = [by_name.get(source) for source in layer.inputs_from]
        if (not behind and layer.is_first is not True) or any(b is None or b.trainable is not False for b in behind):
            pending.append(layer.name)
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += takers.get(name, ())
    return by_name.keys() - reached if frozen else set()


def _own_products(own: Iterable[tuple[Multiplied, Records]], xla: bool | None) -> Iterator[Product]:
    """Yield the products that the code calls by itself; all passes of one have its name."""
    counts: Counter[str] = Counter()
    for made, records in own:
        name = f"{made.name}_{counts[made.name]}" if counts[made.name] else made.name
        counts[made.name] += bool(records)
        for record, calls in records:
            yield Product(record, None, calls * made.calls, name, (), xla, made.place)


def _own_passes(made: Multiplied, batch: int) -> Records:
    """Return the passes of a product that the code calls by itself; nothing where its sizes are not known."""
    a, b = (
        Operand(_with_batch(t, batch), t.fresh is not True, t.fresh is False and not t.symbolic and not t.sources)
        for t in (made.a, made.b)
    )
    return own_records(made.op, a, b, made.dtype, made.settings)


def _with_batch(tensor: Tensor, batch: int) -> Shape | None:
    shape, rows = tensor.shape, tensor.samples
    return (batch * rows if rows else None, *shape[1:]) if shape and shape[0] is None else shape


def feeding(layer: Layer, by_name: dict[str, Layer]) -> tuple[str, ...]:
    """Return the layers whose features arrive as a layer's, nearest first; only what keeps them apart between."""
    found: dict[str, None] = {}
    pending, seen = list(reversed(layer.inputs_from)), set()
    while pending:
        name = pending.pop()
        source = by_name.get(name)
        if name in seen or source is None:
            continue
        seen.add(name)
        row = class_of(source.kind)
        features = row.features
        more = features == "scaled" and source.config.get("depth_multiplier", 1) != 1
        if row.hands_on and features != "joined" and not more:
            pending.extend(reversed(source.inputs_from))
        elif features != "joined":
            found[name] = None
    return tuple(found)


def _is_told(product: Product, state: State) -> bool:
    """Return whether a product is judged here: not where another audited file has its layer and no size is told."""
    place, record = product.place, product.record
    if state.tree is None or place is None or place.file == state.source.path:
        return True
    shapes = (*record.input_shapes, record.output_shape)
    return record.dtype is not None and all(shape is not None and None not in shape for shape in shapes)


def _unseen(state: State, unused: Container[str]) -> Iterator[Unseen]:
    """Yield what could not be judged, once per call and argument."""
    named: set[tuple[ast.AST, str]] = set()
    read = _read(state)
    for draft in state.layers.drafts:
        if state.tree is not None and draft.place.file != state.source.path:
            continue  # that file is audited as well
        if draft.name in unused:
            yield Unseen(_at(draft.kind, draft.place), UNUSED, draft.place, draft.name)
            continue
        missing, of_files = dict(draft.missing), set(draft.read)
        if _judged(draft) and not missing and not any(t.last is not None for t in draft.inputs):
            names = _behind([s for t in draft.inputs for s in t.sources], state.fed)[0]
            missing[INPUT] = f"the size of {', '.join(names)} is not known" if names else "its size is not known"
            of_files |= {INPUT} if names and names.keys() <= read else set()
        for argument, reason in missing.items():
            if (draft.node, argument) not in named:
                named.add((draft.node, argument))
                place = draft.arguments.get(argument, draft.place)
                what = f"{_at(draft.kind, draft.place)}: {argument}"
                yield Unseen(what, reason, place, draft.name, argument in of_files)
    for (_, what), (reason, place) in state.missed.items():
        if state.tree is not None and place.file != state.source.path:
            continue
        yield Unseen(_at(what, place), reason, place)
    yield from _unreached(state)


def _at(what: str, place: Place) -> str:
    return f"{what} at {Path(place.file).name}:{place.position}"


def _read(state: State) -> set[str]:
    """Return the layers whose sizes a file decides that the program reads, and those whose inputs follow from these."""
    takers: dict[str, list[str]] = {}
    for draft in state.layers.drafts:
        for name in (s for t in draft.inputs if t.last is None for s in t.sources):
            takers.setdefault(name, []).append(draft.name)
    pending = [draft.name for draft in state.layers.drafts if draft.read]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += takers.get(name, ())
    return found


def _judged(draft: Draft) -> bool:
    """Return whether a layer's products depend on sizes that must be known."""
    return multiplies(draft.kind) and not draft.wrapped


def _unreached(state: State) -> Iterator[Unseen]:
    reached: Iterable[ast.Call] = {draft.node for draft in state.layers.drafts}
    for call in state.source.calls():
        kind = layer_class(call.name)
        if kind is not None and kind != "InputLayer" and call.node not in reached:
            yield Unseen(
                _at(kind, call.place),
                "nothing was seen to reach it",
                call.place,
                f"{kind}:{call.place.line}:{call.place.column}",
            )


# What the audit does not understand, counted by library and name


_KNOWN: Final = ("keras", "tensorflow", "numpy", "jax", "tf_keras")


def not_judged(
    source: Source, judged: Container[ast.AST], operators: Mapping[ast.expr, Place]
) -> tuple[NotJudged, ...]:
    """Return what is not judged, in the order of the file.

    Args:
        source: the file.
        judged: the products that are.
        operators: every ``@`` of tensors, and where it stands.
    """
    counts: dict[Foreign, list[Place]] = {}
    library = "TensorFlow" if "tensorflow" in source.text or "keras" in source.text else "JAX"
    operator = Foreign(library, "product", "@")
    met = [*_met(source, judged), *((operator, place) for node, place in operators.items() if node not in judged)]
    for what, place in sorted(met, key=lambda pair: (pair[1].line, pair[1].column)):
        counts.setdefault(what, []).append(place)
    return tuple(NotJudged(w.library, w.kind, w.name, len(places), places[0]) for w, places in counts.items())


def foreign_to_tensorflow(source: Source) -> tuple[NotJudged, ...]:
    """Return what of a file is not judged in traced mode either: what other frameworks than TensorFlow run."""
    return tuple(found for found in not_judged(source, (), {}) if found.library in ELSEWHERE)


def _met(source: Source, judged: Container[ast.AST]) -> Iterator[tuple[Foreign, Place]]:
    called = {node.func for node in source.walk.calls if isinstance(node.func, ast.Call)}
    for call in source.calls():
        what = _made_by(call, call.node in called, source) if call.node not in judged else None
        if what is not None:
            yield what, call.place
    for node in source.walk.scopes:
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = source.name_of(base)
            what = foreign_base(name) if name else None
            if what is not None:
                yield what, source.place(node)


def _made_by(call: Call, called: bool, source: Source) -> Foreign | None:
    """Return what a call makes that is not judged; `called` where its result is called in place, as a layer's is."""
    found = foreign(call.name)
    top = call.name.partition(".")[0]
    if found is None and called and "." in call.name and top not in _KNOWN and "keras" in source.text:
        found = foreign_layer(call.name)
    if found is None or found.library != top:
        return found
    return None if source.is_of_tree(call.name) else found
