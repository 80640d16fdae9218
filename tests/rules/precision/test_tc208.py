"""TC208: API that Keras 3 does not have."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source
from tcprobe.schema.finding import Fix
from tests.rules.precision.builders import FILE, HEAD, found, said, subject
from tests.rules.precision.test_tc202 import GUIDE_LOOP, KERAS_3_LOOP


def mended(text: str, fix: Fix | None) -> str:
    """Return the text with a fix applied."""
    assert fix is not None
    source = parse_source(text, FILE)
    offsets = [0]
    for line in source.lines:
        offsets.append(offsets[-1] + len(line))
    for edit in sorted(fix.edits, key=lambda e: e.place, reverse=True):
        place = edit.place
        assert source.segment(place) == edit.before
        assert place.end_line is not None
        assert place.end_column is not None
        start = offsets[place.line - 1] + place.column - 1
        end = offsets[place.end_line - 1] + place.end_column - 1
        text = text[:start] + edit.after + text[end:]
    return text


@pytest.mark.parametrize(
    "line",
    [
        'tf.keras.mixed_precision.experimental.set_policy("mixed_float16")',
        'policy = keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=1024)',
        'policy = mixed_precision.Policy("mixed_float16", loss_scale="dynamic")',
        "o = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(), loss_scale='dynamic')",
        "o = tf.train.experimental.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())",
        "o = tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())",
        "loss = optimizer.get_scaled_loss(loss)",
        "s = tf.mixed_precision.experimental.DynamicLossScale()",
    ],
)
def test_what_is_gone_is_an_error_under_keras_3_alone(line: str) -> None:
    assert said("TC208", subject(HEAD + line + "\n", keras="3.15.1")) == ["4 error"]
    assert said("TC208", subject(HEAD + line + "\n", keras="2.3.0")) == ["4 note"]
    assert said("TC208", subject(HEAD + line + "\n")) == ["4 note"]


@pytest.mark.parametrize(
    "text",
    [
        KERAS_3_LOOP,
        'mixed_precision.set_global_policy("mixed_float16")\nkeras.config.set_dtype_policy("mixed_float16")\n',
        "o = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=8, dynamic_growth_steps=5)\n",
        "try:\n    s = o.get_scaled_loss(loss)\nexcept AttributeError:\n    s = loss\n",
        "if hasattr(o, 'get_scaled_loss'):\n    s = o.get_scaled_loss(loss)\n",
        "if keras.__version__ < '3':\n    s = o.get_scaled_loss(loss)\n",
        "scale = getattr(o, 'scale_loss', None) or o.get_scaled_loss\n",
    ],
)
def test_what_is_there_or_asked_for_is_silent(text: str) -> None:
    assert said("TC208", subject(HEAD + text, keras="3.15.1")) == []


def test_the_rename_is_certain_where_the_module_is_written_out() -> None:
    text = HEAD + 'tf.keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
    (finding,) = found("TC208", subject(text))
    assert finding.fix is not None
    assert finding.fix.safe
    assert mended(text, finding.fix).splitlines()[-1] == 'tf.keras.mixed_precision.set_global_policy("mixed_float16")'


def test_no_rename_where_an_import_must_change_too() -> None:
    text = "from tensorflow.keras.mixed_precision import experimental as mixed_precision\n"
    (finding,) = found("TC208", subject(text + 'mixed_precision.set_policy("mixed_float16")\n', keras="3.0.0"))
    assert finding.severity == "error"
    assert finding.fix is None


def test_both_calls_of_a_loop_change_together() -> None:
    findings = found("TC208", subject(HEAD + GUIDE_LOOP, keras="3.15.1"))
    assert [f.severity for f in findings] == ["error", "error"]
    (fix,) = [f.fix for f in findings if f.fix is not None]
    text = mended(HEAD + GUIDE_LOOP, fix)
    assert "scaled_loss = optimizer.scale_loss(loss)" in text
    assert "gradients = scaled_gradients\n" in text
    assert said("TC208", subject(text, keras="3.15.1")) == []
    assert all(f.fix is None for f in found("TC208", subject(HEAD + GUIDE_LOOP)))


def test_a_loop_that_scales_two_losses_is_not_changed() -> None:
    scale = "        scaled_loss = optimizer.get_scaled_loss(loss)\n"
    text = GUIDE_LOOP.replace(scale, scale + scale)
    assert text != GUIDE_LOOP
    assert [f.fix for f in found("TC208", subject(HEAD + text, keras="3.15.1"))] == [None] * 3
