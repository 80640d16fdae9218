"""Makes the records of a trace: its products, what of them executes, how often and in which sizes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ...core.gaps import Guard
from ..places import traced_line
from .execute import Match, match, optimised, swapped_in, unoptimised
from .passes import GraphPasses, OpNote
from .records import Record, blank_record, op_record
from .shapes import (
    CallSizes,
    GraphShape,
    OpShapes,
    infer,
    infer_loop,
    infer_traced,
    is_open,
    merged_shape,
    shape_list,
)
from .trace import Tracer
from .walk import Times, Visit, alternatives, ways

OPERANDS = 2  # inputs of a product that its fused form keeps, in their places


def traced_records(
    tf: Any, root: Any, visits: Sequence[Visit], graphs: Any, sizes: CallSizes, tracer: Tracer, gaps: Any
) -> List[Record]:
    """Return the records of a trace: of its products in their order, then of what executes besides.

    Args:
        tf: TensorFlow.
        root: the graph of the trace.
        visits: its products.
        graphs: what TensorFlow made of it, None where that is not known.
        sizes: fill in those that the trace leaves open.
        tracer: knows what was noted as ops were made.
        gaps: takes what fails.
    """
    graph = None if graphs is None else optimised(graphs)
    matches, extra = (list(map(unoptimised, visits)), []) if graph is None else match(visits, graph)
    others = alternatives(tracer.within(root), visits)
    passes = GraphPasses(ways(visits), tracer.note)
    names = {(id(visit.op.graph), visit.op.name): visit.names[0] for visit in visits}
    inferred: Dict[Any, OpShapes] = {}
    with Guard(gaps, "shapes of partial batches"):
        _infer(tf, root, visits, graphs, sizes, inferred)
    records = []
    for visit, executed in [*zip(visits, matches), *((v, swapped_in(v, graph)) for v in others)]:
        op, note = visit.op, tracer.note(visit.op)
        line = (traced_line(note.forward_op()) if note else None) or traced_line(op)
        record = op_record(op, visit.names[0], note, executed, line, visit.site.times)
        _fill_shapes(record, op, note, inferred.get((id(op.graph), op.name)) or inferred.get(executed.name))
        passes.tell(record, note)
        record["gradient_of"] = _gradient_of(note, names)
        records.append(record)
    for known in extra:
        times = Times(1.0 if known.in_no_loop else None)
        record = blank_record(known.path, known.op_type, Match("yes", known.name, known.op_type), times)
        shapes = inferred.get(known.name, OpShapes([], []))
        records.append(dict(record, input_shapes=shapes.inputs, output_shapes=shapes.outputs))
    return records


def _gradient_of(note: Optional[OpNote], names: Dict[Any, str]) -> Optional[str]:
    """Return the name of the product that an op is a gradient of; None where it is none, or of another trace."""
    forward = note.forward_op() if note is not None and note.forward is not None else None
    return None if forward is None else names.get((id(forward.graph), forward.name))


def _infer(
    tf: Any, root: Any, visits: Sequence[Visit], graphs: Any, sizes: CallSizes, inferred: Dict[Any, OpShapes]
) -> None:
    """Add shapes that the trace leaves open: by what an op executes as, or by its graph and name inside a dataset."""
    left = [v for v in visits if is_open(v.op)]
    if left and graphs is not None:
        inferred.update(infer(tf, graphs.post_optimization_graph, sizes))
    elif any(v.op.graph is root for v in left):
        inferred.update(((id(root), name), shapes) for name, shapes in infer_traced(tf, root, sizes).items())
    inside = {id(v.op.graph): v.op.graph for v in left if not v.site.inlined}
    for number, graph in inside.items() if sizes.batch else ():
        inferred.update(((number, name), shapes) for name, shapes in infer_loop(tf, graph, sizes).items())


def _fill_shapes(record: Record, op: Any, note: Optional[OpNote], inferred: Optional[OpShapes]) -> None:
    inputs: List[GraphShape] = record["input_shapes"]
    outputs: List[GraphShape] = record["output_shapes"]
    forward = note.forward_op() if note is not None and "Backprop" in op.type else None
    if forward is not None and note is not None and note.wrt is not None and outputs:
        # a gradient is as large as its input
        outputs[0] = merged_shape(outputs[0], shape_list(forward.inputs[note.wrt]))
    if inferred is not None:
        same = len(inferred.inputs) == len(inputs)
        operands = inferred.inputs if same else inferred.inputs[:OPERANDS]
        for shapes, more in ((inputs, operands), (outputs, inferred.outputs[:1])):
            shapes[: len(more)] = [merged_shape(a, b) for a, b in zip(shapes, more)]
