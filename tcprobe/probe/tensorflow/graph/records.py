"""Makes the records of graph.json: one per product; docs/run-folder.md says what each key means."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...core.journal import write_atomically
from ..places import traced_line
from .execute import Executed, Match, in_no_loop
from .notes import OpNote
from .passes import GraphPasses
from .shapes import GraphShape, OpShapes, merged_shape, shape_list
from .walk import Times, Visit

SCHEMA = 1
OPERANDS = 2  # inputs of a product that its fused form keeps, in their places
ATTRIBUTES = (
    "transpose_a transpose_b adj_x adj_y strides dilations padding explicit_paddings data_format equation rnn_mode"
    " direction input_mode"
).split()
Record = Dict[str, Any]


def op_record(
    visit: Visit, note: Optional[OpNote], passes: GraphPasses, match: Match, shapes: Optional[OpShapes]
) -> Record:
    """Return the record of one traced product; `shapes` fills in sizes that its graph does not know."""
    op = visit.op
    inputs, outputs = _shapes(op, note, shapes)
    layer, pass_ = note.layer if note else None, passes.of(note)
    shaping = attributes(op.type, op.get_attr, [a.name for a in op.op_def.attr], inputs, outputs)
    return {
        "op": visit.path,
        "op_type": op.type,
        "executed_op": match.name,
        "executed_type": match.op_type,
        "executes": match.executes,
        "pass": pass_,
        "layer": layer.path if layer else None,
        "layer_class": layer.layer_class if layer else None,
        "input_shapes": inputs,
        "input_dtypes": [t.dtype.base_dtype.name for t in op.inputs],
        "output_shapes": outputs,
        "output_dtypes": [t.dtype.base_dtype.name for t in op.outputs],
        "attributes": with_form(shaping, pass_, passes.form(note)),
        **repeats_of(visit.times),
        "source": layer.source if layer else None,
        "called_from": (traced_line(note.forward_op()) if note else None) or traced_line(op),
        "alias_of": list(match.aliases),
    }


def repeats_of(times: Times) -> Record:
    """Return the keys of an op that say how often it runs in one call of its function."""
    return {"repeats": times.number, "at_least": times.at_least, "in_steps_loop": times.steps_loop is not None}


def executed_record(op: Executed, shapes: Optional[OpShapes]) -> Record:
    """Return the record of an op of the optimised graph that nothing traced explains."""
    record = dict.fromkeys(("layer", "layer_class", "source", "called_from"))
    known = shapes or OpShapes([], [])
    return {
        "op": op.path,
        "op_type": op.op_type,
        "executed_op": op.name,
        "executed_type": op.op_type,
        "executes": "yes",
        "pass": "other",
        "input_shapes": known.inputs,
        "input_dtypes": [],
        "output_shapes": known.outputs,
        "output_dtypes": [],
        "attributes": {},
        "alias_of": [],
        **repeats_of(Times(1.0 if in_no_loop(op) else None)),
        **record,
    }


def _shapes(op: Any, note: Optional[OpNote], inferred: Optional[OpShapes]) -> Tuple[List[GraphShape], List[GraphShape]]:
    inputs = [shape_list(t) for t in op.inputs]
    outputs = [shape_list(t) for t in op.outputs]
    forward = note.forward_op() if note is not None and "Backprop" in op.type else None
    if forward is not None and note is not None and note.wrt is not None and outputs:
        # a gradient is as large as its input
        outputs[0] = merged_shape(outputs[0], shape_list(forward.inputs[note.wrt]))
    if inferred is not None:
        count = OPERANDS if len(inferred.inputs) != len(inputs) else len(inputs)
        inputs[:count] = [merged_shape(a, b) for a, b in zip(inputs[:count], inferred.inputs)] or inputs[:count]
        outputs[:1] = [merged_shape(a, b) for a, b in zip(outputs[:1], inferred.outputs)]
    return inputs, outputs


def attributes(
    op_type: str, get: Any, present: Sequence[str], inputs: Sequence[GraphShape], outputs: Sequence[GraphShape]
) -> Record:
    """Return the attributes that shape the arithmetic, with the groups of a convolution where they are known."""
    values = {name: json_value(get(name)) for name in ATTRIBUTES if name in present}
    values = {name: value for name, value in values.items() if value not in (None, [], "")}
    count = groups(op_type, str(values.get("data_format", "NHWC")), inputs, outputs)
    if count is not None:
        values["groups"] = count
    return values


def with_form(values: Record, pass_: str, form: Optional[str]) -> Record:
    """Return attributes with the multiplication that an op of no pass computes: a gradient of a gradient has none."""
    return dict(values, form=form) if pass_ == "other" and form is not None else values


def json_value(value: Any) -> Any:
    """Return an attribute's value as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [json_value(v) for v in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def groups(
    op_type: str, data_format: str, inputs: Sequence[GraphShape], outputs: Sequence[GraphShape]
) -> Optional[int]:
    """Return the groups of a Conv2D or Conv3D, in either direction: channels of its input over those of its filter."""
    if not op_type.startswith(("Conv2D", "Conv3D")) or len(inputs) < 2 or not outputs:
        return None
    image = outputs[0] if "BackpropInput" in op_type else inputs[0]
    kernel = outputs[0] if "BackpropFilter" in op_type else inputs[1]
    if image is None or kernel is None or len(kernel) < 2 or len(image) != len(kernel):
        return None
    channels, each = image[1] if data_format.startswith("NC") else image[-1], kernel[-2]
    return channels // each if channels and each and channels % each == 0 else None


def write_json(path: str, data: Record) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, whole."""
    write_atomically(path, json.dumps(data, separators=(",", ":")))  # json.dump encodes in Python, an order slower
