"""A vision transformer: patches of images, a learned position for each, blocks of attention, a wide head."""

import keras
import numpy as np
from keras import layers, ops

num_classes = 100
input_shape = (32, 32, 3)
batch_size = 256
image_size = 72
patch_size = 6
num_patches = (image_size // patch_size) ** 2
projection_dim = 64
num_heads = 4
transformer_units = [projection_dim * 2, projection_dim]
transformer_layers = 4
mlp_head_units = [2046, 1024]


def mlp(x, hidden_units, dropout_rate):
    for units in hidden_units:
        x = layers.Dense(units, activation=keras.activations.gelu)(x)  # expect: TC101 units 2046 -> 2048
        x = layers.Dropout(dropout_rate)(x)
    return x


class Patches(layers.Layer):
    def __init__(self, patch_size):
        super().__init__()
        self.patch_size = patch_size

    def call(self, images):
        input_shape = ops.shape(images)
        batch = input_shape[0]
        height, width, channels = input_shape[1], input_shape[2], input_shape[3]
        rows, columns = height // self.patch_size, width // self.patch_size
        patches = ops.image.extract_patches(images, size=self.patch_size)
        return ops.reshape(patches, (batch, rows * columns, self.patch_size * self.patch_size * channels))


class PatchEncoder(layers.Layer):
    def __init__(self, num_patches, projection_dim):
        super().__init__()
        self.num_patches = num_patches
        self.projection = layers.Dense(units=projection_dim)
        self.position_embedding = layers.Embedding(input_dim=num_patches, output_dim=projection_dim)

    def call(self, patch):
        positions = ops.expand_dims(ops.arange(start=0, stop=self.num_patches, step=1), axis=0)
        return self.projection(patch) + self.position_embedding(positions)


def create_vit_classifier():
    inputs = keras.Input(shape=input_shape)
    augmented = layers.Resizing(image_size, image_size)(layers.Normalization(mean=0.5, variance=0.25)(inputs))
    encoded_patches = PatchEncoder(num_patches, projection_dim)(Patches(patch_size)(augmented))

    for _ in range(transformer_layers):
        x1 = layers.LayerNormalization(epsilon=1e-6)(encoded_patches)
        attention_output = layers.MultiHeadAttention(num_heads=num_heads, key_dim=projection_dim, dropout=0.1)(x1, x1)
        x2 = layers.Add()([attention_output, encoded_patches])
        x3 = layers.LayerNormalization(epsilon=1e-6)(x2)
        x3 = mlp(x3, hidden_units=transformer_units, dropout_rate=0.1)
        encoded_patches = layers.Add()([x3, x2])

    representation = layers.LayerNormalization(epsilon=1e-6)(encoded_patches)
    representation = layers.Flatten()(representation)
    representation = layers.Dropout(0.5)(representation)
    features = mlp(representation, hidden_units=mlp_head_units, dropout_rate=0.5)
    logits = layers.Dense(num_classes)(features)
    return keras.Model(inputs=inputs, outputs=logits)


def run_experiment(model):
    model.compile(
        optimizer=keras.optimizers.AdamW(learning_rate=0.001, weight_decay=0.0001),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    x_train = np.zeros((5120, *input_shape), dtype="float32")
    y_train = np.zeros((5120, 1), dtype="int32")
    return model.fit(x=x_train, y=y_train, batch_size=batch_size, epochs=10, validation_split=0.1)


if __name__ == "__main__":
    vit_classifier = create_vit_classifier()
    history = run_experiment(vit_classifier)
