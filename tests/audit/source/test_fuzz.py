"""Source that is cut, mutated or absurd: our own errors, and nothing else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.errors import InputError
from tests.fuzz.mutate import bytewise, python
from tests.fuzz.mutate.chance import Chance
from tests.support import ROOT, examples

TEXTS = [
    (ROOT / "workloads/train_gan.py").read_text(encoding="utf-8"),
    *(
        p.read_text(encoding="utf-8")
        for folder in ("scripts", "tutorials")
        for p in sorted((ROOT / "tests/audit/source" / folder).glob("*.py"))
    ),
]
assert len(TEXTS) > 1


def read_all(text: str) -> None:
    """Do all that can be done with a source; only our own errors pass."""
    try:
        source = parse_source(text, "/model.py")
    except InputError:
        return
    assert {call.node for call in source.calls()} <= {*ast.walk(source.tree)}
    for call in (source.call_of(node) for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        for argument in call.arguments.values():
            assert argument.known is None or argument.known.value in [k.value for k in source.seen(argument.node)]
    read_model(source)


@settings(max_examples=examples(75), deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 2**32))
def test_changed_source_raises_only_our_errors(text: str, seed: int) -> None:
    chance, content = Chance(str(seed)), text.encode()
    for _ in range(chance.randint(1, 3)):
        content = (bytewise if chance.random() < 0.2 else python).mutated(content, chance)
    read_all(content.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        "x = 9 ** 9 ** 9 ** 9",
        "x = 'a' * 10 ** 9",
        "x = (1,) * 10 ** 12",
        "x = 1 << 10 ** 9",
        "x = '%999999999d' % 1",
        "x = range(10 ** 12)",
        "x = sum(range(10 ** 9))",
        "def f(n): return f(n + 1)\nf(0)",
        "class A(A): pass\nA()",
        "x = x + 1\nx = x",
        "a = b\nb = a\nf(a, b)",
        "while True: x = [x]",
        "x = []\nx.append(x)\nprint(x)",
        "for i in range(10 ** 9): pass",
        "def f(): return [f() for _ in range(50)]\nf()",
        "d = {}\nd[d] = d",
        "x = {**x, 'a': 1}",
        "from .. import *\nx",
        "x = lambda y=x: x(y)\nx()",
    ],
)
def test_absurd_programs_end(text: str) -> None:
    read_all(text)


DEEP = [
    "(" * 150 + "1" + ")" * 150,
    "-" * 3000 + "1",
    "x = " + "+".join(["1"] * 5000),
    "x = " + "[" * 90 + "]" * 90,
    "if x: pass\n" + "elif x: pass\n" * 900,
    "x" + ".y" * 3000,
    "f" + "()" * 3000,
    "\n".join(["a0 = 1", *(f"a{i + 1} = a{i} + 1" for i in range(3000)), "f(a3000)"]),
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:6])
def test_deep_nesting_is_read_or_refused(text: str) -> None:
    read_all(text)
