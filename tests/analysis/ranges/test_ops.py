"""Ranges that mark phases, layers and ops: what follows where the source itself tells none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.profile import Profile
from tests.analysis.builders import FP32, details
from tests.analysis.ranges.made import called, profile, ranges, told


def ops(found: Profile) -> list[tuple[Any, ...]]:
    """Return op, type, layer and pass of each launch."""
    table = found.require("op_details")
    each = list(zip(*(table.values(c) for c in ("op", "op_type", "layer", "pass")), strict=True))
    return [each[int(i)] if i >= 0 else () for i in found.require("launches").numbers("op_id")]


def test_without_a_kind_nothing_follows() -> None:
    given = profile(called(5), ranges((None, "forward", 0, 10)))
    assert told(given).tables.keys() == given.tables.keys()
    assert ops(told(given)) == [()]


def test_the_innermost_op_and_the_path_of_the_layers_around_it() -> None:
    marked = ranges(
        ("layer", "encoder", 0, 100), ("layer", "dense", 10, 50), ("layer", "encoder/norm", 60, 90),
        ("op", "linear", 12, 40), ("op", "addmm", 20, 30, 1, {"op_type": "MatMul", "input_shapes": "[[8, 8], [8, 8]]"}),
    )  # fmt: skip
    found = told(profile(called(15, 25, 45, 70, 95, 200), marked))
    assert ops(found) == [
        ("encoder/dense/linear", "linear", "encoder/dense", None),
        ("encoder/dense/addmm", "MatMul", "encoder/dense", None),
        ("encoder/dense", None, "encoder/dense", None),
        ("encoder/norm", None, "encoder/norm", None),
        ("encoder", None, "encoder", None),
        (),
    ]
    assert "[[8, 8], [8, 8]]" in found.require("op_details").values("input_shapes")


def test_ranges_count_to_a_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each range the paths hold all around it: as many as ranges times levels."""
    monkeypatch.setattr("tcprobe.analysis.ranges.nesting.MOST_LEVELS", 2)
    marked = ranges(("layer", "a", 0, 100), ("op", "b", 10, 90), ("op", "c", 20, 80), ("op", "d", 30, 70))
    found = told(profile(called(5, 15, 25, 35), marked))
    assert [row[0] for row in ops(found)] == ["a", "a/b", "a/b", "a/b"]
    assert [note.message[:2] for note in found.metadata.notes if note.code == "ranges-deep"] == ["2 "]
    monkeypatch.undo()
    deep = ranges(*(("layer", f"l{i}", i, 9000 - i) for i in range(3000)))
    assert ops(told(profile(called(4000), deep)))[0][0].count("/") == 199


def test_names_of_ops_are_told_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long name of a layer stands before each of its ops."""
    monkeypatch.setattr("tcprobe.analysis.ranges.ops.MOST_TEXT", 1000)
    each = [("op", f"op{n}", 10 * n + 1, 10 * n + 9) for n in range(9)]
    found = told(profile(called(*range(5, 95, 10)), ranges(("layer", "l" * 300, 0, 100), *each)))
    assert [row[0][-3:] for row in ops(found) if row] == ["op0", "op1", "op2", "op3"]
    assert "ops-cut" in [note.code for note in found.metadata.notes]


def test_an_op_around_a_layer_is_no_op_of_it() -> None:
    marked = ranges(("op", "train_function", 0, 100), ("layer", "dense", 10, 50))
    assert ops(told(profile(called(20, 60), marked))) == [
        ("dense", None, "dense", None), ("train_function", "train_function", None, None),
    ]  # fmt: skip


def test_a_phase_is_a_pass() -> None:
    marked = ranges(("phase", "Forward", 0, 50), ("phase", "backward", 50, 100), ("op", "conv", 10, 90, 1))
    cut = ranges(
        ("phase", "Forward", 0, 50), ("op", "conv", 10, 20), ("phase", "backward", 50, 100), ("op", "conv", 60, 70)
    )
    assert [row[3] for row in ops(told(profile(called(15, 65), cut)))] == ["forward", "other"]
    assert ops(told(profile(called(15, 65), marked)))[0][3] == "forward"


def test_threads_are_told_apart_where_they_are_known() -> None:
    marked = ranges(("op", "a", 0, 100, 1), ("op", "b", 10, 50, 2))
    assert [row[0] for row in ops(told(profile(called(20), marked)))] == ["a"]
    assert [row[0] for row in ops(told(profile(called(20, thread=2), marked)))] == ["b"]
    assert ops(told(profile(called(20, thread=3), marked))) == [()]
    assert [row[0] for row in ops(told(profile(called(20, thread=None), marked)))] == ["b"]


def test_ops_of_the_source_itself_stay() -> None:
    own = called(20).with_columns(op_id=np.zeros(1, np.int64))
    found = told(profile(own, details(("own", "MatMul")), ranges(("op", "a", 0, 100))))
    assert [row[0] for row in ops(found)] == ["own"]


def test_layers_and_passes_reach_the_tables() -> None:
    marked = ranges(
        ("phase", "forward", 0, 500), ("layer", "model/dense", 10, 50),
        ("op", "MatMul", 20, 30, 1, {"dtype": "float16", "input_shapes": "[[64, 32], [32, 16]]"}),
    )  # fmt: skip
    found = analyse(profile(called(25, 400, kernel=FP32), marked))
    (op,) = [row for row in found.require("ops").rows() if row["op"] == "model/dense/MatMul"]
    assert (op["layer"], op["pass"], op["basis"], op["tc_capable"]) == ("model/dense", "forward", "reported", "yes")
    (gemm,) = found.require("gemms").rows()
    assert (gemm["m"], gemm["n"], gemm["k"], gemm["layer"]) == (64, 16, 32, "model/dense")
    layers = {row["layer"]: (row["sum_ns"], row["forward_ns"]) for row in found.require("layers").rows()}
    assert layers == {"model/dense": (10, 10), "(no layer)": (10, 0)}


def backward(*forward: tuple[Any, ...], gradient: str = "AddmmBackward0", inner: str = "aten::mm") -> Any:
    """Return what is told of a launch in a backward op of number 7, on another thread, after these ranges."""
    marked = ranges(*forward, ("op", gradient, 200, 300, 2, {"sequence": 7}), ("op", inner, 210, 290, 2))
    return ops(told(profile(called(250, thread=2), marked)))[0]


def test_a_backward_op_has_the_layer_of_the_forward_op_with_its_number() -> None:
    first, second = ("layer", "a", 0, 50), ("layer", "b", 50, 100)
    of_a, of_b = ("op", "aten::relu", 10, 20, 1, {"sequence": 7}), ("op", "aten::addmm", 60, 70, 1, {"sequence": 7})
    assert backward(first, second, of_a) == ("a/aten::mm", "aten::mm", "a", "other")
    assert backward(second, of_b, first, of_a)[2] == "b"  # the last that started recorded the gradient
    assert backward(first, ("op", "aten::addmm", 10, 20, 1, {"sequence": 8}))[2:] == (None, "other")


def test_numbers_of_several_threads_tell_no_layer() -> None:
    other = ("op", "aten::addmm", 10, 20, 3, {"sequence": 7})
    assert backward(("layer", "a", 0, 50), ("op", "aten::addmm", 10, 20, 1, {"sequence": 7}), other)[2] is None


def test_the_pass_of_a_backward_op_is_what_its_type_tells() -> None:
    assert backward(inner="Conv2DBackpropFilter")[3] == "wgrad"
    assert backward(inner="aten::convolution_backward")[3] == "other"


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=12)


@given(SPANS, st.lists(st.integers(-5, 95), min_size=1, max_size=8))
def test_the_innermost_is_what_a_search_finds(spans: list[tuple[int, int]], times: list[int]) -> None:
    kept: list[tuple[int, int]] = []
    for start, length in spans:  # nested or apart, and no two of one span
        end = start + length + 1
        if all(end <= s or start >= e or (s <= start and end <= e) or (start <= s and e <= end) for s, e in kept):
            kept += [(start, end)] if (start, end) not in kept else []
    marked = ranges(*(("op", f"{start}-{end}", start, end) for start, end in kept))
    seen = [row[0] if row else None for row in ops(told(profile(called(*times), marked)))]
    around = [[(e - s, f"{s}-{e}") for s, e in kept if s <= t < e] for t in times]
    assert seen == [min(found)[1] if found else None for found in around]
