"""tcprobe/analysis/ops/paths.py: the modules in name stacks of JAX, as public HLO texts hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.ops.attribution import GraphIndex, OpName, attribute_ops
from tcprobe.analysis.ops.paths import parse_path
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import GRAPH_OPS

STACKS = {
    "jit(f)/dot_general": (),
    "jit(f)/jit(main)/dot_general[dimension_numbers=(((1,), (0,)), ((), ())) name=a/b]": (),
    "jit(_einsum)/jit(main)/...ij,jk->...ik/dot_general": (),
    "jit(step)/Net/Dense_0/dot_general": ("Net", "Dense_0"),
    "jit(step)/jit(main)/transpose(jvp(Net))/attention/bhqd,bkhd->bhqk/dot_general": ("Net", "attention"),
    "jit(step)/jvp(foo)/jvp(while)/jvp(body)/jvp(scan_body)/mul": ("foo", "scan_body"),
    "jit(step)/jvp()/closed_call/while/body/experts/cond/branch_1_fun/dot_general": ("experts",),
    "jit(step)/jvp(vmap(jit(relu)))/max": (),
    "pmap(step)/transpose(jvp(vmap(Net)))/Dense_0/dot_general": ("Net", "Dense_0"),
    "jit(step)/jit(main)/transpose(jvp(Wan.loss))/Wan.forward/transformer/transformer.forward/while/body/checkpoint"
    "/rematted_computation/blocks/blocks.forward/attn/attn.forward/dot_general": (
        "Wan.loss", "transformer", "blocks", "attn",
    ),
    "jit(f)/eqx.nn.MLP/eqx.nn.Linear/dot_general": ("eqx.nn.MLP", "eqx.nn.Linear"),
    "jit(f)/Net/body/cond/dot_general": ("Net", "body", "cond"),  # modules of these names are no loop's
    "jit(f)/scale(2)/dot_general": ("scale(2)",),
    "jit(f)/Net/custom_vjp_call/custom_partitioning/dot_general": ("Net",),
}  # fmt: skip


@pytest.mark.parametrize("op", STACKS)
def test_the_scopes_are_those_of_modules(op: str) -> None:
    path = parse_path(op)
    assert path.scopes == STACKS[op]
    assert path.gradient == ("transpose(" in op)


FRAMES = st.sampled_from(
    ["jit(main)", "jvp()", "while/body", "closed_call", "checkpoint", "...ij,...jk->...ik", "cond/branch_0_fun"]
)  # fmt: skip
MODULES = st.lists(st.sampled_from(["Net", "Dense_0", "attention", "block_3", "mlp"]), max_size=4)


@given(MODULES, st.data())
def test_what_stands_between_modules_never_changes_them(modules: list[str], data: st.DataObject) -> None:
    parts = ["jit(step)"]
    for module in modules:
        parts += [
            *data.draw(st.lists(FRAMES, max_size=2)),
            data.draw(st.sampled_from(["{}", "jvp({})"])).format(module),
        ]
    parts += [*data.draw(st.lists(FRAMES, max_size=2)), "dot_general"]
    assert parse_path("/".join(parts)).scopes == tuple(modules)


def test_equations_and_functions_of_tensorflow_are_no_layers() -> None:
    ops = {
        "jit(f)/bhqd,bkhd->bhqk/dot_general": None,
        "jit(f)/Net/attention/bhqd,bkhd->bhqk/dot_general": "Net/attention",
        "jit(f)/Net/attention/query/dot_general": "Net/attention/query",
        "einsum/Einsum": None,
        "einsum_1/Einsum": None,
        "Tensordot_2/MatMul": None,
        "model/attention/einsum/Einsum": "model/attention",
        "model/attention/einsum_1/Einsum": "model/attention",
        "model/dense/Tensordot/MatMul": "model/dense",
    }
    names = [OpName(op, op.rpartition("/")[2]) for op in ops]
    found = attribute_ops(names, GraphIndex(Table.from_rows(GRAPH_OPS, [])))
    assert dict(zip(ops, (a.layer for a in found), strict=True)) == ops
