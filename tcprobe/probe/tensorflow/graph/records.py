"""Makes the records of graph.json: one per product; docs/run-folder.md says what each key means."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

from ...core.journal import write_atomically
from .execute import Match
from .passes import OpNote
from .shapes import shape_list
from .walk import Times

SCHEMA = 1
ATTRIBUTES = frozenset(
    (
        "transpose_a transpose_b adj_x adj_y strides dilations padding explicit_paddings data_format equation rnn_mode"
        " direction input_mode"
    ).split()
)
Record = Dict[str, Any]
ONCE = Times()


def op_record(
    op: Any, name: str, note: Optional[OpNote], executed: Match, line: Optional[str], times: Times = ONCE
) -> Record:
    """Return the record of a product of a graph or of an eager step; its pass is told later."""
    layer = note.layer if note else None
    return dict(
        blank_record(name, op.type, executed, times),
        layer=layer.path if layer else None,
        layer_class=layer.layer_class if layer else None,
        input_shapes=[shape_list(t) for t in op.inputs],
        input_dtypes=[t.dtype.base_dtype.name for t in op.inputs],
        output_shapes=[shape_list(t) for t in op.outputs],
        output_dtypes=[t.dtype.base_dtype.name for t in op.outputs],
        attributes=attributes(op),
        source=layer.source if layer else None,
        called_from=line,
    )


def blank_record(name: str, op_type: str, executed: Match, times: Times) -> Record:
    """Return the record of an op of which nothing else is known."""
    return {
        "op": name,
        "op_type": op_type,
        "executed_op": executed.name,
        "executed_type": executed.op_type,
        "executes": executed.executes,
        "pass": "other",
        "layer": None,
        "layer_class": None,
        "input_shapes": [],
        "input_dtypes": [],
        "output_shapes": [],
        "output_dtypes": [],
        "attributes": {},
        "repeats": times.number,
        "at_least": times.at_least,
        "in_steps_loop": times.steps_loop is not None,
        "source": None,
        "called_from": None,
        "gradient_of": None,
        "alias_of": list(executed.aliases),
    }


def attributes(op: Any) -> Record:
    """Return the attributes of an op that shape its arithmetic."""
    values = {a.name: json_value(op.get_attr(a.name)) for a in op.op_def.attr if a.name in ATTRIBUTES}
    return {name: value for name, value in values.items() if value not in (None, [], "")}


def json_value(value: Any) -> Any:
    """Return an attribute's value as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [json_value(v) for v in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def write_json(path: str, data: Record) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, whole."""
    write_atomically(path, json.dumps(data, separators=(",", ":")))  # json.dump encodes in Python, an order slower
