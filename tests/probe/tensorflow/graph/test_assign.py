"""Which collected graph is that of which traced function."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.tensorflow.graph.execute import assign


def collected(*nodes: str, ends: tuple[str, ...] = ()) -> Any:
    made = [SimpleNamespace(name=n, op="MatMul") for n in nodes] + [SimpleNamespace(name=n, op="_Arg") for n in ends]
    return SimpleNamespace(pre_optimization_graph=SimpleNamespace(node=made))


def traced(*ops: str, inputs: tuple[str, ...] = ()) -> Any:
    made = [SimpleNamespace(name=n, type="MatMul") for n in ops]
    made += [SimpleNamespace(name=n, type="Placeholder") for n in inputs]
    return SimpleNamespace(get_operations=lambda: made)


def test_an_eager_op_does_not_take_the_place_of_a_function() -> None:
    step = collected("Identity", "IteratorGetNext", "StatefulPartitionedCall", ends=("x",))
    root = traced("Identity", "IteratorGetNext", "StatefulPartitionedCall", "NoOp", inputs=tuple("abcdefghijkl"))
    for order in ([collected("Identity"), step], [step, collected("Identity")]):
        assert assign(order, [root]) == {0: step}


def test_an_eager_op_alone_is_no_graph_of_the_function() -> None:
    assert assign([collected("Identity")], [traced("Identity", "a", "b", "c")]) == {}


def test_two_functions_of_like_names_get_their_own_graphs() -> None:
    small, large = collected("a", "b"), collected("a", "b", "c", "d")
    assert assign([large, small], [traced("a", "b"), traced("a", "b", "c", "d")]) == {0: small, 1: large}


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), max_size=5), st.integers(1, 5))
def test_a_graph_serves_one_function_at_most(graphs: list[set[str]], count: int) -> None:
    found = assign([collected(*sorted(g)) for g in graphs], [traced(*"abcd") for _ in range(count)])
    assert len({id(g) for g in found.values()}) == len(found) <= min(count, len(graphs))
