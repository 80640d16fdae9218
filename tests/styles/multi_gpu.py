"""One model on all GPUs of a machine: variables under a strategy's scope, a batch for each replica."""

import os

import numpy as np
import tensorflow as tf

BATCH_SIZE_PER_REPLICA = 2048
EPOCHS = 12
FEATURES = 784

strategy = tf.distribute.MirroredStrategy()
print(f"Number of devices: {strategy.num_replicas_in_sync}")
BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync


def decay(epoch):
    if epoch < 3:
        return 1e-3
    return 1e-4 if epoch < 7 else 1e-5


class PrintLR(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"\nLearning rate for epoch {epoch + 1} is {float(self.model.optimizer.learning_rate)}")


def get_datasets(samples=8192):
    x_train = np.zeros((samples, 28, 28), dtype="float32")
    y_train = np.zeros((samples,), dtype="int32")

    def scale(image, label):
        return tf.reshape(tf.cast(image, tf.float32) / 255, [FEATURES]), label

    train = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    return train.map(scale).cache().shuffle(samples).batch(BATCH_SIZE, drop_remainder=True)


with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((FEATURES,)),
            tf.keras.layers.Dense(4090, activation="relu"),  # expect: TC101 units 4090 -> 4096
            tf.keras.layers.Dense(2048, activation="relu"),
            tf.keras.layers.Dropout(0.2),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(),
        metrics=["accuracy"],
    )


def main():
    callbacks = [tf.keras.callbacks.LearningRateScheduler(decay), PrintLR()]
    train_dataset = get_datasets()
    if "CHECKPOINTS" in os.environ:
        prefix = os.environ["CHECKPOINTS"] + "/ckpt_{epoch}.weights.h5"
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(filepath=prefix, save_weights_only=True))
    model.fit(train_dataset, epochs=EPOCHS, callbacks=callbacks)
    loss, accuracy = model.evaluate(train_dataset)
    print(f"loss {loss:.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
