"""Programs in which a size may not change: each was once a way to a wrong fix; none of them gets any."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.audit.fix.fixes import check, with_fixes
from tcprobe.audit.fix.wants import NotCertain, Want
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.errors import UnreadableInput
from tcprobe.report.audit.words import why
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Edit, Finding
from tcprobe.schema.model import Model
from tcprobe.schema.statement import Statement
from tcprobe.source.source import Source
from tests.audit.fix.fixes.whole import TARGET, whole

FOLDER = Path(__file__).parent / "fixes"
HEAD = "import argparse, dataclasses, json, operator, sys\nimport keras\nfrom keras import layers\n"
MODEL = "m = keras.Sequential([keras.Input((64,)), layers.Dense({}), layers.Dense(10)])\n"
CLASS = "class Cfg:\n    units = 63\n"
RECORD = "@dataclasses.dataclass\nclass Cfg:\n    units: int = 63\nc = Cfg()\n"
MADE = "class Cfg:\n    def __init__(self):\n        self.units = 63\nc = Cfg()\n"
# The sizes are 63 or 4090. In the first two tables N = 63 is the units, and something else that should stay.
NAMED = {
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
        "class M:\n    def __init__(self):\n        self.n = 64\n    def wide(self):\n        self.n = N\n"
        "    def call(self):\n        return layers.Dense(self.n)\nM().call()\n"
    ),
    "attr via local": (
        "class M:\n    def __init__(self):\n        self.n = 64\n    def wide(self):\n        self.n = N\n"
        "    def call(self):\n        k = self.n\n        return layers.Dense(k)\nM().call()\n"
    ),
    "loop": "n = 64\nfor i in load():\n    layers.Dense(n)\n    n = N\n",
    "handler": "try:\n    n = 64\nexcept E:\n    n = N\nlayers.Dense(n)\n",
    "argparse cond": (
        "p = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\na = p.parse_args()\n"
        "if a.big:\n    n = N\nelse:\n    n = 64\nlayers.Dense(n)\n"
    ),
    "argparse ifexp": (
        "p = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\na = p.parse_args()\n"
        "layers.Dense(N if a.big else 64)\n"
    ),
    "argparse list": (
        "p = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\na = p.parse_args()\n"
        "s = [64]\nif a.big:\n    s.append(N)\nfor k in s:\n    layers.Dense(k)\n"
    ),
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
        "class A:\n    n = 64\n    def call(self):\n        return layers.Dense(self.n)\nclass B(A):\n    n = N\n"
        "A().call()\n"
    ),
    "setattr": "class A:\n    n = 64\nA.n = N\nlayers.Dense(A.n)\n",
    "setattr2": (
        "class A:\n    def __init__(self):\n        self.n = 64\n    def go(self):\n"
        "        return layers.Dense(self.n)\na = A()\na.go()\nfor i in load():\n    a.n = N\n    a.go()\n"
    ),
    "attr in loop": (
        "class A:\n    def __init__(self):\n        self.n = 64\na = A()\nfor i in load():\n    layers.Dense(a.n)\n"
        "    a.n = N\n"
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
    "loop count": "for i in range(N):\n    print(i)\n",
    "data size": "images = load()[:N]\n",
    "passed on": "load(N)\n",
    "returned": "def data():\n    return N\n",
    "default of a lambda": "lambda n=N: n\n",
    "compared": "if N > 50:\n    pass\n",
    "loop over copies": "for i in [0] * N:\n    print(i)\n",
    "index": "L = (8,) * 64\nload(L[N])\n",
    "condition": "load(1 if N else 2)\n",
    "while": "while N:\n    pass\n",
    "put into a container": "C = {}\nC['n'] = N\nload(C)\n",
    "in a list passed on": "load([N, 1][0])\n",
}
READ_BY_NAME = {
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
    "name of a file": "m.save_weights(f'weights_{N}.h5')\n",
    "name of a file, later": "path = f'weights_{N}.h5'\nm.save_weights(path)\n",
}
OF_A_CLASS = {
    "vars of a class": "load(vars(Cfg))\n",
    "vars of a class, one": "load(vars(Cfg)['units'])\n",
    "dictionary of a class": "load(Cfg.__dict__['units'])\n",
    "attribute of a computed name": "for k in load():\n    load(getattr(Cfg, k))\n",
    "attrgetter": "load(operator.attrgetter('units')(Cfg))\n",
    "class given away": "load(Cfg)\n",
    "class in a dictionary": "ALL = {'a': Cfg}\nload(ALL)\n",
    "class by another name": "C = Cfg\nload(C)\n",
    "subclass given away": "class D(Cfg):\n    pass\nload(D)\n",
    "instance given away": "load(Cfg())\n",
    "given away by a function": "def f(c):\n    load(c)\nf(Cfg)\n",
    "given away as an attribute": "class T:\n    def __init__(self):\n        self.c = Cfg()\n        load(self.c)\n",
}
OF_A_RECORD = {
    "asdict": "json.dump(dataclasses.asdict(c), open('x', 'w'))\n",
    "astuple": "load(dataclasses.astuple(c))\n",
    "record given away": "load(c)\n",
    "record given away in another": "@dataclasses.dataclass\nclass All:\n    c: Cfg\na = All(c)\nload(a)\n",
}
OF_AN_INSTANCE = {
    "vars of an instance": "load(vars(c))\n",
    "dictionary of an instance": "load(c.__dict__)\n",
    "made and given away": "load(c)\n",
}
OTHERS = {
    "asdict by its name": ("from dataclasses import asdict\n" + RECORD, "c.units", "load(asdict(c))\n"),
    "self given away": (MADE.replace("63\n", "63\n        load(self)\n"), "c.units", ""),
    "dictionary of self": (MADE.replace("63\n", "63\n        load(self.__dict__)\n"), "c.units", ""),
    "set from outside": ("class Cfg:\n    pass\nc = Cfg()\nc.units = 63\n", "c.units", "load(c)\n"),
    "dictionary passed on": ("C = {'n': 63}\nload(**C)\n", "C['n']", ""),
    "dictionary under two names": ("C = {'n': 63}\nD = C\nload(D)\n", "C['n']", ""),
    "attribute passed on": ("class C:\n    n = 63\nload(C.n)\n", "C.n", ""),
    "sum": ("", "60 + 3", ""),
    "command line": ("", "int(sys.argv[1]) or 63", ""),
    "no factor can change": ("", "9 * 7", ""),
    "made a text of": ("N = 63\n", "N, name=str(N)", ""),
    "shape": ("", "63", "import tensorflow as tf\nx = tf.reshape(y, (-1, 63))\n"),
    "shape in code that never runs": ("", "63", "def f(x):\n    return x\n    return x.reshape(-1, 7, 9)\n"),
    "slice in a lambda": ("", "63", "f = lambda x: x[:, :63]\n"),
    "slice": ("", "63", "x = y[:, :63]\n"),
    "method (2)": ("", "63", "x = y.reshape(-1, 9, 63)\n"),
    "told shape": ("def compute_output_shape(self, s):\n    return (*s[:-1], 63)\n", "63", ""),
    "data made by hand": ("x = tf.zeros((8, 63))\n", "63", ""),
    "a layer between that is not understood": ("", "63), layers.Permute((1,)", ""),
    "open reshape": ("", "63), layers.Reshape((7, -1)", ""),
    "reshape": ("", "63), layers.Reshape((7, 9)", ""),
    "reshape apart": ("", "63), layers.Reshape((63,)), layers.Reshape((7, 9)", ""),
    "units of 49 x 63": ("", "49 * 63), layers.Reshape((7, 7, 63)), layers.Conv2D(64, 3), layers.Dense(16", ""),
    "one call, two sizes": ("def d(n):\n    return layers.Dense(n)\n", "16), d(63), d(31), layers.Dense(16", ""),
    "a default": ("def d(n=63):\n    return layers.Dense(n)\n", "16), d(), layers.Dense(16", ""),
    "a partial": ("import functools\nD = functools.partial(layers.Dense, 63)\n", "16), D(), layers.Dense(16", ""),
    "input_dim by hand": ("", "63), layers.Dense(16, input_dim=63", ""),
    "rows as well": ("N = 63\n", "16), layers.Embedding(N, 16), layers.Dense(N), layers.Dense(16", ""),
    "two names": ("A = N = 63\n", "16), layers.Embedding(A, 16), layers.Dense(N), layers.Dense(16", ""),
    "assigned again": ("N = 63\n", "N", "N = 65\n"),
    "in a branch": ("with load():\n    N = 63\n", "N", ""),
    "in a class": ("class A:\n    N = 63\n    D = layers.Dense(N)\n", "16), A.D, layers.Dense(16", "load(A)\n"),
    "added in a call": (
        "",
        "16), layers.Dense(63), layers.Dense(16",
        "def f(x):\n    x.shape == (1, 63)\n    return x + d(x)\n",
    ),
    "deleted": ("N = 63\n", "N", "del N\n"),
    "bound by an import": ("N = 63\n", "N", "from load import N\n"),
    "a parameter's name": ("N = 63\n", "N", "def f(N):\n    load(N)\n"),
    "counted": ("", "63", "for _ in range(63):\n    load()\n"),
    "made of others": ("A = 60\n", "63", "load(A + 3)\n"),
    "a shape of factors": ("", "441", "y.reshape((-1, 7, 63))\n"),
}
SEVERAL = {
    "its own output, and an input": "d = layers.Dense(4090)\ny = d(d(keras.Input((4090,))))\n",
    "its own output, rectified": "d = layers.Dense(4090)\ny = d(layers.ReLU()(d(keras.Input((4090,)))))\n",
    "its own output in a loop": "d = layers.Dense(4090)\ny = keras.Input((4090,))\nfor _ in range(3):\n    y = d(y)\n",
    "an input of the model": (
        "d = layers.Dense(4096)\ni = keras.Input((4090,))\ny = layers.Add()([d(layers.Dense(4090)(x)), d(i)])\n"
    ),
    "initial state": "h = layers.Dense(4090)(x)\ny = layers.GRU(4090)(z, initial_state=h)\n",
    "initial state in a list": "h = layers.Dense(4090)(x)\ny = layers.GRU(4090)([z, h])\n",
    "initial states": (
        "h = layers.Dense(4090)(x)\nc = layers.Dense(4090)(x)\ny = layers.LSTM(4090)(z, initial_state=[h, c])\n"
    ),
    "initial state of zeros": "import tensorflow as tf\ny = layers.GRU(4090)(z, initial_state=tf.zeros((8, 4090)))\n",
    "states of another": (
        "_, h, c = layers.LSTM(4090, return_state=True)(z)\n"
        "y = layers.LSTM(4090)(keras.Input((10, 4096)), initial_state=[h, c])\n"
    ),
    "its own output": "d = layers.Dense(4090)\ny = d(layers.ReLU()(d(layers.Dense(4090)(x))))\n",
    "two branches": (
        "d = layers.Dense(4096)\n"
        "y = layers.Add()([d(layers.Dense(4090)(x)), d(layers.Dense(4090)(keras.Input((4096,))))])\n"
    ),
}

INPUTS = "x, v, s = keras.Input((8, 8, 16)), keras.Input((64,)), keras.Input((10, 64))\n"
SAME = "x15, v63, s63 = keras.Input((8, 8, 15)), keras.Input((63,)), keras.Input((10, 63))\n"
LINKED = {
    "a residual onto the data": SAME + "a = layers.Conv2D(15, 3, padding='same')(x15)\n"
    "y = layers.Conv2D(64, 3)(layers.Add()([a, layers.BatchNormalization()(x15)]))\n",
    "a class of the user's": "class Mine(layers.Layer):\n    pass\n"
    "y = layers.Dense(64)(Mine()(layers.Dense(4090)(v)))\n",
    "a function": "y = layers.Dense(64)(layers.Lambda(lambda t: t[:, :60])(layers.Dense(63)(v)))\n",
    "groups of a norm": "y = layers.Conv2D(64, 3)(layers.GroupNormalization(9)(layers.Conv2D(63, 3)(x)))\n",
    "statistics": "y = layers.Conv2D(64, 3)(layers.Normalization(mean=(1.0,) * 3)(layers.Conv2D(63, 3)(x)))\n",
    "joined on another axis": SAME + "y = layers.Dense(64)(layers.Concatenate(axis=1)([layers.Dense(63)(s), s63]))\n",
    "joined with an input": SAME + "y = layers.Dense(64)(layers.Concatenate()([layers.Dense(63)(v), v63]))\n",
    "a product of the user's own": "import tensorflow as tf\ny = tf.matmul(layers.Dense(4090)(v), load())\n",
    "queries by hand": "import tensorflow as tf\nq, k = layers.Dense(63)(s), layers.Dense(63)(s)\n"
    "y = layers.Dense(64)(tf.matmul(tf.matmul(q, k, transpose_b=True), layers.Dense(8)(s)))\n",
    "keys that go on": "import tensorflow as tf\nk = layers.Dense(63)(s)\n"
    "y = [layers.Dense(64)(tf.matmul(layers.Dense(60 + 3)(s), k, transpose_b=True)), layers.Dense(64)(k)]\n",
    "a state and inputs that change": "z, h = layers.Dense(63)(s), layers.Dense(63)(v)\n"
    "y = layers.Dense(64)(layers.GRU(63)(z, initial_state=h))\n",
    "queries of unknown data": "import tensorflow as tf\nq = layers.Dense(63)(s)\n"
    "y = [layers.Dense(64)(q), tf.matmul(load(), q, transpose_b=True)]\n",
    "attention": "a = layers.Dense(63)(s)\ny = layers.Dense(64)(layers.MultiHeadAttention(4, 16)(a, a))\n",
    "an output beside": "a = layers.Dense(63)(v)\ny = [layers.Dense(64)(a), a]\n",
}
ELSEWHERE = {
    "heads by hand": "import tensorflow as tf\nq = layers.Dense(252)(s)\nr = tf.reshape(q, (-1, 4, 10, 9 * 7))\n"
    "y = [layers.Dense(64)(tf.matmul(r, r, transpose_b=True)), layers.Dense(64)(q)]\n",
    "a few filters": "y = layers.Conv2D(64, 3)(layers.Conv2D(3, 3)(x))\n",
    "grouped": "y = layers.Dense(8)(layers.Conv2D(126, 3, groups=63)(layers.Conv2D(63, 3)(x)))\n",
    "the other branch is no literal": "a, b = layers.Dense(63)(v), layers.Dense(60 + 3)(v)\n"
    "y = layers.Dense(64)(layers.Add()([a, b]))\n",
    "one filter": "y = layers.Activation('sigmoid')(layers.Conv2D(1, 5)(x))\n",
    "tied to an embedding": "V = 50257\ny = layers.Dense(V)(layers.Embedding(V, 64)(v))\n",
    "a vocabulary": "y = layers.Dense(50257)(layers.Embedding(50257, 64)(v))\n",
}
FIXED = {
    "a layer alone": "y = layers.Conv2D(64, 3)(layers.Conv2D(63, 3)(x))\n",
    "both branches of a residual": "a = layers.Conv2D(63, 3, padding='same')(x)\n"
    "b = layers.BatchNormalization()(layers.Conv2D(63, 3, padding='same')(layers.Conv2D(32, 1)(a)))\n"
    "y = layers.Conv2D(64, 3)(layers.ReLU()(layers.Add()([a, b])))\n",
    "joined": "y = layers.Dense(64)(layers.Concatenate()([layers.Dense(63)(v), layers.Dense(32)(v)]))\n",
    "flattened": "y = layers.Dense(64)(layers.Flatten()(layers.Conv2D(63, 3)(x)))\n",
    "kept by norms": "y = layers.Conv2D(64, 3)(layers.RMSNormalization()(layers.Conv2D(63, 3)(x)))\n",
    "kept by pools": "y = layers.Conv2D(64, 3)(layers.AdaptiveMaxPooling2D(2)(layers.Conv2D(63, 3)(x)))\n",
    "kept by noise": "y = layers.Conv2D(64, 3)(layers.GaussianDropout(0.1)(layers.Conv2D(63, 3)(x)))\n",
    "a function called twice": "def f(t):\n    return layers.Dense(63, activation='relu')(t)\n"
    "y = layers.Dense(64)(f(f(v)))\n",
}
SETTLED = {  # by something else than the layer: not even a suggestion, so that there is nothing to fix
    "added to an input": (
        SAME + "y = layers.Dense(64)(layers.Add()([layers.Dense(63)(v63), v63]))\n",
        "joined_data_sets",
    ),
    "added by an operator": (SAME + "y = layers.Dense(64)(layers.Dense(63)(v63) + v63)\n", "joined_data_sets"),
    "weights of a file": (
        "b = keras.Sequential([keras.Input((64,)), layers.Dense(63)])\nb.load_weights('w.h5')\n"
        "y = layers.Dense(64)(b(v))\n",
        "saved_file_sets",
    ),
    "the last layer": ("y = layers.Dense(63)(v)\n", "labels_set"),
    "the last but for an activation": ("y = layers.ReLU()(layers.Dense(63)(v))\n", "labels_set"),
}
END = "m = keras.Model([x, v, s], y)\n"
SEVERAL_HEAD = "x, z = keras.Input((4096,)), keras.Input((10, 4096))\n"
SEVERAL_END = "m = keras.Model([x, z], layers.Dense(4096)(y))\n"
PROGRAMS = {
    **{name: "N = 63\n" + text + MODEL.format("N") for name, text in NAMED.items()},
    **{name: "N = 63\n" + MODEL.format("N") + text for name, text in READ_BY_NAME.items()},
    **{name: CLASS + MODEL.format("Cfg.units") + text for name, text in OF_A_CLASS.items()},
    **{name: RECORD + MODEL.format("c.units") + text for name, text in OF_A_RECORD.items()},
    **{name: MADE + MODEL.format("c.units") + text for name, text in OF_AN_INSTANCE.items()},
    **{name: before + MODEL.format(units) + after for name, (before, units, after) in OTHERS.items()},
    **{name: SEVERAL_HEAD + text + SEVERAL_END for name, text in SEVERAL.items()},
    **{name: INPUTS + text + END for name, text in (LINKED | ELSEWHERE).items()},
}
UNFIXED = sorted(path.stem for path in FOLDER.glob("*.before") if not path.with_suffix(".after").exists())
UNTOLD = ("command line", "presets")  # the size is not known, and nothing is found


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_fix(name: str) -> None:
    audited = whole(HEAD + PROGRAMS[name])
    assert audited.mended == audited.text
    sizes = {63, 252, 441, 3087, 4090, 15, 3, 1, 50257}
    assert name in UNTOLD or sizes & {f.size for f in audited.findings}


@pytest.mark.parametrize("name", [*LINKED, *SEVERAL])
def test_what_follows_is_the_reason(name: str) -> None:
    findings = [f for f in whole(HEAD + PROGRAMS[name]).findings if f.dimension in ("units", "filters")]
    reasons = {f.why.get("reason") for f in findings if f.why is not None and f.why.kind == "no_fix"}
    assert {r.kind for r in reasons if isinstance(r, Statement)} == {"linked_unknown"}


@pytest.mark.parametrize("name", SETTLED)
def test_what_no_layer_sets_is_left(name: str) -> None:
    text, reason = SETTLED[name]
    audited = whole(HEAD + INPUTS + text + END)
    (found,) = [f for f in audited.left if f.dimension == "units"]
    assert (found.code, found.size, found.severity, found.fix) == ("TC104", 63, "note", None)
    assert found.why is not None and found.why.kind == reason
    assert audited.mended == audited.text


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "a = [layers.Conv1D(60 + 3, 1)(s), layers.Dense(60 + 3)(s)]\n"
            "a += [layers.Embedding(9, 60 + 3)(keras.Input((10,)))]\ny = layers.Dense(64)(layers.Add()(a))\n",
            {"filters", "units", "output_dim"},
        ),
        (
            "".join(f"N{i} = 63\nprint(N{i})\n" for i in range(6))
            + f"a = [{', '.join(f'layers.Dense(N{i})(v)' for i in range(6))}]\ny = layers.Dense(64)(layers.Add()(a))\n",
            {"N0"},
        ),
        (
            "a = [layers.Dense(63)(v) for _ in range(6)]\ny = [layers.Dense(64)(layers.Add()(a)), *a]\n",
            {f"dense_{i}" if i else "dense" for i in range(6)},
        ),
    ],
)
def test_the_reason_is_the_same_each_time(text: str, first: set[str]) -> None:
    """It is the finding's own where several changes cannot be made, else the first."""
    findings = [f for f in whole(HEAD + INPUTS + text + END).findings if f.size == 63 and f.why is not None]
    reasons = [f.why.get("reason") for f in findings if f.why is not None]
    values = [value for reason in reasons if isinstance(reason, Statement) for _, value in reason.fields]
    assert set(values) == first
    assert len(first) == 1 or values == [v for f in findings for v in (f.dimension, f.layer) if v in first]


@pytest.mark.parametrize("name", UNFIXED)
def test_no_fix_of_what_is_neither_a_number_in_the_call_nor_a_name(name: str) -> None:
    audited = whole((FOLDER / f"{name}.before").read_text(encoding="utf-8"))
    assert (audited.mended, name in UNTOLD or audited.findings != ()) == (audited.text, True)


@pytest.mark.parametrize("name", FIXED)
def test_what_follows_changes_with_it(name: str) -> None:
    text = HEAD + INPUTS + FIXED[name] + END
    assert whole(text).mended == text.replace("63", "64")


def test_alone_the_names_are_fixed() -> None:
    text = HEAD + "N = 63\n" + MODEL.format("N")
    assert whole(text).mended == text.replace("= 63", "= 64")


PROOF = {
    "the number of another": "A = 63\ny = layers.Dense(64)(layers.Dense(63)(v))\n",
    "another argument too": "A = 63\ny = layers.Dense(64)(layers.Dense(A)(layers.Dense(A, name=str(A))(v)))\n",
    "another layer too": "A = 63\ny = layers.Dense(64)(layers.Dense(A)(layers.Dense(A)(v)))\n",
    "other layers": "A = 63\ny = layers.Dense(A)(v)\nfor i in range(A - 60):\n    y = layers.Dense(8)(y)\n",
    "other settings": "A = 63\ny = layers.Dense(A)(v)\ny = layers.Dense(y.shape[-1])(y)\n",
    "an unknown size": "A = 63\ny = layers.Dense(A)(v)\nif A > 63:\n    y = load(y)\ny = layers.Dense(64)(y)\n",
}


@pytest.mark.parametrize("name", PROOF)
def test_the_proof_alone_refuses(name: str) -> None:
    """The first number is edited, and the last argument that is 63 is wanted."""
    source = parse_source(HEAD + INPUTS + PROOF[name] + END, "/model.py")
    numbers = [n for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and n.value == 63]
    edit = Edit(source.place(min(numbers, key=lambda n: n.lineno)), "63", "64")
    units = [c.arguments["units"] for c in source.calls() if c.name == "keras.layers.Dense"]
    wanted = next(Want(a.place, "units", 63, 64) for a in units if a.known is None or a.known.value == 63)
    with pytest.raises(NotCertain):
        check(source, [edit], [wanted], read_model)


BLOCK = "def block(x):\n    return layers.Dense(510)(x)\n"
BUILD = "def {0}():\n    x = keras.Input((512,))\n    return keras.Model(x, layers.Dense(8)({1}(block(x))))\n"


def traced(text: str, ran: str, *more: str) -> tuple[Finding, str | None]:
    """Return the finding on 510 units where only a part of a file ran: what traced mode sees of it."""
    sources = {"/model.py": parse_source(HEAD + text, "/model.py")}
    models = [m for part in (ran, *more) for m in read_model(parse_source(HEAD + part, "/model.py"), 4096)]
    step, *beside = (Step(replace(model, mode="traced"), TARGET, "float16") for model in models)
    found = next(f for f in whole(HEAD + ran).findings if f.size == 510)
    (mended,) = with_fixes([replace(found, fix=None, why=None)], step, sources, beside, read_model)
    return mended, why(mended)


def test_a_helper_of_a_model_that_was_not_traced() -> None:
    """The source tells what else it makes: changed where that fits too, else left alone."""
    one = BLOCK + BUILD.format("one", "")
    other = BUILD.format("other", "layers.Reshape((512,))").replace("512,))(", "17, 30))(")
    assert traced(one, one)[0].fix is not None
    assert traced(one + BUILD.format("two", ""), one)[0].fix is not None
    assert traced(one + other, one)[0].fix is None
    assert traced(one + other, one, BLOCK + "\n" * 3 + other)[0].fix is None


def test_a_call_that_the_source_alone_does_not_tell() -> None:
    one = BLOCK + BUILD.format("one", "")
    unknown, reason = traced(one.replace("layers.Dense(510)(x)\n", "getattr(layers, load())(510)(x)\n"), one)
    assert (unknown.fix, reason) == (None, "no fix: the edited file could not be shown to make the same models")


def test_a_source_that_cannot_be_followed_proves_nothing() -> None:
    def refuse(source: Source) -> list[Model]:
        raise UnreadableInput(source.path, "makes models of more layers and lists than can be followed")

    text = HEAD + "N = 63\n" + MODEL.format("N")
    source = parse_source(text, "/model.py")
    bare = [replace(f, fix=None) for f in whole(text).findings if f.size == 63]
    for mode in ("source", "traced"):
        (model,) = read_model(source, 4096)
        step = Step(replace(model, mode=mode), TARGET, "float16")  # type: ignore[arg-type]
        assert [f.fix for f in with_fixes(bare, step, {source.path: source}, (), refuse)] == [None]
