"""A literal that reaches code which was not seen to run, or not so: no fix."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source
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


REFLECTING = {
    "sys.modules": "load(sys.modules[__name__].N)\n",
    "sys.modules getattr": "getattr(sys.modules[__name__], 'N')\n",
    "sys.modules alias": "me = sys.modules[__name__]\nload(me)\n",
    "import_module": "import importlib\nload(importlib.import_module(__name__).N)\n",
    "__import__": "load(__import__(__name__))\n",
    "import main": "import __main__\nload(__main__.N)\n",
    "from main": "from __main__ import N as K\nload(K)\n",
    "frame": "import inspect\nload(inspect.currentframe().f_globals)\n",
    "own frame": "load(sys._getframe().f_globals['N'])\n",
    "globals of a function": "def f():\n    pass\nload(f.__globals__['N'])\n",
    "vars of the module": "load(vars()['N'])\n",
    "dir of the module": "for k in dir():\n    load(k)\n",
    "eval of builtins": "import builtins\nload(builtins.eval('N'))\n",
    "globals by another name": "g = globals\nload(g()['N'])\n",
    "globals handed out": "import timeit\ntimeit.timeit('f(N)', globals=globals())\n",
    "all": "__all__ = ['m', 'N']\n",
    "all, a tuple": "__all__ = ('N',)\n",
    "all, added to": "__all__ = []\n__all__ += ['N']\n",
    "all, unknown": "__all__ = load()\n",
    "name of a file": "m.load_weights(f'weights_{N}.h5')\n",
    "name of a file, later": "path = f'weights_{N}.h5'\nm.load_weights(path)\n",
}
CLASS = "class Cfg:\n    units = 63\n"
RECORD = "@dataclasses.dataclass\nclass Cfg:\n    units: int = 63\nc = Cfg()\n"
MADE = "class Cfg:\n    def __init__(self):\n        self.units = 63\nc = Cfg()\n"
IMPORTS = "import dataclasses\nimport json\nimport operator\nimport keras\nfrom keras import layers\n"
OF_CLASS = "m = keras.Sequential([keras.Input((64,)), layers.Dense(Cfg.units), layers.Dense(10)])\n"
OF_RECORD = OF_CLASS.replace("Cfg.units", "c.units")
HELD = {
    "vars of a class": CLASS + OF_CLASS + "load(vars(Cfg))\n",
    "vars of a class, one": CLASS + OF_CLASS + "load(vars(Cfg)['units'])\n",
    "dictionary of a class": CLASS + OF_CLASS + "load(Cfg.__dict__['units'])\n",
    "attribute of a computed name": CLASS + OF_CLASS + "for k in load():\n    load(getattr(Cfg, k))\n",
    "attrgetter": CLASS + OF_CLASS + "load(operator.attrgetter('units')(Cfg))\n",
    "class given away": CLASS + OF_CLASS + "load(Cfg)\n",
    "class in a dictionary": CLASS + OF_CLASS + "ALL = {'a': Cfg}\nload(ALL)\n",
    "class by another name": CLASS + OF_CLASS + "C = Cfg\nload(C)\n",
    "subclass given away": CLASS + OF_CLASS + "class D(Cfg):\n    pass\nload(D)\n",
    "instance given away": CLASS + OF_CLASS + "load(Cfg())\n",
    "given away by a function": CLASS + OF_CLASS + "def f(c):\n    load(c)\nf(Cfg)\n",
    "given away as an attribute": CLASS + OF_CLASS + "class T:\n    def __init__(self):\n        self.c = Cfg()\n"
    "        load(self.c)\n",
    "asdict": RECORD + OF_RECORD + "json.dump(dataclasses.asdict(c), open('x', 'w'))\n",
    "asdict by its name": "from dataclasses import asdict\n" + RECORD + OF_RECORD + "load(asdict(c))\n",
    "astuple": RECORD + OF_RECORD + "load(dataclasses.astuple(c))\n",
    "record given away": RECORD + OF_RECORD + "load(c)\n",
    "record given away in another": RECORD + OF_RECORD + "@dataclasses.dataclass\nclass All:\n    c: Cfg\n"
    "a = All(c)\nload(a)\n",
    "vars of an instance": MADE + OF_RECORD + "load(vars(c))\n",
    "dictionary of an instance": MADE + OF_RECORD + "load(c.__dict__)\n",
    "made and given away": MADE + OF_RECORD + "load(c)\n",
    "self given away": MADE.replace("= 63\n", "= 63\n        load(self)\n") + OF_RECORD,
    "dictionary of self": MADE.replace("= 63\n", "= 63\n        load(self.__dict__)\n") + OF_RECORD,
    "set from outside": "class Cfg:\n    pass\nc = Cfg()\nc.units = 63\n" + OF_RECORD + "load(c)\n",
}
IN_SIGHT = {
    "no more": CLASS + OF_CLASS,
    "read by its name": CLASS + OF_CLASS + "print(Cfg.units)\n",
    "said": CLASS + OF_CLASS + "print(f'{Cfg.units} units')\nprint(Cfg)\n",
    "given to the file's own": CLASS + OF_CLASS + "def f(c):\n    return c.depth\nf(Cfg)\n",
    "made": MADE + OF_RECORD,
    "record": RECORD + OF_RECORD + "isinstance(c, Cfg)\n",
    "a list of others": CLASS + OF_CLASS + "__all__ = ['m']\n",
}


@pytest.mark.parametrize("case", REFLECTING)
def test_no_fix_of_what_may_be_read_by_its_name(case: str) -> None:
    findings = [f for f in fixed(HEAD + TAIL + REFLECTING[case]) if f.size == 63]
    assert findings
    assert [f.fix for f in findings] == [None] * len(findings)


@pytest.mark.parametrize("case", HELD)
def test_no_fix_of_what_is_given_away_inside_an_object(case: str) -> None:
    findings = [f for f in fixed(IMPORTS + HELD[case]) if f.size == 63]
    assert findings
    assert [f.fix for f in findings] == [None] * len(findings)


@pytest.mark.parametrize("case", IN_SIGHT)
def test_an_object_that_stays_in_sight_is_fixed(case: str) -> None:
    (found,) = [f for f in fixed(IMPORTS + IN_SIGHT[case]) if f.size == 63]
    assert found.fix is not None


def test_no_fix_of_what_another_file_takes_with_all_names() -> None:
    other = parse_source("from model import *\nload(N)\n", "/other.py")
    apart = parse_source("from other import *\nload(M)\n", "/apart.py")
    assert fixed(HEAD + TAIL, others=[other])[0].fix is None
    assert fixed(HEAD + TAIL, others=[apart])[0].fix is not None


@pytest.mark.parametrize("case", CASES)
def test_no_fix_of_what_other_code_may_take(case: str) -> None:
    """`N` is a layer's units, and elsewhere something that should stay."""
    findings = [f for f in fixed(HEAD + CASES[case] + TAIL) if f.size == 63]
    assert findings
    assert [f.fix for f in findings] == [None] * len(findings)


def test_without_other_code_there_is_a_fix() -> None:
    (found,) = fixed(HEAD + TAIL)
    assert found.fix is not None
