"""The documentation of the rules on precision, TC2xx."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.docs.base import RuleDoc

GUIDE: Final = "TensorFlow guide, Mixed precision (tensorflow/docs, site/en/guide/mixed_precision.ipynb)"

TC201: Final = RuleDoc(
    code="TC201",
    summary="The model's last layer computes in float16 or bfloat16.",
    explanation=(
        "Under a mixed policy every layer returns 16 bits, the last one too. Probabilities are hit hardest: just below "
        "1 float16 has steps of 0.0005 and bfloat16 of 0.004, and float16 holds nothing below 6e-8, so that a loss "
        "or a metric made of them is coarse and its gradient vanishes early. Logits in 16 bits lose less: the losses "
        "of Keras 3 cast what they are given to float32, those of Keras 2 and tf.nn mostly compute in the dtype that "
        "they get.\n\nEnd the model with a float32 activation of its own: it multiplies no matrices, so it costs "
        "next to nothing, and the product in front of it stays on the Tensor Cores. A softmax in the middle of a model "
        "(attention) is fine in 16 bits, also where the model gives its weights as a further output, and so is any "
        "layer that is followed by another.\n\n"
        "--fix splits the softmax off where the layer stands in a Sequential's list or is called on the spot, and "
        "nothing in the file takes layers by number or name."
    ),
    severity=(
        "warning for a softmax or sigmoid in float16, and for any float16 output where Keras is known to be 2; note "
        "otherwise. bfloat16 has float32's range, so that it costs resolution but cannot overflow or vanish: a note."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, activation="softmax")])\n'
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model = keras.Sequential([\n    keras.Input((784,)),\n    keras.layers.Dense(10),\n"
        '    keras.layers.Activation("softmax", dtype="float32"),\n])\n'
    ),
    sources=(
        f"{GUIDE}, section Building the model: a softmax at the end should be float32, and so should any output",
        "Keras 3.15.1, keras/src/losses/loss.py, Loss.__call__: y_pred is converted to floatx",
        "IEEE 754 binary16: 2**-11 below 1, smallest subnormal 2**-24; bfloat16: 2**-8 below 1",
    ),
)
TC202: Final = RuleDoc(
    code="TC202",
    summary="A custom training loop in float16 applies gradients of a loss that nobody scaled.",
    explanation=(
        "Gradients below 6e-8 become 0 in float16, and small ones lose digits. Scaling the loss by a large number, and "
        "the gradients back, keeps them. Model.fit does it under the policy mixed_float16: compile wraps the optimizer "
        "in a LossScaleOptimizer, and the default train_step scales the loss. A loop of your own must do both.\n\n"
        "In Keras 3 half of it is worse than nothing. LossScaleOptimizer.apply_gradients always divides by the scale, "
        "so a train_step that overrides Keras' own and does not call self.optimizer.scale_loss hands its optimizer "
        "1/32768 of every gradient, and less as the scale doubles every 2,000 steps: SGD stands still, and Adam's "
        "epsilon may outweigh what is left. In Keras 2 apply_gradients divides nothing, and the loop goes unscaled. "
        "Other policies need no scaling: bfloat16 has float32's range.\n\n"
        "Each tape is judged by itself, at the apply_gradients that takes its gradients: by what the loss is made of, "
        "functions of the files that it comes from included. Where the gradients come from is not always in sight; "
        "then anything in the files that scales a loss silences it.\n\n"
        "A policy counts wherever the files set it, also inside functions. Where they set two different ones it is "
        "unknown, and nothing is listed."
    ),
    severity=(
        "error where Keras 3 is known to divide gradients that were never multiplied; otherwise warning: how many "
        "gradients underflow depends on the model."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n...\nwith tf.GradientTape() as tape:\n'
        "    loss = loss_fn(y, model(x, training=True))\n"
        "gradients = tape.gradient(loss, model.trainable_variables)\n"
        "optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n...\n"
        "with tf.GradientTape() as tape:\n    loss = loss_fn(y, model(x, training=True))\n"
        "    scaled = optimizer.scale_loss(loss)  # Keras 2: optimizer.get_scaled_loss(loss)\n"
        "gradients = tape.gradient(scaled, model.trainable_variables)\n"
        "# Keras 2 only: gradients = optimizer.get_unscaled_gradients(gradients)\n"
        "optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
    ),
    sources=(
        f"{GUIDE}, sections Loss scaling and Training the model with a custom training loop",
        "Keras 3.15.1, keras/src/trainers/trainer.py, compile: wraps where the policy's name is mixed_float16; "
        "keras/src/optimizers/loss_scale_optimizer.py: apply divides by dynamic_scale, initially 2**15",
        "Measured with Keras 3.15.1: SGD's update of a train_step without scale_loss is 1/32768 of that with it",
        "Keras 2, mixed_precision/loss_scale_optimizer.py (API documentation r2.7): get_scaled_loss and "
        "get_unscaled_gradients must be called where a tf.GradientTape is used",
    ),
)
TC203: Final = RuleDoc(
    code="TC203",
    summary="A loss scale is fixed, applied twice, or given where it is ignored.",
    explanation=(
        "A dynamic loss scale grows while gradients stay finite and halves when one overflows, in a step that it "
        "skips. That is not free: each step looks at every gradient and branches on what it finds. Of a small "
        "classifier (MNIST, XLA, batch 1,024, one A100) a step took 5.3 ms so and 1.0 ms with a fixed scale of 1,024. "
        "A fixed scale spends no time, and nobody skips a step: too high and gradients pass 65504, infinite or NaN "
        "from then on; too low and they underflow. So a fixed scale is a note: right where a step is short and the "
        "loss is watched. tcprobe profile measures what dynamic scaling costs (TC312). Keras 3 has no dynamic=False "
        "any more and raises; there a fixed scale is the loss_scale_factor of an optimizer that is not wrapped, with "
        "compile(auto_scale_loss=False).\n\n"
        "Scaling twice is a mistake of another kind. A LossScaleOptimizer around a LossScaleOptimizer multiplies the "
        "loss once and divides gradients twice; a scale by hand on top of scale_loss is divided out only once, or "
        "overflows early. A loss_scale_factor on an optimizer that is wrapped does nothing: LossScaleOptimizer resets "
        "it. An explicit LossScaleOptimizer given to compile under mixed_float16 is fine: compile does not wrap it "
        "again."
    ),
    severity=(
        "error for a wrapper around a wrapper, and for dynamic=False under Keras 3, which raises; warning for a scale "
        "on top of LossScaleOptimizer; note for a fixed scale, for dynamic=False where Keras is not known, and for a "
        "scale that is ignored."
    ),
    bad=(
        "optimizer = keras.mixed_precision.LossScaleOptimizer(\n"
        "    keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam()))\n"
    ),
    good="optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n",
    sources=(
        f"{GUIDE}, section Loss scaling: nothing but a dynamic loss scale is recommended, which what was "
        "measured does not bear out for small models",
        "Argonne Leadership Computing Facility, CompPerf Workshop 2021, reduced precision, train_MNIST",
        "Keras 3.15.1, keras/src/optimizers/loss_scale_optimizer.py: dynamic=False raises ValueError; the inner "
        "optimizer's loss_scale_factor is set to None; trainer.py: compile leaves a LossScaleOptimizer as it is",
        "Measured with Keras 3.15.1: two nested wrappers with a scale of 8 update by 1/8 of what they should",
    ),
)
TC204: Final = RuleDoc(
    code="TC204",
    summary="A layer that multiplies matrices is hard-coded to float32 although the policy is mixed.",
    explanation=(
        "dtype='float32' takes a layer out of mixed precision: its products run as TF32 at half the rate of 16 bits "
        "where the GPU has TF32, on CUDA cores where it has not (V100, T4), its activations take twice the memory, and "
        "casts stand on both sides. The same goes for a product in call() whose operand is cast to float32.\n\n"
        "Normalisation, softmax and losses are right in float32, and Keras' own BatchNormalization and "
        "LayerNormalization compute in it anyway; so is the model's last layer (TC201), which is never listed here."
    ),
    severity="from the predicted time that 16 bits would save; note where it cannot be predicted.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'x = keras.layers.Dense(4096, activation="relu", dtype="float32")(x)\n'
        "x = keras.layers.Dense(10)(x)\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'x = keras.layers.Dense(4096, activation="relu")(x)\n'
        "x = keras.layers.Dense(10)(x)\n"
    ),
    sources=(
        f"{GUIDE}, section Building the model: dtype='float32' overrides the policy of a layer",
        "TensorFlow, tf.config.experimental.enable_tensor_float_32_execution: TF32 needs compute capability 8.0",
        "NVIDIA A100 datasheet: 156 TFLOP/s dense in TF32, 312 in FP16 and BF16",
    ),
)
TC205: Final = RuleDoc(
    code="TC205",
    summary="The mixed policy is set after layers were built, which stay float32.",
    explanation=(
        "A layer takes the global policy when it is constructed and keeps it. A policy that is set later reaches only "
        "the layers built from then on: the others go on in float32, with no word of it, and the model is no "
        "faster.\n\n"
        "Traced, the layers' own dtypes decide. In source mode the rule fires only where the order is certain: the "
        "layers, or a call of this file's function that builds them, stand before the call in the same block, are used "
        "after it, and nothing builds other layers after it."
    ),
    severity=(
        "error where the layers built too early are predicted to cost 5 % of the step or more; else warning: the model "
        "does not compute in the precision asked for."
    ),
    bad=(
        'model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(10, dtype="float32")])\n'
        'keras.mixed_precision.set_global_policy("mixed_float16")\nmodel.compile("adam", "mse")\n'
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(10, dtype="float32")])\n'
        'model.compile("adam", "mse")\n'
    ),
    sources=(
        f"{GUIDE}, section Setting the dtype policy: only layers created afterwards have it",
        "Keras 3.15.1, keras/src/layers/layer.py: the dtype policy is resolved in Layer.__init__; measured: a Dense "
        "built before set_dtype_policy('mixed_float16') computes in float32",
    ),
)
TC206: Final = RuleDoc(
    code="TC206",
    summary="The target GPU has no Tensor Cores for the precision that the model asks for.",
    explanation=(
        "float16 needs Tensor Cores to be fast: compute capability 7.0 or later, and not the chips of the GTX 16 "
        "series, which report 7.5, pass Keras' check and have none (mixed_float16 was measured 2 to 4 times slower "
        "than float32 there). bfloat16 needs 8.0: before it, it is computed as float32 with casts, and TensorFlow "
        "keeps convolutions in the slower layout. float8 needs 8.9.\n\n"
        "The other way round: float32 never uses the Tensor Cores of a V100 or a T4, which have no TF32, nor those of "
        "any later GPU with TF32 turned off. Mixed precision would."
    ),
    severity="warning where the precision is slow on that GPU; note where float32 leaves its Tensor Cores idle.",
    bad=(
        '# tcprobe audit-shapes --target-gpu t4 model.py\nkeras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
    ),
    good=(
        '# tcprobe audit-shapes --target-gpu t4 model.py\nkeras.mixed_precision.set_global_policy("mixed_float16")\n'
    ),
    sources=(
        f"{GUIDE}, section Supported hardware: mixed_float16 needs compute capability 7.0",
        "tensorflow/tensorflow#44191, NVIDIA/TensorRT#892: TU116 and TU117 have no Tensor Cores; 2 to 4 times slower",
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0; Ada whitepaper: FP8, 8.9",
        "TensorFlow, generic_layout_optimizer.cc: NHWC for bfloat16 from compute capability 8.0",
    ),
)
TC208: Final = RuleDoc(
    code="TC208",
    summary="The code uses mixed-precision API that Keras 3 does not have.",
    explanation=(
        "Keras 3, which is tf.keras from TensorFlow 2.16 on, has no keras.mixed_precision.experimental, no loss_scale "
        "argument of a policy or of LossScaleOptimizer, and no get_scaled_loss and get_unscaled_gradients: "
        "optimizer.scale_loss scales, and apply_gradients divides by itself. The graph rewrite refuses optimizers of "
        "Keras 3.\n\n"
        "Code that asks first (hasattr, getattr, try, a test of the version) or that calls both names is left alone, "
        "and so is code that takes Keras 2 by name: import tf_keras, or TF_USE_LEGACY_KERAS=1 set in the file. "
        "dynamic=False is TC203's; initial_scale and dynamic_growth_steps exist in Keras 3 too."
    ),
    severity="error where Keras 3 or later is known to run the code; note where the version is not known or is 2.",
    bad=(
        "from tensorflow.keras.mixed_precision import experimental as mixed_precision\n"
        'mixed_precision.set_policy(mixed_precision.Policy("mixed_float16", loss_scale="dynamic"))\n'
    ),
    good='from tensorflow import keras\nkeras.mixed_precision.set_global_policy("mixed_float16")\n',
    sources=(
        "Keras 3.15.1, keras/src/optimizers/loss_scale_optimizer.py and keras/src/dtype_policies/dtype_policy.py",
        "Tried with TensorFlow 2.21 and Keras 3.15.1: keras.mixed_precision.experimental and both methods raise "
        "AttributeError, Policy(loss_scale=) TypeError, LossScaleOptimizer(loss_scale=) and "
        "enable_mixed_precision_graph_rewrite ValueError",
        "keras-team/keras#19479 and #20894, tensorflow/tensorflow#64124: get_scaled_loss is gone from TensorFlow 2.16",
    ),
)
TC210: Final = RuleDoc(
    code="TC210",
    summary="The loss is scaled although bfloat16 or float32 needs no scaling.",
    explanation=(
        "Loss scaling lifts gradients out of float16's underflow, below 6e-8. bfloat16 has the exponent of float32 and "
        "reaches down to 1e-38, so nothing underflows that would not in float32 too. The scaling does no harm to "
        "the numbers, but each step checks every gradient for infinities and branches on the result.\n\n"
        "A wrapper inside a condition, for scripts that offer several precisions, is not listed."
    ),
    severity="note: it costs a pass over the gradients, and no accuracy.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
        "optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n"
    ),
    good=('keras.mixed_precision.set_global_policy("mixed_bfloat16")\noptimizer = keras.optimizers.Adam()\n'),
    sources=(
        f"{GUIDE}, section Loss scaling: not needed for mixed_bfloat16",
        "Keras 3.15.1, keras/src/trainers/trainer.py, compile: wraps the optimizer for mixed_float16 alone",
        "bfloat16: 8 bits of exponent, smallest normal 1.2e-38",
    ),
)
DOCS: Final = (TC201, TC202, TC203, TC204, TC205, TC206, TC208, TC210)
