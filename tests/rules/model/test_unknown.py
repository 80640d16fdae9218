"""tcprobe/rules/model/unknown.py, and what the rules say where a cost is unknown: never that a size may stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis.sizes.table import advice_on
from tcprobe.audit.severity import grade_all
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.hardware import load_gpus
from tcprobe.report.audit.words import message
from tcprobe.rules.base import Subject
from tcprobe.rules.model.bad import TINY, Bad, bad_sizes
from tcprobe.rules.model.step import Step
from tcprobe.rules.registry import RULES
from tcprobe.rules.sizes.findings import why_unknown
from tcprobe.schema.finding import COST_UNKNOWN, Finding, WhyKind
from tcprobe.schema.model import Model
from tcprobe.schema.op import OpRecord
from tcprobe.schema.statement import parts
from tests.rules.builders import raw, step_of

COSTS_NOTHING: frozenset[WhyKind] = frozenset(
    {"no_gain", "nothing_saved", "bound_by_memory", "bound_by_launch", "as_fast_as_aligned"}
)
"""Why a size costs or saves nothing, as its predicted cost says: never said where that is unknown."""

PLAIN = {"transpose_a": False, "transpose_b": False}
HEAD = (
    "import keras\nfrom keras import layers\nkeras.mixed_precision.set_global_policy('mixed_float16')\n"
    "def run(x):\n    return model(x)\n"
)


def model_of(text: str) -> Model:
    (model,) = read_model(parse_source(HEAD + text, "/model.py"))
    return model


def findings_of(step: Step) -> list[Finding]:
    subject = Subject(step.model, step, {})
    return grade_all([finding for rule in RULES for finding in rule.check(subject)], step)


def without_cost(step: Step) -> list[Bad]:
    return [b for b in bad_sizes(step) if any(step.cost(i) is None for i in b.dimension.products)]


def told(text: str, gpu: str = "a100-sxm-40", **target: Any) -> dict[tuple[str | None, int | None], Finding]:
    """Return the findings on sizes of a script's model, by dimension and size; without XLA where nothing says with."""
    model = model_of(text)
    model = replace(model, products=tuple(replace(p, compiled=target.get("xla", False)) for p in model.products))
    return {(f.dimension, f.size): f for f in findings_of(step_of(model, gpu, **target)) if f.code < "TC107"}


@pytest.mark.parametrize(
    ("layer", "takes", "given"),
    [
        ("keras.Input((None, None, 3))\nlayers.Conv2D(31, 3)(x)", ("height", "width"), "H,W,3"),
        ("keras.Input((None, None, 40, 8))\nlayers.Conv3D(31, 3)(x)", ("depth", "height"), "D,H,40,8"),
        ("keras.Input((None, 24))\nlayers.Conv1D(31, 3)(x)", ("length",), "L,24"),
        ("keras.Input((None, 24))\nlayers.Dense(250)(x)", ("rows",), "N,24"),
    ],
)
def test_what_is_unknown_is_named_with_what_to_give(layer: str, takes: tuple[str, ...], given: str) -> None:
    given_as, _, call = layer.partition("\n")
    (finding,) = (f for key, f in told(f"x = {given_as}\ny = {call}\n").items() if key[0] in ("filters", "units"))
    assert finding.why is not None
    assert (finding.why.kind, finding.why.get("takes"), finding.why.get("own")) == ("product_sizes_unknown", takes, ())
    assert f"give the model's input: --input-shape {given}" in message(finding)


def test_the_input_is_that_of_the_model_however_far_before() -> None:
    text = "x = keras.Input((None, None, 3))\nfor n in (64, 64, 31):\n    x = layers.Conv2D(n, 3)(x)\n"
    assert "--input-shape H,W,3" in message(told(text)["filters", 31])


def test_an_input_that_is_known_is_not_asked_for() -> None:
    text = "x = keras.Input((28, 28, 3))\nx = layers.Conv2D(64, 3)(x)\nx = layers.Dense(250)(unknown(x))\n"
    said = message(told(text)["units", 250])
    assert "how much is unknown" in said
    assert "28" not in said


@pytest.mark.parametrize(
    "text",
    [
        "x = layers.Dense(250)(other.output)\nmodel = keras.Model(other.input, layers.Dense(64)(x))\n",
        "x = keras.Input((None, 128))\nx = layers.Dense(250)(other(x))\nm = keras.Model(x, layers.Dense(64)(x))\n",
        "def head(x):\n    return layers.Dense(64)(layers.Dense(250)(x))\n",
        "def head(x):\n    return layers.Dense(64)(layers.Conv1D(250, 3)(x))\n",
    ],
)
def test_an_input_is_not_asked_for_where_giving_it_tells_nothing(text: str) -> None:
    """Of what another package's model puts out, or of what a function takes that nothing calls."""
    (finding,) = (f for key, f in told(text).items() if key in (("units", 250), ("filters", 250)))
    assert "how much is unknown without" in message(finding)
    assert "--input-shape" not in message(finding)


def test_a_dtype_that_is_unknown_is_said_to_be() -> None:
    unknown = raw(OpRecord("MatMul", ((64, 64), (64, 250)), (64, 250), PLAIN, None, "forward"))
    assert why_unknown(step_of(unknown), [0]).kind == "dtype_unknown"
    without = raw(OpRecord("MatMul", ((64, 64), (64, 250)), (64, 250), PLAIN, "complex64", "forward"))
    assert why_unknown(step_of(without), [0]).kind == "dtype_without_rate"


@pytest.mark.parametrize(
    ("layer", "key", "severity"),
    [
        ("layers.Dense(1030)", ("units", 1030), "warning"),
        ("layers.Dense(1031)", ("units", 1031), "warning"),
        ("layers.Dense(1022)", ("units", 1022), "note"),  # too rarely a percent of a step
        ("layers.Dense(126)", ("units", 126), "note"),
        ("layers.Dense(5003)", ("units", 5003), "warning"),
        ("layers.Conv2D(250, 3)", ("filters", 250), "note"),  # nobody timed unaligned convolutions
        ("layers.LSTM(250)", ("units", 250), "note"),  # nor recurrent layers
        ("layers.Dense(250, dtype='float64')", ("units", 250), "note"),
        ("layers.Dense(1030, dtype='float32')", ("units", 1030), "warning"),  # TF32 asks for multiples of 4
        ("layers.Dense(252, dtype='float32')", ("units", 252), "note"),
    ],
)
def test_a_large_size_that_a_layer_sets_is_a_warning_where_such_products_were_timed(
    layer: str, key: tuple[str, int], severity: str
) -> None:
    text = f"m = keras.Sequential([{layer}, layers.Dense(64)])\nm(data())\n"
    found = told(text)[key]
    assert (found.severity, found.saving_ns) == (severity, None)


def test_a_size_of_unknown_cost_in_a_short_step_is_a_note() -> None:
    """Most of it is predicted, and takes the GPU a fifth of a millisecond: the host takes longer."""
    rest = "layers.Dense(512), " * 3
    text = f"m = keras.Sequential([keras.Input((None,)), layers.Dense(1031), {rest}layers.Dense(64)])\n"
    assert told(text)["units", 1031].severity == "note"
    assert told(text.replace("512", "8192"))["units", 1031].severity == "warning"


def test_sizes_of_the_data_and_what_xla_pads_are_notes() -> None:
    text = "x = keras.Input((None, 250))\ny = layers.Dense(256)(x)\n"
    assert told(text)["inputs", 250].severity == "note"
    text = "m = keras.Sequential([layers.Dense(1030), layers.Dense(64)])\nm(data())\n"
    assert told(text, xla=True)["units", 1030].severity == "note"
    assert told(text)["units", 1030].severity == "warning"


@pytest.mark.parametrize(
    ("last", "size", "severity"),
    [
        ("layers.Dense(151)", 151, "note"),
        ("layers.Dense(151, activation='softmax')", 151, "note"),
        ("layers.Dense(999), layers.Softmax()", 999, "note"),
        ("layers.Dense(1001)", 1001, "note"),  # as large as a vocabulary, but of no words
        ("layers.Dense(1031), layers.Dense(64)", 1031, "warning"),
    ],
)
def test_labels_of_unknown_cost_are_a_note(last: str, size: int, severity: str) -> None:
    """The data sets how many there are, and the last product is seldom a large part of a step."""
    found = told(f"m = keras.Sequential([layers.Dense(256), {last}])\nm(data())\n")
    assert found["units", size].severity == severity


def test_on_a_gpu_without_tensor_cores_no_size_is_a_warning() -> None:
    text = "m = keras.Sequential([layers.Dense(250)])\nm(data())\n"
    assert told(text, "p100")["units", 250].severity == "note"


def test_an_embedding_that_nothing_multiplies_has_no_finding() -> None:
    assert not told("m = keras.Sequential([layers.Embedding(5003, 250)])\nm(data())\n")


def test_products_of_known_cost_do_not_speak_for_those_of_unknown() -> None:
    """A layer called on 4 samples of one row, and on rows that nobody knows: only the first is bound by memory."""
    text = "x = keras.Input((24,))\nd = layers.Dense(20)\ny = layers.Dense(64)(d(x))\n"
    step = step_of(model_of(text))
    assert {part.kind for f in findings_of(step) for part in parts(f.says)} & COSTS_NOTHING
    lost = [replace(p, record=_without_rows(p.record)) if p.record.pass_ == "wgrad" else p for p in step.model.products]
    partly = step_of(replace(step.model, products=tuple(lost)))
    assert without_cost(partly)
    assert not {part.kind for f in findings_of(partly) for part in parts(f.says)} & COSTS_NOTHING


def _without_rows(record: OpRecord) -> OpRecord:
    shapes = tuple(None if shape is None else (None, *shape[1:]) for shape in record.input_shapes)
    return replace(record, input_shapes=shapes)


LAYERS = st.sampled_from(
    [
        "layers.Dense({n})",
        "layers.Conv2D({n}, 3)",
        "layers.Conv2D({n}, 3, activation='tanh', dtype='float32')",
        "layers.Conv2DTranspose({n}, 3, strides=2)",
        "layers.Conv2D({n}, 3, groups={n})",
        "layers.Conv1D({n}, 3)",
        "layers.Reshape((7, 7, {n}))",
        "layers.UpSampling2D()",
        "layers.LSTM({n}, return_sequences=True)",
        "layers.Embedding(5003, {n})",
        "layers.BatchNormalization()",
    ]
)
INPUTS = st.sampled_from(
    ["", "keras.Input(shape)", "keras.Input((None, None, 3))", "keras.Input((None, 7))", "keras.Input((28, 28, 3))"]
)
GPUS = st.sampled_from(["a100-sxm-40", "h100-sxm", "t4", "v100-sxm2", "p100"])


@given(
    INPUTS,
    st.lists(st.tuples(LAYERS, st.sampled_from([1, 3, 7, 10, 63, 100, 250, 4090, 5003])), min_size=1, max_size=4),
    st.sampled_from(["mixed_float16", "mixed_bfloat16", "float32"]),
    GPUS,
    st.booleans(),
)
def test_nothing_is_concluded_on_a_cost_that_is_unknown(
    first: str, chosen: list[tuple[str, int]], policy: str, gpu: str, xla: bool
) -> None:
    stack = [part for part in (first, *(layer.format(n=n) for layer, n in chosen)) if part]
    text = f"m = keras.Sequential([{', '.join(stack)}])\nm(data())\n"
    (model,) = read_model(parse_source(HEAD.replace("mixed_float16", policy) + text, "/model.py"))
    step = step_of(model, gpu, xla=xla)
    unknown = without_cost(step)
    of_unknown = {(b.dimension.layer, b.dimension.size) for b in unknown}
    for finding in findings_of(step):
        if (finding.layer, finding.size) in of_unknown and finding.code < "TC107":
            said = {part.kind for told in (finding.says, finding.why) for part in parts(told)}
            assert not said & COSTS_NOTHING, (finding, text)
            assert finding.saving_ns is None
            assert finding.severity != "error"
            if finding.code != "TC104" and said & {"slower_by_unknown"}:
                assert said & COST_UNKNOWN
    for bad in unknown:
        assert advice_on(step, bad, measured=False).kind not in ("free", "measured_free", "slice_in_vain")


def test_so_few_columns_are_bound_by_memory_on_every_gpu_whatever_the_other_sizes_are() -> None:
    """2 m n k operations on at least 2 (m k + k n + m n) bytes of 16 bits: fewer than n for each byte."""
    for gpu in load_gpus():
        peak = gpu.peak_flop_per_s("float16")
        if gpu.tensor_cores and peak:
            assert peak / gpu.bandwidth_bytes_per_s > TINY, gpu.id
