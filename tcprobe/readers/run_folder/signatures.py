"""Give each function of graph.json the shapes in which its calls ran within the profiled window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct

from tcprobe.jsonfile import Text, records
from tcprobe.schema.columns import Table

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
