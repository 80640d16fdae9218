"""The user's own functions, entered where they are called; objects of own classes, constructed and called."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.attributes import of_tensor
from tcprobe.audit.source.kinds import (
    NOTHING,
    Arguments,
    Bound,
    Class,
    Entries,
    Env,
    Graph,
    Instance,
    Items,
    Keywords,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.trainings import note_called
from tcprobe.audit.source.values import (
    doubted,
    find_member,
    lineage,
    one_of,
    result_of,
    tensors_of,
    with_tensors,
)
from tcprobe.keras.catalogue import by_path, canonical_name, layer_class
from tcprobe.keras.row import LayerKind
from tcprobe.source.names import PASSED
from tcprobe.source.scopes import all_parameters, marked
from tcprobe.source.values import DOUBTED

_MOST_DEEP: Final = 24
CALLED_AGAIN: Final = (
    "a step calls {} several times; what it multiplies counts once, so that shares of the step may be too large (traced"
    " mode counts each)"
)
FUNCTIONAL: Final = "_functional"  # the attribute that holds the functional model that an object is, as in Keras 3
_FOLLOWED: Final[Mapping[LayerKind, str]] = {"model": "model", "sequence": "Sequential", "base": "layer"}


def enter(p: State, routine: Routine, given: Arguments) -> SourceValue:
    """Follow a function; return what it returns."""
    p.entered.add(routine.node)
    own = p.is_own(routine.env)
    again = sum(frame.node is routine.node for frame in p.frames) > 1 or len(p.frames) > _MOST_DEEP
    if again or not own:
        p.seen.unsure.update(p.calling[-1:])
    if not own and p.abroad > p.most_abroad:
        return Unknown("is computed in another file")
    if again:
        return Unknown("calls itself")
    p.step()
    env, returned = Env(routine.env, _parameters(routine, given)), list[SourceValue]()
    with p.being(env=env, frames=[*p.frames, routine], returned=returned, inner=len(p.doubts)):
        if isinstance(routine.node, ast.Lambda):
            returned.append(p.value(routine.node.body))
        else:
            p.run(routine.node.body)
    return one_of(returned) if returned else NOTHING


def _parameters(routine: Routine, given: Arguments) -> dict[str, SourceValue]:
    """Return a function's parameters by name, as a call binds them."""
    arguments = routine.node.args
    names, known = _named(arguments)
    bound = routine.bound
    if bound is not None and marked(routine.node, "staticmethod"):
        bound = None
    args = [bound, *given.args] if bound is not None else given.args
    values: dict[str, SourceValue] = dict(zip(names, args, strict=False))
    values.update({k: v for k, v in given.keywords.items() if k in known})
    for name in known - values.keys():
        default = routine.defaults.get(name) or Unknown(f"{name} comes from a function argument")
        values[name] = doubted(default, DOUBTED) if given.lacking else default
    doubts = DOUBTED if isinstance(routine.node, ast.Lambda) else frozenset({routine.node})
    values = {name: doubted(value, doubts) for name, value in values.items()}
    if arguments.vararg is not None:
        values[arguments.vararg.arg] = Items(args[len(names) :], None, DOUBTED)
    if arguments.kwarg is not None:
        values[arguments.kwarg.arg] = Entries({k: v for k, v in given.keywords.items() if k not in known})
    values.update({name: Named(PASSED[name]) for name in PASSED if type(values.get(name)) is Unknown})
    return values


@lru_cache(maxsize=1024)
def _named(arguments: ast.arguments) -> tuple[list[str], set[str]]:
    """Return the names of the parameters that are passed by position, and of all."""
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args)], {a.arg for a in all_parameters(arguments)}


def defaults_of(arguments: ast.arguments, value: Callable[[ast.expr], SourceValue]) -> Keywords:
    """Return the defaults of a function's parameters by name, `value` evaluating them where it is defined."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    found = {arg.arg: value(default) for arg, default in pairs}
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**found, **{arg.arg: value(default) for arg, default in named if default is not None}}


# Classes


def construct(p: State, of: Class, given: Arguments, node: ast.Call) -> Instance:
    """Construct an object of a class of the file."""
    keras = extends(of)
    made = Instance(of, {}, keras, names=[of.node.name, *p.names(node)], place=p.here.place(node))
    if keras is not None and keras not in ("model", "layer"):
        p.miss(node, of.node.name, f"inherits from {keras} in this file, and is not guessed at")
    p.instances.append(made)
    p.hand(of.node)
    if isinstance(init := find_member(of, "__init__"), Routine):
        enter(p, replace(init, bound=made), given)
    elif keras is None:
        _fill(made, given)
    elif keras == "model":
        _functional(p, made, given.get(0, "inputs"), given.get(1, "outputs"))
    return made


def _functional(p: State, made: Instance, inputs: SourceValue | None, outputs: SourceValue | None) -> None:
    """Note that an object of a class that extends Keras' is a functional model of these inputs and outputs."""
    if outputs is not None:
        p.graphs.append(Graph(inputs or Unknown(""), outputs, place=made.place))
        made.attrs.setdefault(FUNCTIONAL, p.graphs[-1])


def apply_instance(p: State, of: Instance, given: Arguments, node: ast.Call) -> SourceValue:
    """Call a model or layer of the user's own class: follow its `call`."""
    call = find_member(of.of, "call" if of.keras else "__call__")
    if type(call) is not Routine or of.keras not in (None, "model", "layer"):
        return result_of(node, *given.all)
    note_called(p, of, tensors_of(*given.all))
    args, keywords = given.args, {k: v for k, v in given.keywords.items() if k != "mask"}
    eager = bool(of.keras) and not any(t.symbolic for t in tensors_of(*given.all))
    if eager and not counts(p, of, node) and of.output is not None:
        return _as_data(of.output) if not p.in_model else of.output
    eager = eager and not p.in_model
    if of.keras:
        args = [_traced(p, a, of) for a in _inputs(p, args, of)] if eager else args
        if not of.uses:
            _build(p, of, args)
        keywords.setdefault("training", Unknown("training or not"))
    of.uses = max(of.uses, 1) if eager else of.uses + 1
    of.is_inner = of.is_inner or p.in_model
    made = enter(p, replace(call, bound=of), Arguments(args, keywords))
    of.output = of.output or made
    return _as_data(made) if eager else made


def counts(p: State, of: Instance | Stack | Graph, node: ast.Call) -> bool:
    """Return whether a call with data is one more of a step: no step has had as many calls of the model before."""
    around = p.frames[-1].node if p.frames else None
    if p.taped and len(p.frames) > 1:
        ways = p.ways_in.setdefault((of, p.frames[-2].node, around), set())
        ways.update(p.calling[-2:-1])
        if len(ways) > 1:
            p.note(CALLED_AGAIN.format(getattr(around, "name", "a lambda")))
    most = max(map(len, of.sites.values()), default=0)
    of.sites.setdefault(around, set()).add(node)
    return len(of.sites[around]) > most


def _inputs(p: State, args: list[SourceValue], of: Instance) -> list[SourceValue]:
    """Return what a model is called with, its input of the shape that the user gives where nothing is known."""
    if not args or type(args[0]) is not Unknown or of.keras != "model":
        return args
    shape = p.given.filled(None, of.names)
    return [Tensor(shape, None, (), True, True), *args[1:]] if shape is not None else args


def _traced(p: State, value: SourceValue, of: Instance) -> SourceValue:
    """Return data as the input of a model: symbolic, its batch open, what is not known as the user gives it."""

    def traced(tensor: Tensor) -> Tensor:
        shape = (None, *tensor.shape[1:]) if tensor.shape else None
        shape = p.given.filled(shape, of.names, by_name=of.keras == "layer")
        return replace(tensor, shape=shape, symbolic=True, rows=1, batch=0)

    return with_tensors(value, traced)


def _build(p: State, of: Instance, args: list[SourceValue]) -> None:
    if isinstance(build := find_member(of.of, "build"), Routine):
        first = args[0] if args else None
        shape = of_tensor(first, "shape") if type(first) is Tensor else Unknown("its input shape is not known")
        enter(p, replace(build, bound=of), Arguments([shape], {}))


def inherited(p: State, above: Bound, name: str, given: Arguments) -> SourceValue:
    """Call a method of the classes above: ``super().name()``."""
    holder = above.args[0]
    for base in holder.bases if type(holder) is Class else ():
        found = find_member(base, name) if type(base) is Class else None
        if type(found) is Routine:
            return enter(p, replace(found, bound=above.target), given)
    if name == "__init__" and type(above.target) is Instance and "outputs" in given.keywords:
        _functional(p, above.target, given.keywords.get("inputs"), given.keywords["outputs"])
    return Unknown(f"is the result of super().{name}()")


def extends(of: SourceValue) -> str | None:
    """Return which of Keras' classes a class extends: ``model``, ``layer`` or a name; None where none."""
    for base in lineage(of):
        name = canonical_name(base.name) if type(base) is Named and base is not of else ""
        row = by_path().get(name)
        found = _FOLLOWED.get(row.kind, layer_class(name)) if row is not None else None
        if found is not None:
            return found
    return None


def _fill(made: Instance, given: Arguments) -> None:
    """Give a record its fields, as a data class or a named tuple does."""
    for of in reversed([c for c in lineage(made.of) if type(c) is Class]):
        declared = [
            s.target.id for s in of.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
        ]
        for name in dict.fromkeys([*made.attrs, *declared]):
            default = of.members.get(name) or made.attrs.get(name)
            made.attrs[name] = default or Unknown(f"{name} of {of.node.name} is not set")
    made.attrs.update(zip(list(made.attrs), given.args, strict=False))
    made.attrs.update({k: v for k, v in given.keywords.items() if k in made.attrs})


def _as_data(value: SourceValue) -> SourceValue:
    """Return what a model made of data: data again, with the layers that it comes from."""
    return with_tensors(value, lambda tensor: replace(tensor, symbolic=False))
