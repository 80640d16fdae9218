"""TC204: float32 in heavy layers under a mixed policy."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.report.audit.words import why
from tcprobe.schema.model import Layer, Place, Product
from tcprobe.schema.op import OpRecord
from tests.rules.precision.builders import FILE, FLOAT16, HEAD, PLAIN, dense, found, read, said, subject
from tests.rules.precision.test_tc208 import mended

AT = Place(FILE, 7, 40, 7, 49)


def model(**changes: Any) -> dict[str, Any]:
    """Return a float32 layer of 4096 x 4096 among float16 ones."""
    first, one = dense("first", 4096, 4096, is_last=False)
    settings: dict[str, Any] = {"dtype": "float32", "is_last": False, "arguments": {"dtype": AT}, **changes}
    heavy, two = dense("heavy", 4096, 4096, **settings)
    return {"layers": (first, heavy), "products": (one, two)}


def test_a_heavy_layer_is_an_error_with_what_it_saves() -> None:
    (finding,) = found("TC204", subject(FLOAT16, **model()))
    assert (finding.severity, finding.place, finding.passes) == ("error", AT, ("forward",))
    assert finding.saving_ns is not None
    # 2 * 1024 * 4096 * 4096 = 34 GFLOP: 0.22 ms at TF32's peak of 156 TFLOP/s, 0.11 ms at float16's 312.
    assert 80_000 < finding.saving_ns.mid < 250_000
    assert finding.saving_ns.low <= finding.saving_ns.mid <= finding.saving_ns.high
    assert finding.saving_pct is not None


@pytest.mark.parametrize(
    "changes",
    [{"is_last": True}, {"is_last": None}, {"arguments": {}}, {"dtype": "float16"}],
)
def test_the_last_layer_and_what_nobody_hard_coded_are_silent(changes: dict[str, Any]) -> None:
    assert said("TC204", subject(FLOAT16, **model(**changes))) == []


def test_a_layer_that_feeds_another_is_not_the_last() -> None:
    given = model(is_last=None)
    after = Layer("after", "Dense", "Dense", dtype="float16", inputs_from=("heavy",))
    given["layers"] = (*given["layers"], after)
    assert said("TC204", subject(FLOAT16, **given)) == ["7 error"]


def test_float32_throughout_and_no_policy_are_silent() -> None:
    assert said("TC204", subject(HEAD, **model())) == []
    assert said("TC204", subject(HEAD + 'keras.config.set_dtype_policy("float32")\n', **model())) == []


def test_a_gpu_without_tensor_cores_saves_nothing_there() -> None:
    assert [f.severity for f in found("TC204", subject(FLOAT16, gpu="v100-sxm2", **model()))] == ["error"]
    assert said("TC204", subject(FLOAT16, gpu="gtx1080ti", **model())) == []


def test_unknown_sizes_are_a_note() -> None:
    given = model()
    record = replace(given["products"][1].record, input_shapes=((None, None), (None, None)), output_shape=None)
    given["products"] = (given["products"][0], replace(given["products"][1], record=record))
    (finding,) = found("TC204", subject(FLOAT16, **given))
    assert (finding.severity, finding.saving_ns, why(finding)) == ("note", None, "its sizes are not known")


def test_a_normalisation_multiplies_nothing() -> None:
    layer = Layer(
        "bn", "BatchNormalization", "BatchNormalization", dtype="float32", is_last=False, arguments={"dtype": AT}
    )
    assert said("TC204", subject(FLOAT16, layers=(layer,))) == []


CALL = """
class Attention(layers.Layer):
    def call(self, q, k):
        {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "return tf.matmul(tf.cast(q, tf.float32), tf.cast(k, tf.float32), transpose_b=True)",
        "return tf.linalg.matmul(q, tf.cast(k, tf.float32))",
        "q = tf.cast(q, 'float32')\n        return keras.ops.einsum('bqd,bkd->bqk', q, k)",
    ],
)
def test_a_product_of_cast_operands(line: str) -> None:
    assert len(said("TC204", subject(FLOAT16 + CALL.format(line)))) == 1
    assert said("TC204", subject(HEAD + CALL.format(line))) == []


@pytest.mark.parametrize(
    "line",
    [
        "return tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)",
        "scores = tf.nn.softmax(tf.cast(tf.matmul(q, k), tf.float32))\n        return scores",
        "return tf.matmul(tf.cast(q, k.dtype), k)",
        "return tf.reduce_sum(tf.cast(q, tf.float32))",
    ],
)
def test_a_cast_result_is_right(line: str) -> None:
    assert said("TC204", subject(FLOAT16 + CALL.format(line))) == []


def test_a_traced_product_at_that_line_gives_the_cost() -> None:
    text = FLOAT16 + CALL.format("return tf.matmul(tf.cast(q, tf.float32), k)")
    record = OpRecord("MatMul", ((1024, 4096), (4096, 4096)), (1024, 4096), dict(PLAIN), "float32", "forward")
    product = Product(record, None, place=Place(FILE, 8))
    (finding,) = found("TC204", subject(text, products=(product,)))
    assert finding.severity == "error"
    assert finding.saving_ns is not None


@pytest.mark.parametrize(
    ("written", "after"),
    [
        ('layers.Dense(4096, dtype="float32")', "layers.Dense(4096)"),
        ('layers.Dense(4096, dtype="float32", use_bias=False)', "layers.Dense(4096, use_bias=False)"),
        ("layers.Dense(\n    4096,\n    dtype=tf.float32,\n)", "layers.Dense(\n    4096,\n)"),
    ],
)
def test_the_dtype_is_dropped(written: str, after: str) -> None:
    text = f"{FLOAT16}x = layers.Dense(4096)(inputs)\nx = {written}(x)\ny = layers.Dense(10, dtype='float32')(x)\n"
    (finding,) = found("TC204", read(text))
    assert finding.fix is not None
    assert not finding.fix.safe
    assert mended(text, finding.fix) == text.replace(written, after)


@pytest.mark.parametrize(
    "written",
    [
        'layers.Dense(dtype="float32", units=4096)',
        'layers.Dense(\n    4096,  # wide\n    dtype="float32",\n)',
        "layers.Dense(4096, dtype=FULL)",
    ],
)
def test_no_edit_where_more_than_an_argument_would_go(written: str) -> None:
    text = f"{FLOAT16}FULL = 'float32'\nx = {written}(inputs)\ny = layers.Dense(10, dtype='float32')(x)\n"
    (finding,) = found("TC204", read(text))
    assert finding.fix is None
