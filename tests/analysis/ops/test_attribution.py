"""From op names to layers: by record where there is one, by path where that is safe."""

from __future__ import annotations

import pytest

from tcprobe.analysis.ops.attribution import Attribution, GraphIndex, OpName, attribute_ops, with_layers, with_proof
from tcprobe.analysis.ops.paths import NOTHING_KNOWN, parse_path, pass_of_path, plain_path, scope_of
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import SCOPES
from tests.analysis import builders as b

TF24 = [
    OpName("alex_net/conv2d_1/Relu", "_FusedConv2D"),
    OpName("gradient_tape/alex_net/conv2d_1/Conv2D/Conv2DBackpropFilter", "Conv2DBackpropFilter"),
    OpName("gradient_tape/alex_net/conv2d_1/Conv2D/Conv2DBackpropInput", "Conv2DBackpropInput"),
    OpName("alex_net/batch_normalization/FusedBatchNormV3", "FusedBatchNormV3"),
    OpName("gradient_tape/alex_net/batch_normalization/FusedBatchNormGradV3", "FusedBatchNormGradV3"),
    OpName("gradient_tape/alex_net/dense/MatMul/MatMul_1", "MatMul"),
    OpName("Adam/Adam/update_1/ResourceApplyAdam", "ResourceApplyAdam"),
    OpName("gradient_tape/mean_squared_error/mul/Mul", "Mul"),
]


def by_path(names: list[OpName]) -> list[tuple[str | None, str | None]]:
    return [(a.layer, a.pass_) for a in attribute_ops(names, GraphIndex(b.graph()))]


def test_layers_from_paths() -> None:
    assert by_path(TF24) == [
        ("alex_net/conv2d_1", "forward"), ("alex_net/conv2d_1", "wgrad"), ("alex_net/conv2d_1", "dgrad"),
        ("alex_net/batch_normalization", "forward"), ("alex_net/batch_normalization", "other"),
        ("alex_net/dense", "other"), (None, None), (None, None),
    ]  # fmt: skip


def test_layers_called_by_themselves_and_other_spellings() -> None:
    names = [
        OpName("StatefulPartitionedCall/m_1/fc_1/MatMul", "MatMul"),
        OpName("StatefulPartitionedCall/gradient_tape/m_1/fc_1/MatMul/MatMul", "MatMul"),
        OpName("replica_1/m_1/fc_1/MatMul", "MatMul"),
        OpName("gradients/m_1/conv2d_3/Conv2D_grad/Conv2DBackpropFilter", "Conv2DBackpropFilter"),
        OpName("dense_1/Tensordot/MatMul", "MatMul"),
        OpName("jit(step)/transpose(jvp(Net))/Dense_0/dot_general", "dot_general"),
        OpName("/module/net::forward/Linear::forward/linear", "linear"),
    ]
    assert [layer for layer, _ in by_path(names)] == [
        "m_1/fc_1", "m_1/fc_1", "m_1/fc_1", None, "dense_1", "Net/Dense_0", None,
    ]  # fmt: skip


def test_transposed_convolution_by_path() -> None:
    names = [
        OpName("m/up/conv2d_transpose", "Conv2DBackpropInput"),
        OpName("gradient_tape/m/up/conv2d_transpose/Conv2D", "Conv2D"),
        OpName("gradient_tape/m/up/conv2d_transpose/Conv2DBackpropFilter", "Conv2DBackpropFilter"),
    ]
    assert by_path(names) == [("m/up", "forward"), ("m/up", "dgrad"), ("m/up", "wgrad")]


def test_suffixes_of_scopes_are_never_stripped() -> None:
    names = [OpName("m/dense_1/MatMul", "MatMul"), OpName("m/dense_1_2/MatMul", "MatMul")]
    assert [layer for layer, _ in by_path(names)] == ["m/dense_1", "m/dense_1_2"]


def test_a_gradient_of_a_gradient_stands_under_its_layer_and_is_the_input_gradient_of_none() -> None:
    path = parse_path("StatefulPartitionedCall/gradient_tape/gradient_tape/critic/conv/convolution/Conv2D")
    assert path.scopes == ("critic", "conv", "convolution")
    assert pass_of_path(path, "Conv2D", True) == "other"
    assert pass_of_path(path, "Conv2DBackpropInput", True) == "other"
    assert pass_of_path(path, "Conv2DBackpropFilter", True) == "wgrad"


def test_gradient_scope_without_forward_ops() -> None:
    path = parse_path("gradient_tape/m/conv_1/convolution/Conv2DBackpropFilter")
    assert scope_of(path, NOTHING_KNOWN) == ("m", "conv_1")


RECORDS = b.graph(
    b.dense("gen/a", 8, 8),
    {**b.dense("gen/b", 8, 8), "executed_op": "model/gen/b/Relu", "executed_type": "_FusedMatMul"},
    {**b.dense("gen/c", 8, 8), "attributes": {"aliases": ["model/gen/c/Tanh:_FusedMatMul"]}},
    {**b.dense("gen/d", 8, 8), "op": "cond/then/_12/model/d/MatMul", "pass": "wgrad"},
    {**b.dense("pruned", 8, 8), "op": "model/gen/a/MatMul", "executes": "no"},
)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        (OpName("model/gen/a/MatMul", "MatMul"), "gen/a"),
        (OpName("model/gen/b/Relu", "_FusedMatMul"), "gen/b"),
        (OpName("model/gen/b/MatMul", "MatMul"), "gen/b"),
        (OpName("model/gen/c/Tanh", "_FusedMatMul"), "gen/c"),
        (OpName("cond/then/_3/model/d/MatMul", "MatMul"), "gen/d"),
        (OpName("ArithmeticOptimizer/FoldTransposeIntoMatMul_model/gen/a/MatMul", "MatMul"), "gen/a"),
        (OpName("StatefulPartitionedCall/model/gen/a/MatMul", "_MklMatMul"), "gen/a"),
        (OpName("model/gen/a/MatMul", "dot", "module(3)", "dot.7"), "gen/a"),
        (OpName("model/gen/a/BiasAdd", "BiasAdd"), "gen/a"),
    ],
)
def test_join_with_records(name: OpName, layer: str) -> None:
    (found,) = attribute_ops([name], GraphIndex(RECORDS))
    assert found.layer == layer
    assert found.basis == ("name" if name.op_type == "BiasAdd" else "graph")


def test_several_records_say_only_what_they_agree_on() -> None:
    twice = b.graph(b.dense("a", 8, 8), {**b.dense("b", 8, 8), "op": "model/a/MatMul", "source": "model.py:3"})
    (found,) = attribute_ops([OpName("model/a/MatMul", "MatMul")], GraphIndex(twice))
    assert (found.layer, found.source, found.rows) == (None, "model.py:3", (0, 1))


def test_an_op_that_nothing_knows() -> None:
    assert attribute_ops([OpName("x", None)], GraphIndex(b.graph())) == [Attribution()]


def test_instructions_of_xla_get_layer_and_pass_from_their_path() -> None:
    hlo = b.graph(
        {"op": "m/fc/MatMul", "op_type": "dot", "function": "module(1)", "executed_op": "dot.1", "pass": None},
        {
            "op": "gradient_tape/m/fc/MatMul/MatMul_1",
            "op_type": "dot",
            "function": "module(1)",
            "executed_op": "dot.2",
            "pass": None,
        },
    )
    filled = with_layers(hlo)
    assert filled.values("layer") == ["m/fc", "m/fc"]
    assert filled.values("pass") == ["forward", "other"]
    (found,) = attribute_ops([OpName("m/fc/MatMul", "dot", "module(1)", "dot.1")], GraphIndex(filled))
    assert (found.layer, found.rows) == ("m/fc", (0,))


def test_parts_of_a_layer_fold_into_it_and_take_the_name_of_the_model() -> None:
    record = {**b.dense("gen/fc", 8, 8), "op": "gen_1/fc_1/MatMul"}
    names = [
        OpName("gen_1/fc_1/MatMul", "MatMul"),
        OpName("gen_1/norm_1/moments/mean", "Mean"),
        OpName("gradient_tape/gen_1/norm_1/batchnorm/mul/Mul", "Mul"),
        OpName("gen_1/fc_1/Reshape/shape", "Pack"),
    ]
    assert [a.layer for a in attribute_ops(names, GraphIndex(b.graph(record)))] == [
        "gen/fc",
        "gen/norm_1",
        "gen/norm_1",
        "gen/fc",
    ]


def test_what_ran_executes_whatever_the_graph_says() -> None:
    records = b.graph(*(b.dense(name, 8, 8, executes=e) for name, e in (("a", "no"), ("b", "no"), ("c", "yes"))))
    proven = with_proof(records, frozenset({0, 2}))
    assert proven.values("executes") == ["yes", "no", "yes"]
    assert proven.values("executes_basis") == ["profile", None, None]


def test_plain() -> None:
    assert plain_path("StatefulPartitionedCall_1/cond/else/_77/m/MatMul") == "cond/else/_/m/MatMul"


def test_a_loop_in_a_function_that_is_not_inlined_is_its_layers_and_no_layer_of_its_own() -> None:
    body = "gradients/while_grad/while_grad/body/_{}/gradients/while_grad/gradients/while/MatMul_grad/MatMul_1"
    records = b.graph(
        {**b.dense("net/lstm", 8, 8), "op": "net/lstm/call/while/body/_N/while/MatMul",
         "executed_op": "while/body/_N/while/MatMul", "executed_type": None},
        {**b.dense("net/lstm", 8, 8), "op": f"SGD/{body.format('N')}", "executed_op": body.format("N"),
         "executed_type": None, "pass": "wgrad"},
    )  # fmt: skip
    names = [
        OpName("while_15/body/_1/while/MatMul", "_MklMatMul"),
        OpName(body.format(1), "_MklMatMul"),
        OpName("while_15/body/_1/while/MatMul_9", "_MklMatMul"),
        OpName("while_15/cond/_0/while/Less", "Less"),
    ]
    found = attribute_ops(names, GraphIndex(records))
    assert [(a.layer, a.pass_, a.rows) for a in found] == [
        ("net/lstm", "forward", (0,)), ("net/lstm", "wgrad", (1,)), (None, "forward", ()), (None, None, ()),
    ]  # fmt: skip


def test_an_op_under_another_name_of_a_product_runs_no_product() -> None:
    records = b.graph({**b.dense("a", 8, 8), "attributes": {"aliases": ["model/a/BiasAdd", "model/AddN_3"]}})
    names = [OpName("model/a/MatMul", "MatMul"), OpName("model/a/BiasAdd", "BiasAdd"), OpName("model/AddN_3", "AddN")]
    found = attribute_ops([*names, OpName("model/a/BiasAdd", "_FusedMatMul")], GraphIndex(records))
    assert [(a.layer, a.rows) for a in found] == [("a", (0,)), ("a", ()), ("a", ()), ("a", (0,))]


def test_a_recorded_scope_tells_the_layer_and_none_is_stripped() -> None:
    scopes = Table.from_rows(
        SCOPES,
        [
            {"scope": "m_1", "layer": "m"},
            {"scope": "m_1/pool_1", "layer": "m/pool"},
            {"scope": "m_1/pool_1_1", "layer": "m/pool_1"},
        ],
    )
    names = [
        OpName("StatefulPartitionedCall/m_1/pool_1/MaxPool2d", "MaxPool"),
        OpName("gradient_tape/m_1/pool_1/MaxPool2d/MaxPoolGrad", "MaxPoolGrad"),
        OpName("m_1/pool_1_1/sub/Mean", "Mean"),
        OpName("m_1/Cast", "Cast"),
        OpName("elsewhere/pool_1/MaxPool2d", "MaxPool"),
    ]
    found = attribute_ops(names, GraphIndex(b.graph(b.dense("m/fc", 8, 8)), scopes=scopes))
    assert [(a.layer, a.pass_) for a in found] == [
        ("m/pool", "forward"), ("m/pool", "other"), ("m/pool_1", "forward"), ("m", "forward"), (None, None),
    ]  # fmt: skip


def test_an_op_that_two_of_its_names_lead_to_is_one() -> None:
    aliases = {"aliases": ["StatefulPartitionedCall/model/a/Relu", "model/a/Relu"]}
    index = GraphIndex(b.graph(b.dense("a", 4, 4, op="StatefulPartitionedCall/model/a/MatMul", attributes=aliases)))
    (found,) = attribute_ops([OpName("StatefulPartitionedCall/model/a/Relu", "_FusedMatMul")], index)
    assert found.rows == (0,)
