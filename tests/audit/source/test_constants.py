"""What an expression is, and why it is not known: tables of snippets; the last argument of `f(...)` is asked for."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.source.kinds import Unknown
from tcprobe.audit.source.read import Answers, parse_source
from tcprobe.source.source import Source
from tests.support import examples


def asked(text: str) -> tuple[Source, ast.expr]:
    """Return a source, and the argument of its last call of `f`."""
    source = parse_source(text, "/model.py")
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "f"]
    last = max(calls, key=lambda n: (n.lineno, n.col_offset))
    return source, last.args[0]


KNOWN: list[tuple[str, Any]] = [
    ("f(64)", 64),
    ("f(7 * 7 * 63)", 3087),
    ("f(-1)", -1),
    ("f('relu')", "relu"),
    ("f(None)", None),
    ("f(True)", True),
    ("f(1e-7)", 1e-7),
    ("f((3, 3))", (3, 3)),
    ("f([3, 3])", (3, 3)),
    ("N = 64\nf(N)", 64),
    ("N = 64\ndef g():\n    f(N // 2)", 32),
    ("A = B = 5\nf(A + B)", 10),
    ("def g():\n    n = 3\n    f(n)", 3),
    ("def g(n=48):\n    f(n)", 48),
    ("def g(n=48):\n    f(n)\ng()", 48),
    ("def g(n=48):\n    f(n)\ng(49)", 49),
    ("def g(n=48):\n    f(n)\ng(n=49)\ng(49)", 49),
    ("def g(a, *, n):\n    f(n)\ng(1, n=2)", 2),
    ("def g(n: int = 8) -> None:\n    f(n)", 8),
    ("async def g(n=8):\n    f(n)", 8),
    ("@decorated\ndef g(n=8):\n    f(n)", 8),
    ("(n := 6)\nf(n)", 6),
    ("f(n := 6)", 6),
    ("n: int = 6\nf(n)", 6),
    ("n = 6\nn += 2\nf(n)", 8),
    ("n = 1\nn = 2\nf(n)", 2),
    ("a, (b, *c) = 1, (2, 3, 4)\nf(b)", 2),
    ("a, *b, c = 1, 2, 3, 4\nf(c)", 4),
    ("SIZES = (16, 32, 64)\nf(SIZES[-1])", 64),
    ("SIZES = (16, 32, 64)\nf(SIZES[1:])", (32, 64)),
    ("C = {'units': 63, 'deep': {'x': [1, 2]}}\nf(C['units'])", 63),
    ("C = {'units': 63, 'deep': {'x': [1, 2]}}\nf(C['deep']['x'][1])", 2),
    ("C = {'units': 63}\nf(C.get('units', 5))", 63),
    ("C = {'units': 63}\nf(C.get('other', 5))", 5),
    ("C = dict(units=63)\nf(C['units'])", 63),
    ("from types import SimpleNamespace\nc = SimpleNamespace(units=63)\nf(c.units)", 63),
    ("from typing import NamedTuple\nclass C(NamedTuple):\n    a: int\n    b: int = 7\nc = C(a=5)\nf(c.a * c.b)", 35),
    ("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n    a: int = 5\nc = C(9)\nf(c.a)", 9),
    ("from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 5\nf(C().a)", 5),
    ("import collections\nC = collections.namedtuple('C', 'a b')\nf(C(1, b=2).b)", 2),
    ("class C:\n    UNITS = 12\nf(C.UNITS)", 12),
    ("class C:\n    UNITS = 12\n    def g(self):\n        f(self.UNITS)", 12),
    ("class C:\n    def __init__(self):\n        self.n = 64\n    def g(self):\n        f(self.n)", 64),
    ("class C:\n    def __init__(self, n=64):\n        self.n = n\n    def g(self):\n        f(self.n)", 64),
    ("class C:\n    def __init__(self, n):\n        self.n = n\n    def g(self):\n        f(self.n)\nC(3)", 3),
    ("class C:\n    def __init__(self, n, m=2):\n        f(m)\nD = {'n': 1}\nC(**D)", 2),
    ("class C:\n    def __init__(self, n, m=2):\n        f(m)\nD = dict(n=1, m=7)\nC(**D)", 7),
    ("def g(n, m=2):\n    f(n)\ng(m=3, **{'n': 5})", 5),
    ("class B:\n    def __init__(self, n):\n        f(n)\nclass C(B):\n    pass\nC(5)", 5),
    ("class B:\n    N = 3\nclass C(B):\n    def g(self):\n        f(self.N)", 3),
    (
        "class C(M):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n"
        "    def g(self):\n        f(self.n)\nC(3)",
        3,
    ),
    (
        "class B:\n    def __init__(self, n):\n        f(n)\nclass C(B):\n    def __init__(self):\n"
        "        super().__init__(7)\n",
        7,
    ),
    ("f(len([1, 2, 3]))", 3),
    ("f(max(1, 5) + min(2, 3))", 7),
    ("import math\nf(math.ceil(7 / 2))", 4),
    ("import numpy as np\nf(np.prod((2, 3)))", 6),
    ("f(int(32 * 1.5))", 48),
    ("f([2 ** i for i in range(3)])", (1, 2, 4)),
    ("f((*(1, 2), 3))", (1, 2, 3)),
    ("f(1 if 2 > 1 else 5)", 1),
    ("f(None or 8)", 8),
    ("f(not 1)", False),
    ("f('same' == 'same')", True),
    ("n = 1\nif x:\n    return_ = 2\nf(n)", 1),
    ("n = 1\nif x:\n    n = 2\n    raise ValueError\nf(n)", 1),
    ("if __name__ == '__main__':\n    n = 4\n    f(n)", 4),
    ("with open('x') as h:\n    n = 4\nf(n)", 4),
    ("match x:\n    case 1:\n        n = 4\n        f(n)", 4),
    ("N = 3\nclass C:\n    N = 5\n    def g(self):\n        f(N)", 3),
    ("n = 1\nfor n in (9,):\n    f(n)", 9),
    ("for f_, k in zip((1,), (2,)):\n    f(k)", 2),
    ("lists = [1]\nf(lists[0])", 1),
    ("\ufeffn = 3\nf(n)".removeprefix("\ufeff"), 3),
    ("n\t=\t3\nif n:\n\tf(n)", 3),
    ("C = {'a': 1}\nC['a'] = 2\nf(C['a'])", 2),
    ("while x:\n    n = 2\nf(n)", 2),
    ("S = [1]\nS.append(2)\nf(S[0])", 1),
    ("f(sorted([3, 1]))", (1, 3)),
    ("if 1 > 2:\n    def g(n=4):\n        f(n)", 4),
    ("def g():\n    def inner(x, n=4):\n        f(n)", 4),
    ("def g():\n    return\n    f(3)", 3),
    ("try:\n    pass\nexcept E:\n    f(3)", 3),
    ("x = lambda: f(3)", 3),
    ("def double(n):\n    return 2 * n\nf(double(4))", 8),
    ("from argparse import Namespace\nf(Namespace(n=3).n)", 3),
]


@pytest.mark.parametrize(("text", "value"), KNOWN, ids=[t for t, _ in KNOWN])
def test_known(text: str, value: Any) -> None:
    source, node = asked(text)
    known = source.known(node)
    assert known is not None
    assert known.value == value and type(known.value) is type(value)


UNKNOWN = [
    ("f(units)", "units is not defined in this file"),
    ("def g(units):\n    f(units)", "units comes from a function argument"),
    ("def g(units):\n    f(2 * units)", "units comes from a function argument"),
    ("def g(units=3):\n    f(units)\nrun(g)", "units comes from a function argument"),
    ("def g(units=3):\n    f(units)\ng(*a)", "units comes from a function argument"),
    ("def g(units=3):\n    f(units)\ng(**a)", "units comes from a function argument"),
    ("def g(*units):\n    f(units)", "units comes from a function argument"),
    ("def g(units=3):\n    f(units)\ng()\ng(4)", "has several values"),
    ("from config import units\nf(units)", "units comes from another module"),
    ("n = 1\nif x:\n    n = 2\nf(n)", "is set under a condition"),
    ("if x:\n    n = 2\nf(n)", "is set under a condition"),
    ("f(n)\nn = 2", "n is not assigned before it is used"),
    ("n = 32\nfor i in x:\n    f(n)\n    n *= 2", "n changes in a loop"),
    ("while x:\n    n = 3\n    f(n)\n    n = y\n    f(n)", "y is not defined in this file"),
    ("for n in (1, 2):\n    f(n)", "has several values"),
    ("f(f'{x}')", "is a formatted text"),
    ("f(lambda: 1)", "is no number or text"),
    ("f(build())", "is the result of build()"),
    ("f(1 / 0)", "1 / 0 cannot be computed"),
    ("f('a' + 1)", "'a' + 1 cannot be computed"),
    ("f(b'x')", "is no number or text"),
    ("f({'a': 1})", "is no number or text"),
    ("C = {'a': 1}\nf(C['b'])", "C['b'] is not set"),
    ("C = {'a': 1}\nC[x] = 2\nf(C['a'])", "is changed in place"),
    ("C = {'a': 1}\nif x:\n    C['a'] = 2\nf(C['a'])", "is changed in place"),
    ("C = {'a': 1}\nC.update(x)\nf(C['a'])", "is changed by update()"),
    ("C = {'a': 1, 'b': 2}\nf(C[x])", "x is not known"),
    ("n = n\nf(n)", "n is not assigned before it is used"),
    ("a = b\nb = a\ndef g():\n    f(a)", "b is not assigned before it is used"),
    ("n = 1\ndef g():\n    global n\n    n = x\nf(n)", "n is set in a function"),
    ("with a as n:\n    f(n)", "is opened by with"),
    ("try:\n    pass\nexcept E as n:\n    f(n)", "n comes from a statement that is not followed"),
    ("match x:\n    case [n]:\n        f(n)", "n comes from a statement that is not followed"),
    ("class C:\n    def g(self):\n        f(self.n)", "n of C is not known"),
    ("class C:\n    def __init__(self, n):\n        self.n = n\n        f(self.n)", "n comes from a function argument"),
    (
        "class C:\n    def a(self):\n        self.n = 1\n    def g(self):\n        self.n = x()\n        f(self.n)",
        "is the result of x()",
    ),
    (
        "class B:\n    N = 3\n    def g(self):\n        f(self.N)\nclass C(B):\n    N = 4",
        "N is set in a class that extends B",
    ),
    ("def g(n):\n    return g(f(n + 1))\n", "n comes from a function argument"),
    ("n = 1\ntry:\n    n = 2\nexcept E:\n    n = 3\nf(n)", "n is set under a condition"),
    ("n = 1\nwhile x:\n    n *= 2\nf(n)", "n changes in a loop"),
    (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=[])\nn = 1\n"
        "for i in p.parse_args().n:\n    n = 2\nf(n)",
        "n comes from the command line",
    ),
    ("for n in (1, 2):\n    if x:\n        break\nf(n)", "n is set in a loop that may end before"),
    ("def g(c):\n    f(c['n'])\ng({'n': 1})\nx.g(g)", "c comes from a function argument"),
    ("def g(c):\n    n = c['n']\n    f(n)\ng({'n': 1})\nx(g)", "c comes from a function argument"),
    ("class C:\n    def g(self, n):\n        f(n)\nC().g(1)\nx.g(2)", "n comes from a function argument"),
    (
        "class C:\n    def a(self):\n        self.n = 1\n    def b(self):\n        self.n = 2\n"
        "    def g(self):\n        f(self.n)",
        "n is set by several methods of C",
    ),
    (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=3)\nf(p.parse_args().n)",
        "n comes from the command line",
    ),
    ("if x:\n    n = 1\nelse:\n    n = 2\nf(n)", "is set under a condition"),
    ("f(1 if x else 2)", "is set under a condition"),
    ("C = {'good': 64, 'bad': 63}\nf(7 * C[x])", "x is not known"),
    ("if x:\n    a, b = 1, 2\nelse:\n    a, b = 3, 4\nf((a, b))", "is taken for granted"),
    ("C = {'a': (1, 2), 'b': (3, 4)}\nm, n = C[x]\nf(m * n)", "x is not known"),
    ("for n in (1, 2) if x else (3,):\n    f(n)", "is set under a condition"),
    ("C = {'a': {'n': 1}, 'b': {'n': 2}}\nc = C[x]\nf(c['n'])", "x is not known"),
    ("n = 1\nwhile x:\n    n = 2\nf(n)", "is taken for granted"),
    ("C = {'n': 1}\nwhile x:\n    C = {'n': 2}\nf(C['n'])", "is taken for granted"),
    (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\n"
        "if p.parse_args().big:\n    n = 1\nelse:\n    n = 2\nf(8 * n)",
        "is taken for granted",
    ),
    (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default='a')\n"
        "C = {'a': (1, 2), 'b': (3, 4)}\nm, n = C[p.parse_args().size]\nf((n, m))",
        "is taken for granted",
    ),
]


@pytest.mark.parametrize(("text", "reason"), UNKNOWN, ids=[t for t, _ in UNKNOWN])
def test_unknown_with_the_reason(text: str, reason: str) -> None:
    """A value that is taken for granted and may be another has no reason of its own; nor has what is none."""
    source, node = asked(text)
    assert source.known(node) is None
    assert isinstance(source.readings, Answers)
    values = source.readings.state.seen.values.get(node, [])
    assert [value.reason for value in values if isinstance(value, Unknown)][:1] in ([], [reason])


SEEN: list[tuple[str, list[Any]]] = [
    ("for n in (16, 32, 64):\n    f(n)", [16, 32, 64]),
    ("for i, n in enumerate([5, 6]):\n    f(i * 10 + n)", [5, 16]),
    ("for a, b in zip((1, 2), (3, 4)):\n    f(a * b)", [3, 8]),
    ("for a, b in ((1, 2), (3, 4)):\n    f((a, b))", [(1, 2), (3, 4)]),
    ("for k, v in {'a': 1, 'b': 2}.items():\n    f(v)", [1, 2]),
    ("for n in range(3):\n    f(2 ** n)", [1, 2, 4]),
    ("[f(n) for n in (1, 2)]", [1, 2]),
    ("def g(n):\n    f(n)\ng(63)\ng(64)", [63, 64]),
    ("def g(n, m):\n    f(n * m)\ng(1, 2)\ng(3, 4)", [2, 12]),
    ("n = x\nf(n)", []),
]


@pytest.mark.parametrize(("text", "values"), SEEN, ids=[t for t, _ in SEEN])
def test_seen(text: str, values: list[Any]) -> None:
    source, node = asked(text)
    assert [known.value for known in source.seen(node)] == values


numbers = st.one_of(st.integers(-100, 100), st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3)))


@st.composite
def arithmetic(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return f"({draw(numbers)!r})"
    op = draw(st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"]))
    return f"({draw(arithmetic(depth - 1))} {op} {draw(arithmetic(depth - 1))})"


@settings(max_examples=examples(250), deadline=None)
@given(arithmetic())
def test_arithmetic_is_python_s_own(text: str) -> None:
    source, node = asked(f"f({text})")
    known = source.known(node)
    if known is not None:
        value = eval(text, {})  # the reference: text of our own making
        assert known.value == value or known.value != known.value
        assert type(known.value) is type(value)


def test_every_constant_is_seen_once() -> None:
    source, node = asked("for v in (1, True, 1.0, 1, (1,), (True,), 'x', (1,)):\n    f(v)\n")
    seen = [repr(known.value) for known in source.seen(node)]
    assert seen == ["1", "True", "1.0", "(1,)", "(True,)", "'x'"]
