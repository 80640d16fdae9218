"""The time of layout changes and casts beside the ops that could use Tensor Cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis.causes.bar import around_ns
from tcprobe.analysis.causes.kernels import by_op, kernels_of
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.tables import KERNELS
from tests.analysis import builders as b
from tests.analysis.causes.runs import CAST, LAYOUT, STEPS, run

TURN = "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 128, 9, 128, false>(unsigned int)"
COPY = "void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda(at::T&)>(int)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"


def found(*ops: tuple[Any, ...], reverse: bool = False) -> dict[str, int]:
    """Return op -> its time around, of ops (name, type, capable, layer, pass, (kernel, cause, ns)...)."""
    rows: dict[tuple[str, str | None], Row] = {}
    kernels: list[dict[str, Any]] = []
    for name, kind, capable, layer, direction, *launched in ops:
        spent = sum(ns for _, _, ns in launched) if launched else None
        rows[name, kind] = {
            "op": name, "op_type": kind, "tc_capable": capable, "layer": layer, "pass": direction, "sum_ns": spent,
        }  # fmt: skip
        for kernel, cause, ns in launched:
            kernels.append({"device": 0, "kernel": kernel, "op": name, "op_type": kind, "sum_ns": ns, "uses_tc": "no",
                            "evidence": "its name", "cause": cause})  # fmt: skip
    if reverse:
        kernels, rows = kernels[::-1], dict(reversed(rows.items()))
    told = kernels_of(Table.from_rows(KERNELS, kernels), rows)
    for kernel, row in zip(told, kernels, strict=True):
        kernel.cause = row["cause"]
    return {name: ns for (name, _), ns in around_ns(by_op(told), rows).items()}


CONV = ("m/c/Conv2D", "Conv2D", "yes", "m/c", "forward", (b.TC, "none", 900), (LAYOUT, "layout", 30))


def test_its_own_kernels_and_those_of_its_layer_and_pass() -> None:
    """30 of its own, 20 of the cast; neither the backward cast, nor another layer's, nor the bias."""
    others = (
        ("m/c/Cast", "Cast", "no", "m/c", "forward", (CAST, "type", 20)),
        ("gradient_tape/m/c/Cast", "Cast", "no", "m/c", "other", (CAST, "type", 40)),
        ("m/d/Cast", "Cast", "no", "m/d", "forward", (CAST, "type", 80)),
        ("Cast", "Cast", "no", None, None, (CAST, "type", 160)),
        ("m/c/BiasAdd", "BiasAdd", "no", "m/c", "forward", (b.OTHER, "type", 320)),
    )
    assert found(CONV, *others) == found(*others, CONV, reverse=True) == {"m/c/Conv2D": 50}


def test_ops_of_a_layer_share_by_their_time() -> None:
    # 100 ns beside ops of 900, 300 and 0 ns: 75 and 25; the other pass has none
    ops = tuple(
        (f"m/a/{name}", "MatMul", "yes", "m/a", way, (b.TC, "none", ns))
        for name, way, ns in (("q", "forward", 900), ("k", "forward", 300), ("v", "forward", 0), ("g", "dgrad", 500))
    )
    turned = ("m/a/transpose", "Transpose", "no", "m/a", "forward", (TURN, "type", 100))
    assert found(*ops, turned) == {"m/a/q": 75, "m/a/k": 25, "m/a/v": 0, "m/a/g": 0}


def test_what_the_layout_optimiser_named_after_an_op_is_of_that_op() -> None:
    other = ("m/c/Conv2D_1", "Conv2D", "yes", "m/c", "forward", (b.TC, "none", 900))
    named = (
        ("m/c/Conv2D-0-0-TransposeNCHWToNHWC-LayoutOptimizer", "Transpose", "no", "m/c", "other", (TURN, "type", 7)),
        ("m/c/Conv2D-1-TransposeNHWCToNCHW-LayoutOptimizer", "Transpose", "no", None, None, (TURN, "type", 5)),
        ("m/p/MaxPool-0-0-TransposeNCHWToNHWC-LayoutOptimizer", "Transpose", "no", "m/p", "forward", (TURN, "type", 9)),
    )
    assert found(CONV, other, *named) == {"m/c/Conv2D": 42, "m/c/Conv2D_1": 0}


@pytest.mark.parametrize(
    ("kind", "kernel", "ns"),
    [
        ("Cast", CAST, 20), ("Transpose", TURN, 20), ("transpose", "wrapped_transpose", 20),
        ("convert", "wrapped_convert", 20), ("copy", "copy_fusion", 20), ("aten::to", COPY, 20),
        ("aten::_to_copy", COPY, 20), ("aten::contiguous", COPY, 20), ("aten::copy_", COPY, 20),
        ("aten::copy_", FILL, 0), ("aten::add", COPY, 0),
    ],
)  # fmt: skip
def test_types_of_ops_that_only_move(kind: str, kernel: str, ns: int) -> None:
    mover = ("m/c/x", kind, "no", "m/c", "forward", (kernel, "type", 20))
    assert found(CONV, mover) == {"m/c/Conv2D": 30 + ns}


def test_unknown_times_stay_unknown() -> None:
    """Ops that could not use Tensor Cores have none, and those of which no kernel time is known neither."""
    assert found(("m/c/Conv2D", "Conv2D", "yes", "m/c", "forward"), ("m/c/Cast", "Cast", "no", "m/c", "forward")) == {}
    assert found(("m/c/Cast", "Cast", "no", "m/c", "forward", (CAST, "type", 20))) == {}


def test_ops_and_layers_of_a_run_have_it() -> None:
    """Of each step's 1,200 ns: MatMul 1,000 and its layout 50; Cast of the layer 100; BiasAdd 50."""
    names = (("model/a/MatMul", "MatMul"), ("model/a/Cast", "Cast"), ("model/a/BiasAdd", "BiasAdd"))
    kernels = ((b.TC, 0, 1_000), (LAYOUT, 0, 50), (CAST, 1, 100), (b.OTHER, 2, 50))
    profile = run(*kernels, ops=names, graph=(b.dense("a", 64, 64),))
    around = {row["op_type"]: row["around_ns"] for row in profile.require("ops").rows()}
    assert around == {"MatMul": STEPS * 150, "Cast": None, "BiasAdd": None}
    assert [(row["layer"], row["around_ns"]) for row in profile.require("layers").rows()] == [("a", STEPS * 150)]
    spent = {row["cause"]: row["sum_ns"] for row in profile.require("causes").rows()}
    assert (spent["layout"], spent["type"]) == (STEPS * 50, STEPS * 150)  # and no part of another cause


KERNEL = st.tuples(st.sampled_from([b.TC, LAYOUT, CAST, TURN]), st.sampled_from(["none", "layout", "type"]),
                   st.integers(0, 1000))  # fmt: skip
OP = st.tuples(
    st.sampled_from(["MatMul", "Cast", "Transpose", "BiasAdd", "copy"]), st.sampled_from(["a", "b", None]),
    st.sampled_from(["forward", "dgrad", None]), st.lists(KERNEL, max_size=3), st.booleans(),
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(OP, max_size=8), st.randoms(use_true_random=False))
def test_each_ns_counts_at_most_once(drawn: Sequence[tuple[Any, ...]], random: Any) -> None:
    ops = []
    for number, (kind, layer, way, kernels, named) in enumerate(drawn):
        name = "0/MatMul-0-TransposeNHWCToNCHW-LayoutOptimizer" if named and kind == "Transpose" else f"{number}/{kind}"
        ops.append((name, kind, "yes" if kind == "MatMul" else "no", layer, way, *kernels))
    ops = list({(op[0], op[1]): op for op in ops}.values())
    around = found(*ops)
    moving = sum(ns for op in ops for kernel, cause, ns in op[5:]
                 if cause == "layout" or op[1] in ("Cast", "Transpose", "copy"))  # fmt: skip
    assert sum(around.values()) <= moving
    assert all(ns >= 0 for ns in around.values())
    own = {op[0]: sum(ns for _, cause, ns in op[5:] if cause == "layout") for op in ops}
    assert all(ns >= own[name] for name, ns in around.items())
    assert set(around) == {op[0] for op in ops if op[1] == "MatMul" and op[5:]}
    random.shuffle(ops)
    assert found(*ops) == around
