"""Matching what was traced with what the optimised graph holds, on graphs made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.tensorflow.graph.called import bare_type, is_gemm
from tcprobe.probe.tensorflow.graph.execute import (
    Executed,
    Optimised,
    assign,
    match,
    normalised,
    swapped_in,
    unoptimised,
)
from tcprobe.probe.tensorflow.graph.walk import Called, Site, Visit, fused_names


class FakeOp(SimpleNamespace):
    """An op of a chain: `then` appends an op that consumes its output."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name=name, type=kind, after=[])
        self.outputs = [SimpleNamespace(consumers=lambda: self.after)]

    def then(self, name: str, kind: str) -> FakeOp:
        self.after.append(FakeOp(name, kind))
        added: FakeOp = self.after[-1]
        return added


def visit(op: Any, *prefixes: str, live: bool = True, **site: Any) -> Visit:
    return Visit(op, Site((), prefixes or ("",), **site), live)


def graph(*ops: Executed, calls: dict[str, str] | None = None, clustered: bool = False) -> Optimised:
    return Optimised(list(ops), calls or {}, clustered)


def executed(name: str, kind: str = "MatMul") -> Executed:
    return Executed(name, kind, name, True)


def test_a_fused_op_bears_the_name_of_the_last_op_that_it_swallowed() -> None:
    product = FakeOp("dense/MatMul", "MatMul")
    product.then("dense/BiasAdd", "BiasAdd").then("dense/Relu", "Relu").then("next/MatMul", "MatMul")
    assert fused_names(product) == ["dense/BiasAdd", "dense/Relu"]
    (found,), extra = match([visit(product)], graph(executed("dense/Relu", "_MklNativeFusedMatMul")))
    assert (found.executes, found.name, found.op_type) == ("yes", "dense/Relu", "_MklNativeFusedMatMul")
    assert extra == []


def test_two_products_into_one_sum_do_not_share_the_fused_op() -> None:
    first, second = FakeOp("a/MatMul", "MatMul"), FakeOp("b/MatMul", "MatMul")
    total = first.then("sum", "AddV2")
    second.after.append(total)
    found, extra = match([visit(first), visit(second)], graph(executed("sum", "_FusedMatMul"), executed("b/MatMul")))
    assert [m.name for m in found] == ["sum", "b/MatMul"]
    assert extra == []


def test_a_convolution_is_no_matrix_product_of_the_same_name() -> None:
    (found,), extra = match([visit(FakeOp("x", "MatMul"))], graph(executed("x", "Conv2D")))
    assert found.executes == "no"
    assert [op.name for op in extra] == ["x"]


def test_what_the_optimised_graph_lacks_was_pruned() -> None:
    (found,), _ = match([visit(FakeOp("x", "MatMul"))], graph())
    assert (found.executes, found.name) == ("no", None)


def test_inside_a_cluster_only_dead_ops_are_known() -> None:
    ops = [visit(FakeOp("x", "MatMul")), visit(FakeOp("y", "MatMul"), live=False)]
    found, _ = match(ops, graph(clustered=True))
    assert [m.executes for m in found] == ["unknown", "no"]


def test_a_call_left_in_the_graph_runs_its_function_unless_another_was_put_in() -> None:
    inner = visit(FakeOp("MatMul", "MatMul"), "lstm/Call/", "", calls=(Called("lstm/Call", "standard_1"),))
    (kept,), _ = match([inner], graph(calls={"lstm/Call": "standard_1_specialized_for_x"}))
    (swapped,), _ = match([inner], graph(calls={"lstm/Call": "gpu_lstm_2"}))
    assert (kept.executes, kept.name, kept.op_type) == ("yes", "MatMul", None)
    assert swapped.executes == "no"


def test_branches_of_one_name_are_told_apart_by_their_number() -> None:
    visits = [visit(FakeOp("MatMul", "MatMul"), "case/branch/_N/") for _ in range(2)]
    nodes = [executed(f"case/branch/_{i}/MatMul") for i in (3, 7)]
    found, extra = match(visits, graph(*nodes))
    assert [m.name for m in found] == [n.name for n in nodes]
    assert extra == []


def test_without_a_collected_graph_the_outputs_decide() -> None:
    product = FakeOp("MatMul", "MatMul")
    product.then("Relu", "Relu")
    live = unoptimised(visit(product, "f/", ""))
    assert live.executes == "yes"
    assert live.name == "f/MatMul"
    assert set(live.aliases) == {"f/MatMul", "MatMul", "f/Relu", "Relu"}
    assert unoptimised(visit(product, live=False)).executes == "no"
    assert unoptimised(visit(product, compiled=True)).executes == "unknown"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/while/body/_12/a/while/MatMul", "a/while/body/_N/a/while/MatMul"),
        ("cond/then/_1/b/else/_2/c", "cond/then/_N/b/else/_N/c"),
        ("x/ArithmeticOptimizer/FoldTransposeIntoMatMul_MatMul", "x/MatMul"),
        ("body/_1", "body/_1"),
    ],
)
def test_counters_and_marks_of_rewrites_do_not_count(path: str, expected: str) -> None:
    assert normalised(path) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("_MklNativeFusedBatchMatMulV2", "BatchMatMul"),
        ("_FusedConv2D", "Conv2D"),
        ("_MklNativeConv2DBackpropFilterWithBias", "Conv2DBackpropFilter"),
        ("_MklPadWithFusedConv2D", "Conv2D"),
        ("Conv3DBackpropInputV2", "Conv3DBackpropInput"),
        ("DepthwiseConv2dNative", "DepthwiseConv2dNative"),
        ("CudnnRNNV3", "CudnnRNN"),
    ],
)
def test_families(kind: str, expected: str) -> None:
    assert bare_type(kind) == expected
    assert is_gemm(kind)


@pytest.mark.parametrize("kind", ["BiasAdd", "_FusedBatchNormEx", "MatMulGradHelper", "Mul", "AvgPool", ""])
def test_no_other_op_is_a_product(kind: str) -> None:
    assert not is_gemm(kind)


def test_of_two_like_traces_the_second_ran() -> None:
    root = SimpleNamespace(get_operations=lambda: [FakeOp("a", "MatMul")])
    node = SimpleNamespace(name="a", op="MatMul")
    collected = SimpleNamespace(pre_optimization_graph=SimpleNamespace(node=[node]))
    assert assign([collected], [root, root]) == {1: collected}


def test_keras_2s_form_for_a_gpu_executes_where_the_optimised_graph_calls_it() -> None:
    op = FakeOp("CudnnRNN", "CudnnRNNV3")
    op.graph = SimpleNamespace(name="gpu_lstm_with_fallback")
    form = visit(op)
    called = {"lstm/Call": "__forward_gpu_lstm_with_fallback_7_specialized_for_x"}
    assert swapped_in(form, graph(calls=called)).executes == "yes"
    assert swapped_in(form, graph(calls={"lstm/Call": "__forward_standard_lstm_3"})).executes == "no"
    assert swapped_in(form, None).executes == "unknown"


def test_a_loop_that_is_made_anew_for_its_gradient_has_another_number() -> None:
    body = "call/while/body/_N/"
    one, other = FakeOp("while/a/MatMul", "MatMul"), FakeOp("while/b/MatMul", "MatMul")
    one.then("while/a/Relu", "Relu")
    made = [Executed(f"call/while_14/body/_52/while/{n}", k, f"call/while_14/body/_52/while/{n}", True)
            for n, k in (("a/Relu", "_FusedMatMul"), ("b/MatMul", "MatMul"))]  # fmt: skip
    found, extra = match([visit(one, body), visit(other, body)], graph(*made))
    assert ([m.name for m in found], extra) == ([op.name for op in made], [])
    again = [op._replace(path=op.path.replace("_14", "_15")) for op in made]
    found, extra = match([visit(one, body), visit(other, body)], graph(*made, *again))
    assert ([m.executes for m in found], len(extra)) == (["no", "no"], 4)
