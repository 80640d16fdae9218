"""Fixes of sizes: golden pairs, cases where there is none, and properties of all of them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.source.text import apply, diff, edited
from tcprobe.audit.source.read import parse_source
from tcprobe.report.audit.words import fixing, why
from tcprobe.schema.finding import Edit, Fix, Range
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say
from tests.audit.fix.fixes.reading import chain, finding, findings_of, fixed, step_of

FOLDER = Path(__file__).parent / "fixes"
GOLDEN = sorted(path.stem for path in FOLDER.glob("*.before"))
PRESETS = ("presets",)


def pair(name: str) -> tuple[str, str]:
    return tuple((FOLDER / f"{name}.{kind}").read_bytes().decode() for kind in ("before", "after"))  # type: ignore


def mended(text: str, name: str = "") -> str:
    findings = fixed(text, last=name in PRESETS)
    return apply(findings, {"/model.py": parse_source(text, "/model.py")}).get("/model.py", text)


def tokens(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        yield token.type, token.string


def test_there_are_golden_pairs() -> None:
    assert len(GOLDEN) >= 12
    assert all((FOLDER / f"{name}.after").exists() for name in GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    before, after = pair(name)
    assert mended(before, name) == after


@pytest.mark.parametrize("name", GOLDEN)
def test_every_finding_of_a_golden_file_is_fixed_once_and_for_all(name: str) -> None:
    before, after = pair(name)
    findings = fixed(before, last=name in PRESETS)
    assert findings
    assert all(f.fix is not None and not f.fix.safe and f.fix.edits for f in findings)
    again = fixed(after, last=name in PRESETS)
    assert [f for f in again if f.fix is not None] == []


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
@pytest.mark.parametrize("name", GOLDEN)
def test_line_ends_stay(name: str, line_end: str) -> None:
    before, after = (text.replace("\n", line_end) for text in pair(name))
    assert mended(before, name) == after


@pytest.mark.parametrize("name", [n for n in GOLDEN if not n.startswith("head")])
def test_only_numbers_change(name: str) -> None:
    before, after = pair(name)
    different = [(a, b) for a, b in zip(tokens(before), tokens(after), strict=True) if a != b]
    assert different
    assert all(a[0] == b[0] == tokenize.NUMBER for a, b in different)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_fix_holds_alone(name: str) -> None:
    """Each fix is whole by itself: made alone, the file parses, and the next run makes the others."""
    text, after = pair(name)
    for _ in range(8):
        fixes = [f for f in fixed(text, last=name in PRESETS) if f.fix is not None]
        if not fixes:
            break
        text = apply(fixes[:1], {"/model.py": parse_source(text, "/model.py")})["/model.py"]
        ast.parse(text)
    assert text == after


HEAD = "import sys\nimport keras\nfrom keras import layers\n"


def sequential(*layers: str) -> str:
    return f"m = keras.Sequential([keras.Input((64,)), {', '.join(f'layers.{x}' for x in layers)}, layers.Dense(10)])\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("N = 63\nfor i in range(N):\n    print(i)\n" + sequential("Dense(N)"), id="loop count"),
        pytest.param("N = 63\nimages = load()[:N]\n" + sequential("Dense(N)"), id="data size"),
        pytest.param("N = 63\nload(N)\n" + sequential("Dense(N)"), id="passed on"),
        pytest.param("N = 63\ndef data():\n    return N\n" + sequential("Dense(N)"), id="returned"),
        pytest.param("N = 63\nlambda n=N: n\n" + sequential("Dense(N)"), id="default of a lambda"),
        pytest.param("C = {'n': 63}\nload(**C)\n" + sequential("Dense(C['n'])"), id="dictionary passed on"),
        pytest.param("C = {'n': 63}\nD = C\nload(D)\n" + sequential("Dense(C['n'])"), id="dictionary under two names"),
        pytest.param("class C:\n    n = 63\nload(C.n)\n" + sequential("Dense(C.n)"), id="attribute passed on"),
        pytest.param("N = 63\nif N > 50:\n    pass\n" + sequential("Dense(N)"), id="compared"),
        pytest.param("N = 63\nfor i in [0] * N:\n    print(i)\n" + sequential("Dense(N)"), id="loop over copies"),
        pytest.param("N = 63\nL = (8,) * 64\nload(L[N])\n" + sequential("Dense(N)"), id="index"),
        pytest.param("N = 63\nload(1 if N else 2)\n" + sequential("Dense(N)"), id="condition"),
        pytest.param("N = 63\nwhile N:\n    pass\n" + sequential("Dense(N)"), id="while"),
        pytest.param("N = 63\nC = {}\nC['n'] = N\nload(C)\n" + sequential("Dense(N)"), id="put into a container"),
        pytest.param("N = 63\nload([N, 1][0])\n" + sequential("Dense(N)"), id="in a list passed on"),
        pytest.param(sequential("Dense(60 + 3)"), id="sum"),
        pytest.param(sequential("Dense(int(sys.argv[1]) or 63)"), id="command line"),
        pytest.param(sequential("Dense(9 * 7)"), id="no factor can change"),
        pytest.param("N = 63\n" + sequential("Dense(N, name=str(N))"), id="made a text of"),
        pytest.param(sequential("Dense(63)") + "import tensorflow as tf\nx = tf.reshape(y, (-1, 63))\n", id="shape"),
        pytest.param(sequential("Dense(63)") + "x = y[:, :63]\n", id="slice"),
        pytest.param(sequential("Dense(63)") + "x = y.reshape(-1, 9, 63)\n", id="method"),
        pytest.param(
            "def compute_output_shape(self, s):\n    return (*s[:-1], 63)\n" + sequential("Dense(63)"), id="told shape"
        ),
        pytest.param("x = tf.zeros((8, 63))\n" + sequential("Dense(63)"), id="data made by hand"),
        pytest.param(sequential("Dense(63)", "Permute((1,))"), id="a layer between that is not understood"),
        pytest.param(sequential("Dense(3087)", "Reshape((7, 7, -1))"), id="open reshape"),
        pytest.param(sequential("Dense(3087)", "Reshape((49 * 63,))", "Reshape((7, 21, 21))"), id="reshape apart"),
    ],
)
def test_no_fix_where_it_is_not_certain(text: str) -> None:
    findings = fixed(HEAD + text)
    assert findings or "argv" in text
    assert [f.fix for f in findings] == [None] * len(findings)


@pytest.mark.parametrize(
    "conv",
    [
        pytest.param("Conv2D(1, 3, activation='softmax')", id="filters mixed"),
        pytest.param("Conv2D(1, 3, data_format='channels_first')", id="channels first"),
        pytest.param("Conv2D(2 - 1, 3)", id="no literal"),
    ],
)
def test_no_fix_of_a_last_convolution(conv: str) -> None:
    text = f"{HEAD}m = keras.Sequential([keras.Input((28, 28, 64)), layers.{conv}, layers.Activation('linear')])\n"
    findings = fixed(text)
    assert len(findings) == 1 and findings[0].fix is None


def test_a_last_convolution_outside_a_list_stays() -> None:
    text = f"{HEAD}m = keras.Sequential()\nkeras.Input((28, 28, 64))\nm.add(layers.Conv2D(1, 3))\n"
    assert [f.fix for f in fixed(text)] == [None]


def test_one_literal_cannot_become_two_numbers() -> None:
    source = parse_source(f"{HEAD}N = 63\n{sequential('Dense(N)', 'Dense(N)')}", "/model.py")
    model = chain(source)
    first, second = findings_of(model, step_of(model))
    other = finding(model.layers[1], "units", 63, 72)
    sources = {"/model.py": source}
    assert [f.fix for f in with_fixes([first, other], model, step_of(model), sources)] == [None, None]
    both = with_fixes([first, second], model, step_of(model), sources)
    assert both[0].fix is not None and both[0].fix == both[1].fix
    # one of both alone: nobody asked for the other
    assert with_fixes([first], model, step_of(model), sources)[0].fix is None


def test_what_costs_nothing_is_left_alone() -> None:
    source = parse_source(HEAD + sequential("Dense(63)"), "/model.py")
    model = chain(source)
    layer = model.layers[0]
    free = replace(finding(layer, "units", 63, 64), severity="note", saving_ns=Range(0.0, 0.0, 0.0))
    pays = replace(free, saving_ns=Range(1.0, 2.0, 3.0))
    found = with_fixes([free], model, step_of(model), {"/model.py": source})
    assert [f.fix for f in found] == [None]
    assert with_fixes([pays], model, step_of(model), {"/model.py": source})[0].fix is not None


def test_a_fix_of_the_rule_stays() -> None:
    source = parse_source(HEAD + sequential("Dense(63)"), "/model.py")
    model = chain(source)
    own = Fix(say("scale_as_keras_3"), (Edit(Place("/model.py", 1, 1, 1, 7), "import", "import"),), safe=True)
    given = [replace(finding(model.layers[0], "units", 63, 64), fix=own)]
    assert with_fixes(given, model, step_of(model), {"/model.py": source}) == given


def test_a_constant_that_another_file_imports_stays() -> None:
    text = f"{HEAD}N = 63\n{sequential('Dense(N)')}"
    assert fixed(text)[0].fix is not None
    other = parse_source("from model import N\nprint(N)\n", "/other.py")
    assert fixed(text, others=[other])[0].fix is None


def test_units_that_are_added_to_the_data_stay() -> None:
    """``x + self.dense(x)`` ties the units to the data; without an operator nothing does."""
    text = HEAD + "m = keras.Sequential([keras.Input((63,)), layers.Dense(63), layers.Dense(10)])\n"
    assert fixed(text)[0].fix is not None
    (found,) = fixed(text + "def call(self, x):\n    return x + self.dense(x)\n")
    assert (found.fix, why(found)) == (None, "no fix: the data has as many features, and the code may add them up")


def test_installed_code_stays() -> None:
    text = HEAD + sequential("Dense(63)")
    assert fixed(text, "/project/model.py")[0].fix is not None
    assert fixed(text, "/venv/lib/python3.11/site-packages/keras/model.py")[0].fix is None


def test_text_of_a_fix() -> None:
    assert {fixing(f.fix) for f in fixed(pair("plain_reshape")[0]) if f.fix} == {
        "change units 3087 to 3136 and target_shape 63 to 64 together"
    }
    assert {fixing(f.fix) for f in fixed(pair("head_list")[0]) if f.fix} == {
        "change filters 1 to 8 and keep only the first"
    }


def test_diff_of_several_files() -> None:
    sources, findings = {}, []
    for name in ("b", "a"):
        path = f"/project/{name}.py"
        text = HEAD + sequential("Dense(63)").rstrip("\n")
        sources[path] = parse_source(text, path)
        findings += fixed(text, path)
    lines = diff(findings, sources, "/project").splitlines()
    assert [x for x in lines if x.startswith(("---", "+++"))] == [
        "--- a/a.py",
        "+++ b/a.py",
        "--- a/b.py",
        "+++ b/b.py",
    ]
    assert lines.count("\\ No newline at end of file") == 4
    assert [x[:4] for x in lines if "Dense" in x] == ["-m =", "+m ="] * 2
    assert diff([], sources) == ""


def test_edits_of_a_text_that_changed_are_refused() -> None:
    from tcprobe.errors import InputError

    edit = Edit(Place("/m.py", 1, 5, 1, 7), "63", "64")
    assert edited("N = 63", [edit], "/m.py") == "N = 64"
    for text in ("M  = 63", "", "N = 6"):
        with pytest.raises(InputError, match="changed since it was read"):
            edited(text, [edit], "/m.py")


def test_fixes_that_clash_are_made_one_at_a_time() -> None:
    source = parse_source("N = 63\nM = 1\n", "/m.py")
    one = Fix(say("scale_as_keras_3"), (Edit(Place("/m.py", 1, 5, 1, 7), "63", "64"),))
    two = Fix(
        say("scale_as_keras_3"),
        (Edit(Place("/m.py", 1, 5, 1, 7), "63", "72"), Edit(Place("/m.py", 2, 5, 2, 6), "1", "8")),
    )
    assert apply([one, two, one, None], {"/m.py": source}) == {"/m.py": "N = 64\nM = 1\n"}
