"""Source made to break what reads it: sizes that are none, values that double, depth, length; each file ends soon."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcprobe.audit.source import state
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.errors import InputError
from tcprobe.flows.audit import flow, models
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.source.imports import LONGEST_SOURCE
from tcprobe.source.source import LONGEST_NOTEBOOK

HEAD = "import math\nfrom tensorflow import keras\nfrom tensorflow.keras import layers\n"
DIGITS = "0x" + "f" * 5000  # more than Python prints
SIZES = (DIGITS, "9" * 4300, "10**18", "-10**18", "0", "-1", "1e400", "()", "{}", "(2**62, 2**62)", "None", "'\\ud800'")
LAYERS = (
    "Dense(%s)",
    "Conv2D(8, 3, groups=%s)",
    "Conv2D(8, 3, strides=%s)",
    "Conv2D(8, 3, dilation_rate=%s)",
    "Conv2DTranspose(%s, %s)",
    "DepthwiseConv2D(3, depth_multiplier=%s)",
    "UpSampling2D(%s)",
    "Reshape((%s, -1))",
    "LSTM(%s)",
    "Embedding(%s, 8)",
)


def audited(path: Path, text: str | bytes) -> str:
    """Audit a file; return the one error that it costs, empty where it was judged."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        flow.audit(AuditOptions(files=(str(path),), mode="source"), lambda _: None)
    except InputError as error:
        assert "\n" not in error.message
        assert len(error.message) < 500
        return error.found
    return ""


def doubled(start: str, step: str, end: str) -> str:
    return f"{HEAD}x = {start}\n" + f"{step}\n" * 60 + end + "\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_setting_that_no_layer_can_have_is_unknown(layer: str, tmp_path: Path) -> None:
    for size in SIZES:
        stack = f"layers.Dense(250), layers.{layer.replace('%s', size)}, layers.Dense(250)"
        assert audited(tmp_path / "m.py", f"{HEAD}m = keras.Sequential([keras.Input((32, 32, 3)), {stack}])\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        f"x = f'{{{DIGITS}}}'",
        f"for i in ({DIGITS}, 1): layers.Dense(i, name=f'a{{i}}')",
        f"x = [1, 2, 3][{DIGITS}:]",
        f"layers.Dense(foo({DIGITS}) + y)",
        f"keras.Input(({DIGITS},))",
        f"m.fit(x, batch_size={DIGITS})",
    ],
)
def test_a_number_that_python_does_not_print_is_no_size(line: str, tmp_path: Path) -> None:
    assert (
        audited(tmp_path / "m.py", f"{HEAD}m = keras.Sequential([keras.Input((8,)), layers.Dense(250)])\n{line}\n")
        == ""
    )


DOUBLED = {
    "list": doubled("[keras.Input((3,))]", "x = [x, x]", "keras.Model(x, layers.Dense(3)(x))"),
    "joined": doubled("[1]", "x = x + x", "layers.Dense(x[0])"),
    "tuple": doubled("(1,)", "x = (x, x)", "layers.Dense(x)\nd = {x: x == x}"),
    "dictionary": doubled("{}", "x = {'a': x, 'b': x}", "layers.Dense(3)(x)"),
    "text": doubled("'a'", "x = f'{x}{x}'", "layers.Dense(len(x))"),
    "model": doubled("keras.Sequential([layers.Dense(8)])", "x = keras.Sequential([x, x])", "x(keras.Input((8,)))"),
    "itself": f"{HEAD}x = [layers.Dense(3)]\nx.append(x)\nkeras.Sequential(x)\nkeras.Model(x, x)\nlayers.Dense(5)(x)\n",
    "circle": f"{HEAD}class A(B): pass\nclass B(A): pass\nclass A(B): pass\nA().f()\nlayers.Dense(3)\n",
    "diamond": HEAD
    + "class A0(keras.Model): pass\nclass B0(keras.Model): pass\n"
    + "".join(f"class {c}{i + 1}(A{i}, B{i}): pass\n" for i in range(40) for c in "AB")
    + "A40().none\nA40()(x)\n",
}


@pytest.mark.parametrize("name", DOUBLED)
def test_values_that_double_at_each_line_are_cut_off(name: str) -> None:
    try:
        found = read_model(parse_source(DOUBLED[name], "/model.py"))
    except InputError as error:
        assert "more layers and lists than can be followed" in error.found
    else:
        assert len(found) <= 1


def test_what_is_too_long_to_be_followed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_EVALUATED", 10_000)
    made = "r = range(60)\nx = [[[[a for a in r] for b in r] for c in r] for d in r]\nlayers.Dense(3)\n"
    (model,) = read_model(parse_source(HEAD + made, "/model.py"))
    assert any("too long to be followed" in note for note in model.notes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = 1\n" * (LONGEST_SOURCE // 6 + 1), "at most 2,000,000 are read"),
        (b"#" * (LONGEST_NOTEBOOK + 1), "at most 50,000,000 are read"),
        ("# coding: " + "u" * 100_000, "is not text in its encoding"),
        ("# coding: punycode\nx = 1\n", "is not text in its encoding"),
        (
            HEAD + "x = keras.layers.LSTM(8)\n" + "x = layers.Bidirectional(x)\n" * 3000 + "x(keras.Input((3, 3)))\n",
            "nested",
        ),
        (
            HEAD
            + "def f():\n    return a0.Dense(100)\n"
            + "".join(f"a{i} = a{i + 1}\n" for i in reversed(range(3000)))
            + "f()\n",
            "nested",
        ),
    ],
    ids=["source", "bytes", "encoding", "codec", "wrapped", "aliases"],
)
def test_too_much_costs_the_file_with_one_error(text: str | bytes, found: str, tmp_path: Path) -> None:
    assert found in audited(tmp_path / "m.py", text)


def test_a_file_of_a_folder_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("x = 1\n" * (LONGEST_SOURCE // 6 + 1))
    (tmp_path / "m.py").write_text(f"{HEAD}m = keras.Sequential([keras.Input((8,)), layers.Dense(250)])\n")
    outcome = flow.audit(AuditOptions(files=(str(tmp_path),), mode="source"), lambda _: None)
    assert not outcome.report.failed
    assert any("are read" in unseen.reason for a in outcome.report.audited for unseen in a.unseen)


@pytest.fixture
def without_collections() -> Iterator[None]:
    """Hypothesis has a function called at each, and what is raised in that is lost."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_a_file_that_takes_too_long_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST_SECONDS", 0.05)
    loops = "".join(f"{' ' * depth}for i{depth} in range(2):\n" for depth in range(19))
    assert "is too much to judge" in audited(tmp_path / "m.py", f"{HEAD}{loops}{' ' * 19}layers.Dense(250)\n")


@pytest.mark.usefixtures("without_collections")
def test_an_end_of_time_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "AGAIN_SECONDS", 0.05)
    with pytest.raises(models.OutOfTimeError), models.at_most(0.01):
        with contextlib.suppress(models.OutOfTimeError):
            while True:
                pass
        while True:
            pass


@pytest.mark.usefixtures("without_collections")
def test_time_that_is_left_is_not_taken_from_what_follows() -> None:
    with models.at_most(0.01):
        pass
    assert sum(range(3_000_000)) > 0
    with pytest.raises(models.OutOfTimeError), models.at_most(0.01):
        while True:
            pass
