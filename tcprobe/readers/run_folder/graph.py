"""Read the graph that the probe recorded: the products of each traced function, and how often a step runs them.

Each function has the shapes in which its calls ran within the profiled window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from msgspec import UNSET, Meta, Struct, convert, field
from msgspec.structs import replace

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import read
from tcprobe.jsonfile import MOST_BYTES, Number, Text, parse, record, records
from tcprobe.readers.run_folder.periods import part_calls
from tcprobe.readers.run_folder.steps import TableAndNotes, damaged, home
from tcprobe.schema.columns import Table
from tcprobe.schema.op import PASSES
from tcprobe.schema.profile import Note
from tcprobe.schema.tables import EXECUTES_BASES, GRAPH_OPS, SCOPES, USES_TC

NUMBERS: Final = "0123456789_"
SHAPES: Final = ("input_shapes", "output_shapes")
_Object = dict[str, Any]


class _Signature(Struct):
    """Calls of a part of training that ran one trace in one set of shapes."""

    key: Any
    at_ns: list[Annotated[int, Meta(ge=0, lt=2**53)]]
    name: Text | None = None  # of the trace; None where it is not in the file
    shapes: list[Any] | None = None  # of its ops; empty where unknown, None where they are those of the trace


def with_signatures(graph: Mapping[str, Any], steps: Table | None) -> list[Any]:
    """Return the functions of graph.json, each once for every set of shapes in which it ran.

    Where there are several, ``called_in`` lists the steps of the calls. A half of a call that is traced apart (the
    gradient that a tape outside takes) has no signature of its own: its shapes are unknown where those of calls differ.

    Args:
        graph: its content.
        steps: of the run; None where none are known, and then no call is of any.
    """
    functions, variants = (_list(graph.get(name)) for name in ("functions", "variants"))
    by_name = {one["name"]: one for one in (*functions, *variants) if isinstance(one, dict) and "name" in one}
    by_key: dict[str, list[_Signature]] = {}
    for signature in records(_Signature, graph.get("signatures")):
        by_key.setdefault(json.dumps(signature.key), []).append(signature)
    found: list[Any] = []
    for function in functions:
        mine = by_key.get(json.dumps(function.get("key")), []) if isinstance(function, dict) else []
        if mine and isinstance(function.get("name"), str):
            found += _each(function, mine, by_name, steps)
        else:
            found.append(function)
    return found


def _each(
    function: _Object, mine: Sequence[_Signature], by_name: Mapping[Any, _Object], steps: Table | None
) -> list[_Object]:
    if len(mine) == 1 and mine[0].shapes is None:
        return [function]
    if all(one.name is None or _stem(one.name) != _stem(function["name"]) for one in mine):
        return [function if len(mine) == 1 else _unsized(function)]
    alike: dict[str, tuple[_Object, list[int]]] = {}
    for one in mine:
        ran = _in_shapes(function, one, by_name)
        essence = json.dumps([_essence(op) for op in _list(ran.get("ops"))])
        alike.setdefault(essence, (ran, []))[1].extend(one.at_ns)
    if len(alike) == 1:
        return [ran for ran, _ in alike.values()]
    return [{**ran, "called_in": _numbers(times, steps)} for ran, times in alike.values()]


def _in_shapes(function: _Object, signature: _Signature, by_name: Mapping[Any, _Object]) -> _Object:
    """Return a function with the ops that a signature ran, in its shapes; of a trace without products it has none."""
    if signature.name is None:
        return _unsized(function)
    ran = by_name.get(signature.name, {"name": signature.name, "ops": []})
    ops, shapes = _list(ran.get("ops")), signature.shapes
    kept = {key: value for key, value in function.items() if key not in ("name", "ops", "executed_basis")}
    ran = {**kept, "name": signature.name, "executed_basis": ran.get("executed_basis"), "ops": ops}
    if shapes is None:
        return ran
    if len(shapes) != len(ops) or any(not isinstance(each, list) or len(each) != len(SHAPES) for each in shapes):
        return _unsized(ran)
    pairs = zip(ops, shapes, strict=True)
    return {
        **ran,
        "ops": [{**op, **dict(zip(SHAPES, each, strict=True))} for op, each in pairs if isinstance(op, dict)],
    }


def _unsized(function: _Object) -> _Object:
    """Return a function without the shapes of its ops."""
    ops = [{**op, **{key: [] for key in SHAPES}} for op in _list(function.get("ops")) if isinstance(op, dict)]
    return {**function, "ops": ops}


def _essence(op: Any) -> list[Any]:
    return [op.get(key) for key in ("op", "op_type", "executes", *SHAPES)] if isinstance(op, dict) else []


def _numbers(times: Sequence[int], steps: Table | None) -> list[int]:
    """Return the step of each call, of those that are of one."""
    if steps is None:
        return []
    starts, numbers = steps.numbers("start_ns"), steps.numbers("step")
    order = np.argsort(starts, kind="stable")
    place = np.searchsorted(starts[order], np.array(sorted(times)), side="right") - 1
    return [int(step) for step in numbers[order][place[place >= 0]]]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _stem(name: str) -> str:
    """Return a trace's name without TensorFlow's numbers."""
    return name.rstrip(NUMBERS)


Key = Annotated[int, Meta(gt=-(2**53), lt=2**53)]
PLAIN: Final = ("op", "op_type", "executed_op", "executed_type", "layer", "layer_class", "source", "called_from")
_IN_LOOP = re.compile(r"(?:^|/)(?:while|cond|case)(?:_\d+)?/")


class _Op(Struct):
    """An op of graph.json; what is named as in `GRAPH_OPS` is its column."""

    op: Text
    op_type: Text
    executed_op: Text | None = None
    executed_type: Text | None = None
    layer: Text | None = None
    layer_class: Text | None = None
    source: Text | None = None
    called_from: Text | None = None
    executes: str | None = None
    pass_: str | None = field(default=None, name="pass")
    input_shapes: list[Any] | None = None
    input_dtypes: list[Any] | None = None
    output_shapes: list[Any] = field(default_factory=list)
    output_dtypes: list[Any] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    alias_of: list[Any] = field(default_factory=list)
    # a damaged number is not an absent one, which says that the probe left the calls open
    calls_per_step: Any = UNSET
    repeats: Any = UNSET
    at_least: Any = False
    in_steps_loop: Any = False


class _Caller(Struct):
    """A part of eager steps that calls a function, and how often one call of it does."""

    key: Key
    calls: Number


class _Function(Struct):
    """A function of graph.json."""

    name: Text | None = None
    python_name: Any = None
    training: Any = False
    key: Key | None = None
    executed_basis: str | None = None
    calls_per_step: Number | None = None
    calls_in_phases: list[Any] | None = None
    called_in: list[Any] | None = None
    share: Number = 1.0
    callers: list[Any] = field(default_factory=list)
    ops: list[Any] = field(default_factory=list)


def load_graph(path: Path) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """Return what graph.json holds, nothing where it is missing or damaged, and what is wrong with it."""
    try:
        data = parse(read(path, MOST_BYTES, home(path)).decode())
    except MissingInput:
        return {}, ()
    except (InputError, ValueError) as error:
        return {}, (damaged(path, _reason(error), "no layers, shapes and sizes from the graph"),)
    if not isinstance(data, dict) or not isinstance(data.get("functions"), list):
        return {}, (damaged(path, "it holds no list of functions", "no layers, shapes and sizes from the graph"),)
    return data, ()


def read_graph(
    path: Path,
    graph: dict[str, Any],
    probe: dict[str, Any],
    phases: Table | None,
    profiled: int = -1,
    steps: Table | None = None,
) -> TableAndNotes:
    """Return `GRAPH_OPS` of the training functions in a graph, and what is wrong with it.

    Ops of functions that do not train are left out; those that no counted step calls stay, with 0 calls. An op that
    is damaged is skipped and counted. The other names under which an op may appear in a profile go into
    ``attributes`` as ``aliases``.

    Args:
        path: of graph.json.
        graph: its content.
        probe: probe.json.
        phases: of the run.
        profiled: row of the phase that the profiled window lies in.
        steps: of the run, of which the calls under the profiler are.
    """
    each = [] if phases is None else part_calls(phases)
    functions = records(_Function, with_signatures(graph, steps))
    trained = [f for f in functions if f.training or any(f.key in parts for parts in each)]
    if isinstance(probe.get("parts"), list):  # else it has divided itself
        trained = [_divided(f, each, profiled) for f in trained]
    ops = [(f, record(_Op, op)) for f in trained for op in f.ops]
    good = [(f, _counted(f, op)) for f, op in ops if op]
    notes = (damaged(path, f"{len(ops) - len(good)} of {len(ops)} ops lack a name or type", "they are left out"),)
    return (_graph_table(good, _whole_step(probe, trained)) if good else None), notes if len(good) < len(ops) else ()


def read_scopes(graph: dict[str, Any]) -> Table | None:
    """Return `SCOPES` of graph.json; None where it has none."""
    found = graph.get("scopes")
    rows = found.items() if isinstance(found, dict) else ()
    good = [{"scope": scope, "layer": layer} for scope, layer in rows if scope and _text(layer)]
    return Table.from_rows(SCOPES, good) if good else None


def _graph_table(ops: list[tuple[_Function, _Op]], whole: _Function | None) -> Table:
    return Table(
        GRAPH_OPS,
        {
            **{name: [getattr(op, name) for _, op in ops] for name in PLAIN},
            "function": [f.name for f, _ in ops],
            "executes": [op.executes if op.executes in USES_TC else "unknown" for _, op in ops],
            "executes_basis": [_basis(f, op) for f, op in ops],
            "pass": [op.pass_ if op.pass_ in PASSES else None for _, op in ops],
            "input_shapes": [_json_list(op.input_shapes) for _, op in ops],
            "input_dtypes": [_json_list(op.input_dtypes) for _, op in ops],
            "output_shape": [_json_list(next(iter(op.output_shapes), None)) for _, op in ops],
            "output_dtype": [_text(next(iter(op.output_dtypes), None)) for _, op in ops],
            "attributes": [_attributes(op) for _, op in ops],
            "calls_per_step": [_calls(f, op, f is whole) for f, op in ops],
            "part": [f.key for f, _ in ops],
            "calls_in_phases": [_json_list(f.calls_in_phases) for f, _ in ops],
            "called_in": [_json_list(f.called_in) for f, _ in ops],
            "repeats": [_number(op.repeats) for _, op in ops],
            "at_least": [op.at_least is True for _, op in ops],
        },
    )


def _basis(function: _Function, op: _Op) -> str | None:
    """Return what says whether the op executes; where XLA compiles all that is traced, only liveness says no."""
    basis = function.executed_basis
    if basis == "traced" and op.executes == "no":
        return "liveness"
    return basis if basis in EXECUTES_BASES else None


def _divided(function: _Function, each: list[dict[int, float | None]], profiled: int) -> _Function:
    """Return a function with its calls in a step of each phase, by itself and by the eager parts that call it."""
    if not each or function.key is None or function.calls_per_step is not None:
        return function
    callers = [(function.key, function.share), *((c.key, c.calls) for c in records(_Caller, function.callers))]
    found: list[float | None] = []
    for parts in each:
        calls = [parts.get(key, 0.0) if parts else None for key, _ in callers]
        known = [one * times for one, (_, times) in zip(calls, callers, strict=True) if one is not None]
        found.append(sum(known) if len(known) == len(calls) else None)
    return replace(function, calls_in_phases=found, calls_per_step=found[profiled])


def _counted(function: _Function, op: _Op) -> _Op:
    """Return an op with how often a step runs it, as probes before wrote it themselves.

    Where one call makes several steps, its calls in one are below 1, and the loop that makes them turns as often.
    """
    if op.calls_per_step is not UNSET:
        return op
    repeats, at_least, calls = _number(op.repeats), op.at_least is True, function.calls_per_step
    if op.in_steps_loop is True and repeats is not None:
        several = calls is not None and 0 < calls < 1
        repeats, at_least = (repeats / calls, at_least) if several and calls else (repeats, True)
    known = None if calls is None or repeats is None else calls * repeats
    return replace(op, repeats=UNSET if op.repeats is UNSET else repeats, at_least=at_least, calls_per_step=known)


def _whole_step(probe: dict[str, Any], training: list[_Function]) -> _Function | None:
    """Return the function that is a step by itself, by probe.json; None where several train, or a step is more.

    Probes that recorded no loops (`repeats`) left its calls open at times.
    """
    steps = probe.get("steps")
    if not isinstance(steps, dict) or steps.get("period") != 1 or len(training) != 1:
        return None
    return training[0] if steps.get("functions") == [training[0].python_name] else None


def _calls(function: _Function, op: _Op, is_step: bool) -> float | None:
    """Return how often an op runs in a step: never where its function is not called, once where that is the step."""
    if is_step and function.calls_per_step is op.calls_per_step is None and op.repeats is UNSET:
        return None if _IN_LOOP.search(op.op) else 1.0
    return 0.0 if function.calls_per_step == 0 else _number(op.calls_per_step)


def _attributes(op: _Op) -> str:
    aliases = [alias for alias in op.alias_of if isinstance(alias, str)]
    return json.dumps({**op.attributes, **({"aliases": aliases} if aliases else {})}, sort_keys=True)


def _reason(error: Exception) -> str:
    return error.found if isinstance(error, InputError) else str(error)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    try:
        number: float = convert(value, Number)
    except ValueError:  # another value, or half a character
        return None
    return number


def _json_list(value: Any) -> str | None:
    return json.dumps(value) if isinstance(value, list) else None
