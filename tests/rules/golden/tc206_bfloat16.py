"""bfloat16, judged for a T4."""

import keras

keras.config.set_dtype_policy("mixed_bfloat16")
model = keras.Sequential(
    [keras.Input((512,)), keras.layers.Dense(512), keras.layers.Activation("linear", dtype="float32")]
)
