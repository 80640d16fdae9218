"""TC202: custom float16 loops without loss scaling; the guide's own loop, and its wrong forms."""

from __future__ import annotations

import pytest

from tcprobe.report.audit.words import message
from tests.rules.precision.builders import BFLOAT16, FLOAT16, HEAD, found, said, subject

LOOP = """
optimizer = keras.optimizers.RMSprop()
loss_object = keras.losses.SparseCategoricalCrossentropy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x)
        loss = loss_object(y, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
"""

# TensorFlow guide, "Training the model with a custom training loop": Keras 2's names.
GUIDE_LOOP = """
optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.RMSprop())


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x)
        loss = loss_object(y, predictions)
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
"""

KERAS_3_LOOP = """
optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())

def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x, training=True))
        to_differentiate = optimizer.scale_loss(loss)
    gradients = tape.gradient(to_differentiate, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""

BY_HAND = """
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x, training=True))
        scaled_loss = loss * 1024.0
    gradients = [g / 1024.0 for g in tape.gradient(scaled_loss, model.trainable_variables)]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""

TRAIN_STEP = """
class Custom(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}
"""

UNSCALED_WRAPPER = """
optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())

def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""

GAN = """
class GAN(keras.Model):
    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer = d_optimizer

    def train_step(self, images):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(self.discriminator(images))
        grads = tape.gradient(loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))
"""

GRAD_CAM = """
def grad_cam(image):
    with tf.GradientTape() as tape:
        score = model(image)[:, 3]
    return tape.gradient(score, image)

model.compile("adam", "mse")
model.fit(x, y)
"""

MINIMIZE = """
optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())
optimizer.minimize(lambda: loss_object(y, model(x)), var_list=model.trainable_variables)
"""


def test_an_unscaled_loop_is_a_warning_at_its_tape() -> None:
    finding = found("TC202", subject(FLOAT16 + LOOP))
    assert [(f.severity, f.place.line if f.place else 0) for f in finding] == [("warning", 12)]
    assert "optimizer.apply_gradients applies float16 gradients of an unscaled loss" in message(finding[0])


@pytest.mark.parametrize("loop", [GUIDE_LOOP, KERAS_3_LOOP, BY_HAND, GRAD_CAM, MINIMIZE])
@pytest.mark.parametrize("keras", [None, "2.15.0", "3.15.1"])
def test_a_scaled_loop_or_none_at_all_is_silent(loop: str, keras: str | None) -> None:
    assert said("TC202", subject(FLOAT16 + loop, keras=keras)) == []


@pytest.mark.parametrize("head", [HEAD, BFLOAT16])
def test_other_policies_need_no_scaling(head: str) -> None:
    assert said("TC202", subject(head + LOOP + TRAIN_STEP)) == []


@pytest.mark.parametrize(
    ("keras", "severity", "words"),
    [
        ("3.15.1", "error", "at first they are 1/32768 of what they should be"),
        ("2.15.0", "warning", "self.optimizer.get_scaled_loss(loss)"),
        (None, "warning", "in Keras 3, compile() wraps the optimizer"),
    ],
)
def test_a_train_step_of_ones_own_meets_the_wrapper_of_compile(keras: str | None, severity: str, words: str) -> None:
    given = subject(FLOAT16 + TRAIN_STEP, mode="traced", policy="mixed_float16", keras=keras)
    (finding,) = found("TC202", given)
    assert finding.severity == severity
    assert words in message(finding)


def test_a_train_step_that_scales_is_silent() -> None:
    text = TRAIN_STEP.replace("tape.gradient(loss,", "tape.gradient(self.optimizer.scale_loss(loss),")
    assert text != TRAIN_STEP
    assert said("TC202", subject(FLOAT16 + text, keras="3.15.1")) == []


def test_a_wrapper_that_divides_what_nobody_multiplied_is_an_error_in_keras_3() -> None:
    assert said("TC202", subject(FLOAT16 + UNSCALED_WRAPPER, keras="3.15.1")) == ["9 error"]
    assert said("TC202", subject(FLOAT16 + UNSCALED_WRAPPER, keras="2.15.0")) == ["9 warning"]


def test_an_optimizer_of_its_own_is_not_wrapped_by_compile() -> None:
    (finding,) = found("TC202", subject(FLOAT16 + GAN, keras="3.15.1"))
    assert finding.severity == "warning"
    assert message(finding).startswith("self.d_optimizer.apply_gradients")


def test_the_policy_may_be_set_from_a_policy_object() -> None:
    text = HEAD + 'policy = mixed_precision.Policy("mixed_float16")\nmixed_precision.set_global_policy(policy)\n'
    assert said("TC202", subject(text + LOOP)) == ["13 warning"]


def test_an_unknown_policy_is_no_policy() -> None:
    text = HEAD + "mixed_precision.set_global_policy(args.precision)\n"
    assert said("TC202", subject(text + LOOP)) == []
    traced = subject(text + LOOP, mode="traced", policy="mixed_float16")
    assert said("TC202", traced) == ["12 warning"]


def test_pure_float16_is_not_scaled_by_compile() -> None:
    text = HEAD + 'keras.config.set_dtype_policy("float16")\nmodel = build()\nmodel.compile("sgd")\nmodel.fit(x, y)\n'
    assert said("TC202", subject(text)) == ["4 warning"]
    assert said("TC202", subject(text.replace('"float16"', '"mixed_float16"'))) == []
