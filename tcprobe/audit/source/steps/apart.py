"""From what the program trains to its steps: the layers and products of each, and whether XLA compiles it.

Models that train in one loop, or inside one model, are one step. Those that nothing in the file trains are a step
each, as they are where they are traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

from msgspec import Struct

from tcprobe.audit.source.kinds import (
    Arguments,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Multiplied,
    SourceValue,
    Stack,
    Training,
)
from tcprobe.audit.source.layers import multiplies
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values import SpentError, tensors_of
from tcprobe.keras.products.sequences import uses_cudnn
from tcprobe.keras.settings import wrapped_layer
from tcprobe.schema.model import Layer, Place
from tcprobe.source.source import Source
from tcprobe.source.values import Known

_MOST_PARTS: Final = 200_000


class SourceStep(Struct, frozen=True):
    """What trains together.

    Attributes:
        layers: names of its layers.
        products: those that the code calls by itself, by their ids.
        models: what is trained.
        place: of the first call that trains it, else where its model is constructed; None where unknown.
        training: what trains it first; None where nothing in the file does.
        frozen: names of layers that it leaves as they are; None where that is as the file leaves them at its end.
    """

    layers: frozenset[str]
    products: frozenset[int] = frozenset()
    models: tuple[SourceValue, ...] = ()
    place: Place | None = None
    training: Training | None = None
    frozen: frozenset[str] | None = None


def steps_of(state: State, drafts: Iterable[Draft], own: Iterable[Multiplied]) -> list[SourceStep]:
    """Return the steps that a program trains, in its order, then those of models that it only builds.

    Each layer is in one or more of them, as is each product.

    Args:
        state: what following the program found.
        drafts: the layers that count.
        own: the products that the code calls by itself.
    """
    names = {draft.name: draft for draft in drafts}
    products = [*own]
    whole = SourceStep(frozenset(names), frozenset(map(id, products)))
    try:
        steps = _Reading(state, names).steps(products)
    except SpentError:
        return [whole]
    return steps or [whole]


def never_trained(state: State, steps: Iterable[SourceStep]) -> list[SourceStep]:
    """Return the steps of models that the program builds and does not train, where it is known what it trains."""
    steps = [*steps]
    if state.trains_unknown or state.seen.cut or not any(step.training is not None for step in steps):
        return []
    reading = _Reading(state, {})
    try:
        handed = reading.members(state.handed_on.values())[1]
    except SpentError:
        return []
    matrices = {draft.name for draft in state.layers.drafts if multiplies(draft.kind)}
    built = [step for step in steps if step.training is None and step.models and step.layers & matrices]
    return [step for step in built if handed.isdisjoint(map(id, step.models))]


def _joined(step: SourceStep, other: SourceStep) -> SourceStep:
    return SourceStep(
        step.layers | other.layers, step.products | other.products, step.models, step.place, step.training, step.frozen
    )


class _Reading:
    """Tells steps apart; `names` are the layers that count."""

    def __init__(self, state: State, names: Mapping[str, Draft]) -> None:
        self._state = state
        self._names = names
        self._all = {draft.name: draft for draft in state.layers.drafts}
        self._left = _MOST_PARTS

    def steps(self, products: list[Multiplied]) -> list[SourceStep]:
        """Return the steps; a layer or product of none is beside the first that it is linked with, else in one more."""
        state = self._state
        holders = {id(made): key[4] for key, made in state.multiplied.items()}
        trained = [self._of_training(t, products, holders) for t in state.trainings]
        steps = _distinct([step for step in trained if step.layers or step.products])
        steps += self._built(frozenset().union(*(step.layers for step in steps)), products, holders)
        rest = frozenset(self._names) - frozenset().union(*(step.layers for step in steps))
        beside = frozenset(map(id, products)) - frozenset().union(*(step.products for step in steps))
        steps = self._unlike(steps)
        if not rest and not beside:
            return steps
        if len(steps) < 2:
            return [SourceStep(rest, beside)] if not steps else [_joined(steps[0], SourceStep(rest, beside))]
        return self._with_rest(steps, rest, beside)

    def _unlike(self, steps: list[SourceStep]) -> list[SourceStep]:
        """Return steps without those that are like an earlier one: a function makes a model anew for each fold."""
        kept: dict[object, SourceStep] = {}
        for step in steps:
            drafts = (self._names[name] for name in step.layers)
            made = sorted(
                repr((d.place, d.kind, d.config, d.name in (step.frozen or ()), [t.shape for t in d.inputs]))
                for d in drafts
            )
            training = step.training or Training()
            own = () if made else tuple(sorted(step.products))
            kept.setdefault((tuple(made), own, training.fits, training.tapes, training.batch), step)
        return list(kept.values())

    def _of_training(
        self, training: Training, products: list[Multiplied], holders: Mapping[int, Instance | None]
    ) -> SourceStep:
        values = list(training.models.values())
        layers, instances = self.members(values)
        own = (m for m in products if m.within is training or id(holders[id(m)]) in instances)
        frozen = training.frozen & layers
        return SourceStep(layers, frozenset(map(id, own)), tuple(values), training.place, training, frozen)

    def _built(
        self, taken: frozenset[str], products: list[Multiplied], holders: Mapping[int, Instance | None]
    ) -> list[SourceStep]:
        """Return the models with layers that nothing trains, those left out that are parts of others."""
        state = self._state
        models: list[Stack | Graph | Instance] = [*state.stacks, *state.graphs]
        models += [instance for instance in state.instances if instance.keras == "model"]
        made = []
        for model in models:
            layers, instances = self.members([model])
            own = frozenset(id(m) for m in products if id(holders[id(m)]) in instances)
            if layers - taken:
                made.append(SourceStep(layers, own, (model,), model.place))
        ordered = sorted(made, key=lambda step: (step.place is None, step.place.line if step.place else 0))
        largest = sorted(ordered, key=lambda step: -len(step.layers))
        kept: list[SourceStep] = []
        for step in largest:
            if not any(step.layers <= other.layers for other in kept):
                kept.append(step)
        return [step for step in ordered if any(step is one for one in kept)]

    def _with_rest(self, steps: list[SourceStep], rest: frozenset[str], products: frozenset[int]) -> list[SourceStep]:
        """Return steps with the layers that are in no model: each is where those are that it feeds, or that feed it."""
        links: dict[str, set[str]] = {name: set() for name in self._names}
        for draft in self._names.values():
            for source in self._sources(draft.name):
                if source in links:
                    links[source].add(draft.name)
                    links[draft.name].add(source)
        owner = {name: index for index, step in reversed([*enumerate(steps)]) for name in step.layers}
        pending = {name for name in rest if any(other in owner for other in links[name])}
        while pending:  # the nearest first, so that their order tells nothing
            owner |= {name: min(owner[o] for o in links[name] if o in owner) for name in pending}
            pending = {other for name in pending for other in links[name] if other not in owner}
        apart = frozenset(name for name in rest if name not in owner)
        more = [frozenset(name for name in rest if owner.get(name) == index) for index in range(len(steps))]
        joined = [_joined(step, SourceStep(layers)) for step, layers in zip(steps, more, strict=True)]
        return [*joined, *([SourceStep(apart, products)] if apart or products else [])]

    def members(self, values: Iterable[SourceValue]) -> tuple[frozenset[str], set[int]]:
        """Return the layers of models that count, by name, and the objects of the file's own classes, by their ids."""
        found: set[str] = set()
        seen: set[int] = set()
        pending = [*values]
        while pending:
            part = pending.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            self._spend()
            if type(part) is Draft:
                found.add(part.name)
            elif type(part) is Stack:
                pending += part.parts
            elif type(part) is Graph:
                found |= self._between(part)
            elif type(part) is Instance:
                pending += part.attrs.values()
            elif type(part) is Items:
                pending += part.items
            elif type(part) is Entries:
                pending += part.entries.values()
        return frozenset(found & self._names.keys()), seen

    def _between(self, graph: Graph) -> set[str]:
        """Return the layers between a functional model's inputs and outputs."""
        ends = {s for tensor in tensors_of(graph.inputs) for s in tensor.sources}
        found: set[str] = set()
        pending = [s for tensor in tensors_of(graph.outputs) for s in tensor.sources]
        while pending:
            name = pending.pop()
            if name not in found and name not in ends:
                self._spend()
                found.add(name)
                pending += self._sources(name)
        return found

    def _sources(self, name: str) -> list[str]:
        """Return what a layer takes, or what an input of a model is given, by name."""
        draft = self._all.get(name)
        taken = self._state.fed.get(name, []) if draft is None else [*draft.inputs, *draft.other]
        return [source for tensor in taken for source in tensor.sources]

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise SpentError


def _distinct(steps: list[SourceStep]) -> list[SourceStep]:
    """Return steps once each.

    What takes gradients outside any loop may run in one that was not followed: it is left out where another step has
    all of it (the `train_step` of a class), else one step with all loops.
    """
    once: list[SourceStep] = []
    for step in steps:
        if not any(_same(s, step) for s in once):
            once.append(step)
    unlooped = [s for s in once if s.training is not None and not s.training.fits and s.training.node is None]
    inside = [s for s in unlooped if any(_within(s, other) for other in once if other is not s)]
    once = [step for step in once if not any(step is s for s in inside)]
    loops = [s for s in once if s.training is not None and not s.training.fits]
    if len(unlooped) > len(inside):
        once = [*(s for s in once if not any(s is loop for loop in loops)), reduce(_joined, loops)]
    order = {id(step.training): index for index, step in reversed([*enumerate(steps)])}
    return sorted(once, key=lambda step: order[id(step.training)])


def _same(a: SourceStep, b: SourceStep) -> bool:
    alike = (a.layers, a.products, a.frozen) == (b.layers, b.products, b.frozen)
    return alike and a.training is not None and b.training is not None and a.training.fits is b.training.fits


def _within(step: SourceStep, other: SourceStep) -> bool:
    return step.layers <= other.layers and step.products <= other.products


_KERAS_2: Final = ("tf_keras", "TF_USE_LEGACY_KERAS", "tensorflow.python.keras", "fit_generator")
"""What only code for Keras 2 says, which never uses XLA by itself."""
_AUTO: Final = "auto"


class Xla(Struct, frozen=True):
    """Whether XLA compiles a step; None where unknown. `by_default` where that is what Keras does of itself."""

    on: bool | None
    by_default: bool = False


def compiled_by_xla(state: State, step: SourceStep, layers: Iterable[Layer]) -> Xla:
    """Return whether XLA compiles a step of these layers."""
    source = state.source
    if state.auto_jit:
        return Xla(True)
    if step.training is not None and step.training.tapes:
        return Xla(_flagged(source, of_models=False))
    given = [state.compiled[id(model)] for model in step.models if id(model) in state.compiled]
    if (flag := _told(given)) is not None:
        return Xla(flag)
    if not given and step.training is None and _has_own_loop(source):
        return Xla(_flagged(source, of_models=False))
    if not given and (flagged := _flagged(source, of_models=True)) is not None:
        return Xla(flagged)
    return Xla(*_by_default(source, layers))


def _told(given: Iterable[Arguments]) -> bool | None:
    """Return the ``jit_compile`` of the calls of `compile`; None where Keras decides."""
    for arguments in given:
        eager, flag = (arguments.keywords.get(name) for name in ("run_eagerly", "jit_compile"))
        if type(eager) is Known and eager.value is True:
            return False
        if type(flag) is Known and flag.value != _AUTO:
            return bool(flag.value)
    return None


def _by_default(source: Source, layers: Iterable[Layer]) -> tuple[bool, bool]:
    """Return what Keras decides, and whether that is an assumption.

    Source: keras/src/trainers/trainer.py, `_resolve_auto_jit_compile` and `model_supports_jit`; keras/src/layers/rnn,
    `supports_jit`.
    """
    if any(word in source.text for word in _KERAS_2):
        return False, False
    if any(map(_in_cudnn, layers)) or any(_forbids(call.name) for call in source.calls()):
        return False, False
    return True, True


def _forbids(name: str) -> bool:
    """Return whether a call keeps Keras from compiling: a strategy, or ops that must be deterministic."""
    last = name.rpartition(".")[2]
    return last == "enable_op_determinism" or (name.startswith("tensorflow.distribute.") and last.endswith("Strategy"))


def _in_cudnn(layer: Layer) -> bool:
    kind, config = (wrapped_layer(layer.config) if layer.kind == "Bidirectional" else None) or (
        layer.kind,
        layer.config,
    )
    return uses_cudnn(kind, config) is not False


def _has_own_loop(source: Source) -> bool:
    """Return whether a file takes gradients itself and compiles no model."""
    return "GradientTape" in source.text and ".compile(" not in source.text


def _flagged(source: Source, of_models: bool) -> bool | None:
    """Return True where every ``jit_compile`` that is given to models, else to functions, is True; None elsewhere."""
    calls = [node for node in source.walk.calls if (getattr(node.func, "attr", "") == "compile") is of_models]
    found = [source.known(k.value) for node in calls for k in node.keywords if k.arg == "jit_compile"]
    return True if found and all(known is not None and known.value is True for known in found) else None
