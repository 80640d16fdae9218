import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((64,)),
        layers.Dense(63, name="9" * 5_000),
        layers.Dense(63, name="8" * 5_000),
        layers.Dense(10),
    ]
)
model.compile("adam", "mse")
