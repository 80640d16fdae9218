"""A subclassed model with a training step of its own."""

import tensorflow as tf


class Encoder(tf.keras.Model):
    def __init__(self, width=1022):
        super().__init__()
        self.first = tf.keras.layers.Dense(width, activation="relu")  # expect: TC101 units 1022 -> 1024
        self.second = tf.keras.layers.Dense(2 * width, activation="relu")
        self.head = tf.keras.layers.Dense(64)

    def call(self, inputs, training=False):
        return self.head(self.second(self.first(inputs)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}


def main():
    model = Encoder()
    model.compile(optimizer="adam")
    x = tf.random.normal((4096, 768))
    y = tf.random.normal((4096, 64))
    model.fit(x, y, batch_size=4096, epochs=1, verbose=0)


if __name__ == "__main__":
    main()
