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


def test_an_unscaled_loop_is_a_warning_where_it_applies_gradients() -> None:
    finding = found("TC202", subject(FLOAT16 + LOOP))
    assert [(f.severity, f.place.line if f.place else 0) for f in finding] == [("warning", 16)]
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
    assert said("TC202", subject(FLOAT16 + UNSCALED_WRAPPER, keras="3.15.1")) == ["12 error"]
    assert said("TC202", subject(FLOAT16 + UNSCALED_WRAPPER, keras="2.15.0")) == ["12 warning"]


def test_an_optimizer_of_its_own_is_not_wrapped_by_compile() -> None:
    (finding,) = found("TC202", subject(FLOAT16 + GAN, keras="3.15.1"))
    assert finding.severity == "warning"
    assert message(finding).startswith("self.d_optimizer.apply_gradients")


def test_the_policy_may_be_set_from_a_policy_object() -> None:
    text = HEAD + 'policy = mixed_precision.Policy("mixed_float16")\nmixed_precision.set_global_policy(policy)\n'
    assert said("TC202", subject(text + LOOP)) == ["17 warning"]


def test_an_unknown_policy_is_no_policy() -> None:
    text = HEAD + "mixed_precision.set_global_policy(args.precision)\n"
    assert said("TC202", subject(text + LOOP)) == []
    traced = subject(text + LOOP, mode="traced", policy="mixed_float16")
    assert said("TC202", traced) == ["16 warning"]


def test_pure_float16_is_not_scaled_by_compile() -> None:
    text = HEAD + 'keras.config.set_dtype_policy("float16")\nmodel = build()\nmodel.compile("sgd")\nmodel.fit(x, y)\n'
    assert said("TC202", subject(text)) == ["4 warning"]
    assert said("TC202", subject(text.replace('"float16"', '"mixed_float16"'))) == []


TWO_TAPES = """
d_optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
g_optimizer = keras.optimizers.Adam()


def g_loss_of(z):
    return loss_object(g(z))


def train_step(x, z):
    with tf.GradientTape() as tape:
        loss = d_optimizer.get_scaled_loss(loss_object(d(x)))
    grads = tape.gradient(loss, d.trainable_variables)
    d_optimizer.apply_gradients(zip(d_optimizer.get_unscaled_gradients(grads), d.trainable_variables))
    with tf.GradientTape() as tape:
        loss = g_loss_of(z)
    grads = tape.gradient(loss, g.trainable_variables)
    g_optimizer.apply_gradients(zip(grads, g.trainable_variables))
"""


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("", ""), ["22 warning"]),
        (("return loss_object(g(z))", "return g_optimizer.get_scaled_loss(loss_object(g(z)))"), []),
        (
            ("loss = d_optimizer.get_scaled_loss(loss_object(d(x)))", "loss = loss_object(d(x))"),
            ["22 warning"],
        ),  # gradients tell
        (
            (
                "        loss = g_loss_of(z)\n",
                "        loss = g_loss_of(z)\n        if fp16:\n            loss *= scaled_loss\n",
            ),
            [],
        ),
        (("    grads = tape.gradient(loss, g.", "    (grads, _), other = tape.gradient(loss, g."), ["22 warning"]),
        (("g_optimizer.apply_gradients(zip(grads, ", "g_optimizer.apply((grads, "), ["22 warning"]),
        (("def train_step(x, z)", "def train_step(x, z, g_optimizer)"), []),  # it may be wrapped
    ],
)
def test_each_tape_is_judged_by_what_its_own_loss_is_made_of(change: tuple[str, str], lines: list[str]) -> None:
    assert said("TC202", subject(FLOAT16 + TWO_TAPES.replace(*change), keras="2.15.0")) == lines


def test_optimizers_that_one_statement_makes_are_known_apart() -> None:
    made = TWO_TAPES.splitlines(keepends=True)[1:3]
    both = (
        "g_optimizer, d_optimizer = " + ", ".join(line.partition(" = ")[2].strip() for line in reversed(made)) + "\n\n"
    )
    text = TWO_TAPES.replace("".join(made), both)
    assert said("TC202", subject(FLOAT16 + text, keras="2.15.0")) == ["22 warning"]


def test_every_unscaled_tape_of_a_function_is_told() -> None:
    text = TWO_TAPES.replace("mixed_precision.LossScaleOptimizer", "").replace(
        "d_optimizer.get_unscaled_gradients(grads)", "grads"
    )
    plain = text.replace("d_optimizer.get_scaled_loss", "")
    assert said("TC202", subject(FLOAT16 + plain)) == ["18 warning", "22 warning"]


def test_gradients_from_elsewhere_count_where_nothing_in_the_files_scales() -> None:
    given = LOOP.replace("def train_step(x, y):", "def gradients_of(x, y):").replace(
        "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n    return loss\n",
        "    return gradients\n\n\ndef update(pairs):\n    optimizer.apply_gradients(pairs)\n",
    )
    assert said("TC202", subject(FLOAT16 + given)) == ["20 warning"]
    assert said("TC202", subject(FLOAT16 + given + "scaled_loss = 1\n")) == []
