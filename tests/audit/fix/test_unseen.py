"""A literal that reaches code which was not seen to run, or not so: no fix."""

from __future__ import annotations

import pytest

from tests.audit.fix.fixes.reading import fixed

HEAD = "import sys\nimport argparse\nimport keras\nfrom keras import layers\nN = 63\n"
TAIL = "m = keras.Sequential([keras.Input((64,)), layers.Dense(N), layers.Dense(10)])\n"
OPTION = "p = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\na = p.parse_args()\n"
CASES = {
    "method": "class B:\n    def make(self, n):\n        return layers.Dense(n)\nB().make(64)\nload().make(N)\n",
    "method dict": (
        "class B:\n    def make(self, c):\n        return layers.Dense(c['n'])\nB().make({'n': 64})\n"
        "load().make({'n': N})\n"
    ),
    "method dict alias": (
        "class B:\n    def make(self, c):\n        k = c['n']\n        return layers.Dense(k)\n"
        "B().make({'n': 64})\nload().make({'n': N})\n"
    ),
    "attr": (
        "class M:\n    def __init__(self):\n        self.n = 64\n    def wide(self):\n"
        "        self.n = N\n    def call(self):\n        return layers.Dense(self.n)\nM().call()\n"
    ),
    "attr via local": (
        "class M:\n    def __init__(self):\n        self.n = 64\n    def wide(self):\n"
        "        self.n = N\n    def call(self):\n        k = self.n\n        return layers.Dense(k)\n"
        "M().call()\n"
    ),
    "loop": "n = 64\nfor i in load():\n    layers.Dense(n)\n    n = N\n",
    "handler": "try:\n    n = 64\nexcept E:\n    n = N\nlayers.Dense(n)\n",
    "argparse cond": OPTION + "if a.big:\n    n = N\nelse:\n    n = 64\nlayers.Dense(n)\n",
    "argparse ifexp": OPTION + "layers.Dense(N if a.big else 64)\n",
    "argparse list": OPTION + "s = [64]\nif a.big:\n    s.append(N)\nfor k in s:\n    layers.Dense(k)\n",
    "list in unknown loop": "s = [64]\nfor i in load():\n    s.append(N)\nfor k in s:\n    layers.Dense(k)\n",
    "while swap": "a = 64\nwhile load():\n    layers.Dense(a)\n    a, b = N, a\n",
    "global": "n = 64\ndef g():\n    global n\n    n = N\nlayers.Dense(n)\n",
    "module later": "n = 64\ndef g():\n    return layers.Dense(n)\ncallback(g)\nn = N\n",
    "recursion": "def g(n, k):\n    layers.Dense(n)\n    if k:\n        g(32, k - 1) if k > 1 else g(N, 0)\ng(64, 3)\n",
    "lambda": "f = lambda n: layers.Dense(n)\nf(64)\nload(f)(N)\n",
    "lambda2": "f = lambda n: layers.Dense(n)\nf(64)\nfs = {'a': f}\nfs[x](N)\n",
    "getattr": "class B:\n    def make(self, n):\n        return layers.Dense(n)\nB().make(64)\ngetattr(B(), x)(N)\n",
    "partial": (
        "from functools import partial\ndef g(n, m):\n    return layers.Dense(n)\ng(64, 1)\nload(partial(g, N))\n"
    ),
    "star": "def g(n):\n    return layers.Dense(n)\ng(64)\ng(*load([N]))\n",
    "star2": "def g(n):\n    return layers.Dense(n)\ng(64)\nargs = load()\nargs = [N] + args\ng(*args)\n",
    "kwargs": "def g(n):\n    return layers.Dense(n)\ng(64)\nkw = load()\ng(**{**kw, 'n': N})\n",
    "inherit": (
        "class A:\n    n = 64\n    def call(self):\n        return layers.Dense(self.n)\nclass B(A):\n"
        "    n = N\nA().call()\n"
    ),
    "setattr": "class A:\n    n = 64\nA.n = N\nlayers.Dense(A.n)\n",
    "setattr2": (
        "class A:\n    def __init__(self):\n        self.n = 64\n    def go(self):\n"
        "        return layers.Dense(self.n)\na = A()\na.go()\nfor i in load():\n    a.n = N\n"
        "    a.go()\n"
    ),
    "attr in loop": (
        "class A:\n    def __init__(self):\n        self.n = 64\na = A()\nfor i in load():\n"
        "    layers.Dense(a.n)\n    a.n = N\n"
    ),
    "dict in loop": "c = {'n': 64}\nfor i in load():\n    layers.Dense(c['n'])\n    c['n'] = N\n",
    "dict update": "c = {'n': 64}\nc.update(n=N) if x else None\nlayers.Dense(c['n'])\n",
    "nested def": (
        "def outer(n):\n    def inner():\n        return layers.Dense(n)\n    return inner\nouter(64)\nload(outer, N)\n"
    ),
    "generator": "def gen():\n    yield 64\n    yield N\nfor n in gen():\n    layers.Dense(n)\n",
    "zip": "for n, k in zip([64, N], load()):\n    layers.Dense(n)\n",
    "with": "with load(N) as n:\n    layers.Dense(n)\n",
    "match": "match load():\n    case 1:\n        n = 64\n    case _:\n        n = N\nlayers.Dense(n)\n",
    "return": "def g(x):\n    if x:\n        return N\n    return 64\nlayers.Dense(g(load()))\n",
    "bool": "layers.Dense(load() or N)\n",
    "max": "layers.Dense(max(N, 60))\n",
    "str": "layers.Dense(int(str(N)))\n",
    "globals": "layers.Dense(globals()['N'])\n",
    "eval": "layers.Dense(eval('N'))\n",
    "cond loop": "for k in range(3):\n    if k > N - 63:\n        layers.Dense(k)\n",
}


@pytest.mark.parametrize("case", CASES)
def test_no_fix_of_what_other_code_may_take(case: str) -> None:
    """`N` is a layer's units, and elsewhere something that should stay."""
    findings = [f for f in fixed(HEAD + CASES[case] + TAIL) if f.size == 63]
    assert findings
    assert [f.fix for f in findings] == [None] * len(findings)


def test_without_other_code_there_is_a_fix() -> None:
    (found,) = fixed(HEAD + TAIL)
    assert found.fix is not None
