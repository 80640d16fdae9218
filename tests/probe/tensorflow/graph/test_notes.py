"""Which layer made the ops of a name scope."""

from __future__ import annotations

from tcprobe.probe.tensorflow.graph.passes import LayerScopes


def scopes(*pairs: tuple[str, str]) -> LayerScopes:
    made = LayerScopes()
    for scope, path in pairs:
        made.add(scope, path)
    return made


def test_a_scope_without_an_entry_is_as_the_one_around_it() -> None:
    found = scopes(("m_1/pool_1", "m/pool"), ("m_1", "m"), ("m_1/pool_1/mean", "m/pool"), ("m_1/pool_1/in/x", "m/in"))
    assert found.sure() == {"m_1/pool_1": "m/pool", "m_1": "m", "m_1/pool_1/in/x": "m/in"}


def test_a_scope_of_two_layers_is_none_of_theirs_for_good() -> None:
    found = scopes(("s", "a"), ("s", "b"), ("s", "a"), ("s/x", "a"))
    assert found.sure() == {"s/x": "a"}


def test_scopes_of_several_graphs_join() -> None:
    found = scopes(("s", "a"), ("t", "b"))
    found.merge(scopes(("s", "a")))
    found.merge(scopes(("t", "c"), ("u", "d")))
    assert found.sure() == {"s": "a", "u": "d"}
