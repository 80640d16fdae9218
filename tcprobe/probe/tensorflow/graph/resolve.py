"""Makes the records of a trace: its products, what of them executes, how often and in which sizes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...core.gaps import Guard
from ..places import traced_line
from .execute import Executed, Match, match, optimised, swapped_in, unoptimised
from .notes import OpNote
from .passes import GraphPasses, Pass
from .records import Record, op_record, repeats_of, tell_pass
from .shapes import CallSizes, GraphShape, OpShapes, has_unknown, infer, infer_loop, merged_shape, shape_list
from .trace import Tracer
from .types import is_gemm
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
    inferred: Dict[str, OpShapes] = {}
    if graphs is not None and _shapes_missing(visits):
        with Guard(gaps, "shapes of partial batches"):
            inferred = infer(tf, graphs.post_optimization_graph, sizes, is_gemm)
    in_loops = _in_dataset_loops(tf, visits, sizes, gaps)
    others = alternatives(tracer.within(root), visits)
    passes = GraphPasses(ways(visits), tracer.note)
    records = []
    for visit, found in [*zip(visits, matches), *((v, swapped_in(v, graph)) for v in others)]:
        note = tracer.note(visit.op)
        shapes = in_loops.get((id(visit.op.graph), visit.op.name)) or inferred.get(found.name or "")
        records.append(_traced_record(visit, note, passes.of(note), found, shapes))
    return records + [_executed_record(op, inferred.get(op.name)) for op in extra]


def _shapes_missing(visits: Sequence[Visit]) -> bool:
    return any(has_unknown([shape_list(t) for t in (*v.op.inputs, *v.op.outputs)]) for v in visits)


def _in_dataset_loops(tf: Any, visits: Sequence[Visit], sizes: CallSizes, gaps: Any) -> Dict[Tuple[int, str], OpShapes]:
    """Return the shapes of products that run for each element of a dataset and are unknown in the trace."""
    graphs = {id(v.op.graph): v.op.graph for v in visits if not v.site.inlined and _shapes_missing([v])}
    found: Dict[Tuple[int, str], OpShapes] = {}
    for number, graph in graphs.items() if sizes.batch else ():
        with Guard(gaps, "shapes of partial batches"):
            inside = infer_loop(tf, graph, sizes, is_gemm)
            found.update(((number, name), shapes) for name, shapes in inside.items())
    return found


def _traced_record(
    visit: Visit, note: Optional[OpNote], pass_: Pass, executed: Match, shapes: Optional[OpShapes]
) -> Record:
    """Return the record of one traced product; `shapes` fills in sizes that its graph does not know."""
    line = (traced_line(note.forward_op()) if note else None) or traced_line(visit.op)
    record = op_record(visit.op, visit.names[0], note, executed, line, visit.site.times)
    _fill_shapes(record, visit.op, note, shapes)
    tell_pass(record, pass_)
    return record


def _executed_record(op: Executed, shapes: Optional[OpShapes]) -> Record:
    """Return the record of an op of the optimised graph that nothing traced explains."""
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
        **dict.fromkeys(("layer", "layer_class", "source", "called_from")),
        **repeats_of(Times(1.0 if op.in_no_loop else None)),
    }


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
