"""TC203: loss scales that are fixed, doubled or ignored."""

from __future__ import annotations

import pytest

from tcprobe.report.audit.words import message
from tests.rules.precision.builders import BFLOAT16, FLOAT16, found, said, subject

WRAP = "optimizer = mixed_precision.LossScaleOptimizer({})\n"
STEP = """
def step(x):
    with tf.GradientTape() as tape:
        loss = loss_fn(model(x))
        {}
    gradients = tape.gradient(scaled, model.trainable_variables)
    {}
"""


def test_dynamic_false_raises_in_keras_3_and_fixes_in_keras_2() -> None:
    text = FLOAT16 + WRAP.format("keras.optimizers.SGD(), dynamic=False, initial_scale=128")
    assert said("TC203", subject(text, keras="3.15.1")) == ["5 error"]
    assert said("TC203", subject(text, keras="2.12.0")) == ["5 note"]
    assert said("TC203", subject(text)) == ["5 note"]


def test_code_that_asks_first_is_no_error() -> None:
    made = "optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False, initial_scale=128)\n"
    asked = 'if hasattr(mixed_precision.LossScaleOptimizer, "get_scaled_loss"):\n    ' + made
    assert said("TC203", subject(FLOAT16 + asked, keras="3.15.1")) == []


def test_a_fixed_experimental_scale() -> None:
    text = FLOAT16 + "o = mixed_precision.experimental.LossScaleOptimizer(keras.optimizers.SGD(), {})\n"
    assert said("TC203", subject(text.format("1024"))) == ["5 note"]
    assert said("TC203", subject(text.format("loss_scale=512.0"))) == ["5 note"]
    assert said("TC203", subject(text.format("'dynamic'"))) == []


def test_a_wrapper_around_a_wrapper_is_an_error_by_name_too() -> None:
    nested = WRAP.format("mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())")
    named = (
        "inner = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())\n"
        "outer = keras.optimizers.LossScaleOptimizer(inner)\n"
    )
    assert said("TC203", subject(FLOAT16 + nested)) == ["5 error"]
    assert said("TC203", subject(FLOAT16 + named)) == ["6 error"]
    assert said("TC203", subject(FLOAT16 + named.replace("(inner)", "(inner_optimizer=inner)"))) == ["6 error"]
    given = "def wrapped(optimizer):\n    " + WRAP.format("optimizer") + "    return optimizer\n"
    assert said("TC203", subject(FLOAT16 + given)) == []


def test_a_factor_inside_a_wrapper_is_ignored_and_alone_is_fixed() -> None:
    inside = FLOAT16 + WRAP.format("keras.optimizers.SGD(loss_scale_factor=512)")
    alone = FLOAT16 + "optimizer = keras.optimizers.SGD(loss_scale_factor=512)\n"
    (first,) = found("TC203", subject(inside))
    (second,) = found("TC203", subject(alone))
    assert (first.severity, second.severity) == ("note", "note")
    assert "does nothing" in message(first)
    assert "is a fixed loss scale" in message(second)
    assert said("TC203", subject(alone.replace("512", "None"))) == []


@pytest.mark.parametrize(
    "scaled",
    ["scaled = optimizer.scale_loss(loss * 1024.0)", "scaled = 1024.0 * optimizer.get_scaled_loss(loss)"],
)
def test_a_constant_on_top_of_the_wrapper_scales_twice(scaled: str) -> None:
    text = FLOAT16 + STEP.format(scaled, "optimizer.apply_gradients(zip(gradients, model.trainable_variables))")
    assert said("TC203", subject(text)) == ["9 warning"]


@pytest.mark.parametrize("weight", ["0.5", "loss_weight", "2.0", "10"])
def test_a_weight_of_a_loss_is_no_scale(weight: str) -> None:
    text = FLOAT16 + STEP.format(f"scaled = optimizer.scale_loss(loss * {weight})", "apply(gradients)")
    assert said("TC203", subject(text)) == []


def test_a_scale_by_hand_is_a_note_where_it_is_divided_out() -> None:
    text = FLOAT16 + "SCALE = 1024.0\n" + STEP.format("scaled = loss * SCALE", "{}")
    assert said("TC203", subject(text.replace("{}", "apply([g / SCALE for g in gradients])"))) == ["10 note"]
    assert said("TC203", subject(text.replace("{}", "apply(gradients)"))) == []
    assert said("TC203", subject(text.replace("{}", "apply([g / 2.0 for g in gradients])"))) == []
    weights = text.replace("scaled = loss * SCALE", "LOSS = 0.5\n        scaled = loss\n        bound = LOSS * SCALE")
    assert said("TC203", subject(weights.replace("{}", "apply([g / SCALE for g in gradients])"))) == []


def test_a_dynamic_wrapper_given_to_compile_is_right() -> None:
    text = FLOAT16 + WRAP.format("keras.optimizers.Adam(), initial_scale=1024, dynamic_growth_steps=500")
    assert said("TC203", subject(text + "model.compile(optimizer, 'mse')\n", keras="3.15.1")) == []
    assert said("TC203", subject(FLOAT16 + WRAP.format("keras.optimizers.Adam(), dynamic=True"))) == []


def test_doubling_is_wrong_in_any_precision() -> None:
    nested = WRAP.format("mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())")
    static = WRAP.format("keras.optimizers.SGD(), dynamic=False, initial_scale=8")
    assert said("TC203", subject(BFLOAT16 + nested)) == ["5 error"]
    assert said("TC203", subject(BFLOAT16 + static)) == []
    assert said("TC203", subject(BFLOAT16 + static, keras="3.15.1")) == ["5 error"]


def test_bfloat16_is_another_rules_matter() -> None:
    assert said("TC203", subject(BFLOAT16 + "o = keras.optimizers.SGD(loss_scale_factor=512)\n")) == []
