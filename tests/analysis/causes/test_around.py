"""Time of layout changes around ops: their own kernels, and ops beside them, each ns once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.causes.around import around_ns
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import KERNELS


def row(op: str, op_type: str, ns: int | None, layer: str | None = None, pass_: str | None = None) -> dict[str, Any]:
    capable = "yes" if op_type in ("Conv2D", "MatMul") else "no"
    return {"op": op, "op_type": op_type, "sum_ns": ns, "layer": layer, "pass": pass_, "tc_capable": capable}


def around(*rows: dict[str, Any], **layout: int) -> dict[str, int]:
    """Return the time around each op; of one in `layout` so much is in a kernel of its own that changes layout."""
    made = {(r["op"], r["op_type"]): r for r in rows}
    kernels = []
    for r in rows:
        if r["sum_ns"] is None:
            continue
        own = layout.get(r["op"], 0)
        told = {"op": r["op"], "op_type": r["op_type"], "uses_tc": "no", "evidence": "made"}
        cause = "library" if r["tc_capable"] == "yes" else "type"
        kernels.append({**told, "kernel": "k", "sum_ns": r["sum_ns"] - own, "cause": cause})
        kernels.append({**told, "kernel": "nchwToNhwcKernel", "sum_ns": own, "cause": "layout" if own else cause})
    return {key[0]: ns for key, ns in around_ns(Table.from_rows(KERNELS, kernels), made).items()}


def test_its_own_kernels_count() -> None:
    assert around(row("a", "Conv2D", 100), row("b", "Conv2D", 50), a=30) == {"a": 30, "b": 0}


def test_ops_of_its_layer_and_pass_are_shared_by_time() -> None:
    # 60 ns of casts beside 300 and 100 ns of convolutions: 45 and 15
    rows = (row("a", "Conv2D", 300, "l", "forward"), row("b", "Conv2D", 100, "l", "forward"),
            row("c", "Cast", 60, "l", "forward"), row("d", "Cast", 7, "l", "dgrad"), row("e", "Cast", 9))  # fmt: skip
    assert around(*rows) == {"a": 45, "b": 15}


def test_the_layout_optimiser_names_ops_after_the_op() -> None:
    name = "m/conv/Conv2D-0-0-TransposeNHWCToNCHW-LayoutOptimizer"
    assert around(row("m/conv/Conv2D", "Conv2D", 10), row(name, "Transpose", 6), row("x", "Transpose", 5)) == {
        "m/conv/Conv2D": 6
    }


def test_unknown_times_are_left_out() -> None:
    assert around(row("a", "Conv2D", None, "l"), row("c", "Cast", 3, "l")) == {}


TIMES = st.integers(0, 10**6)


@given(
    products=st.lists(st.tuples(TIMES, st.sampled_from("xyz"), st.sampled_from(["forward", "dgrad"])), max_size=6),
    casts=st.lists(st.tuples(TIMES, st.sampled_from("xyz"), st.sampled_from(["forward", "dgrad", None])), max_size=6),
)
def test_each_ns_counts_at_most_once(products: list[Any], casts: list[Any]) -> None:
    rows = [row(f"p{n}", "MatMul", ns, layer, pass_) for n, (ns, layer, pass_) in enumerate(products)]
    rows += [row(f"c{n}", "Cast", ns, layer, pass_) for n, (ns, layer, pass_) in enumerate(casts)]
    found = around(*rows)
    assert sum(found.values()) <= sum(ns for ns, _, _ in casts)
    assert found == around(*reversed(rows))
