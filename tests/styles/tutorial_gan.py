"""The GAN of a tutorial on mixed precision, as its script is written: two subclassed models, one loop for both."""

import logging
import sys
import time

import numpy
import tensorflow as tf

BATCH_SIZE = 4096
N_TRAINING_EPOCHS = 4
NOISE = 100

tf.keras.mixed_precision.set_global_policy("mixed_float16")


def configure_logger():
    logger = logging.getLogger()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s - %(levelname)s - %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


class Discriminator(tf.keras.models.Model):
    """Tells real images from made ones: one logit for each."""

    def __init__(self, activation=tf.nn.tanh):
        tf.keras.models.Model.__init__(self)
        self.layer_1 = tf.keras.layers.Convolution2D(24, kernel_size=[5, 5], padding="same", activation=activation)
        self.pool_1 = tf.keras.layers.MaxPool2D()
        self.dropout_1 = tf.keras.layers.Dropout(0.4)
        self.layer_2 = tf.keras.layers.Convolution2D(64, kernel_size=[5, 5], padding="same", activation=activation)
        self.pool_2 = tf.keras.layers.MaxPool2D()
        self.dropout_2 = tf.keras.layers.Dropout(0.4)
        self.layer_3 = tf.keras.layers.Convolution2D(128, kernel_size=[5, 5], padding="same", activation=activation)
        self.pool_3 = tf.keras.layers.MaxPool2D()
        self.dropout_3 = tf.keras.layers.Dropout(0.4)
        self.flatten = tf.keras.layers.Flatten()
        self.layer_final = tf.keras.layers.Dense(units=1, activation=None, dtype="float32")

    @tf.function
    def call(self, inputs):
        batch_size = inputs.shape[0]
        x = tf.reshape(inputs, [batch_size, 28, 28, 1])
        x = self.dropout_1(self.pool_1(self.layer_1(x)))
        x = self.dropout_2(self.pool_2(self.layer_2(x)))
        x = self.dropout_3(self.pool_3(self.layer_3(x)))
        return self.layer_final(self.flatten(x))


class Generator(tf.keras.models.Model):
    """Makes images of 28 x 28 from noise."""

    def __init__(self, activation=tf.nn.tanh):
        tf.keras.models.Model.__init__(self)
        self.dense = tf.keras.layers.Dense(units=7 * 7 * 64)
        self.batch_norm_1 = tf.keras.layers.BatchNormalization()
        self.layer_1 = tf.keras.layers.Convolution2D(64, kernel_size=[5, 5], padding="same", activation=activation)
        self.unpool_1 = tf.keras.layers.UpSampling2D(size=2, interpolation="nearest")
        self.batch_norm_2 = tf.keras.layers.BatchNormalization()
        self.layer_2 = tf.keras.layers.Convolution2D(32, kernel_size=[5, 5], padding="same", activation=activation)
        self.unpool_2 = tf.keras.layers.UpSampling2D(size=2, interpolation="nearest")
        self.batch_norm_3 = tf.keras.layers.BatchNormalization()
        self.layer_3 = tf.keras.layers.Convolution2D(8, kernel_size=[5, 5], padding="same", activation=activation)
        self.batch_norm_4 = tf.keras.layers.BatchNormalization()
        self.layer_final = tf.keras.layers.Convolution2D(
            filters=1,  # expect: TC101 filters 1 -> 8
            kernel_size=[5, 5],
            padding="same",
            activation=tf.nn.sigmoid,
        )

    @tf.function
    def call(self, inputs):
        batch_size = inputs.shape[0]
        x = self.dense(inputs)
        x = tf.reshape(x, [batch_size, 7, 7, 64])
        x = self.unpool_1(self.layer_1(self.batch_norm_1(x)))
        x = self.unpool_2(self.layer_2(self.batch_norm_2(x)))
        x = self.batch_norm_4(self.layer_3(self.batch_norm_3(x)))
        return self.layer_final(x)


@tf.function
def compute_loss(_logits, _targets):
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=_targets, logits=_logits)
    return tf.reduce_mean(loss)


@tf.function
def forward_pass(_generator, _discriminator, _real_batch, _input_size):
    """Run both networks on made and real images and return the loss of each."""
    _batch_size = _real_batch.shape[0]
    random_noise = tf.random.uniform(shape=[_batch_size, _input_size], minval=-1, maxval=1)
    fake_images = _generator(random_noise)
    prediction_on_real_data = _discriminator(_real_batch)
    prediction_on_fake_data = _discriminator(fake_images)

    soften = 0.1
    real_labels = tf.zeros(shape=[_batch_size, 1]) + soften
    fake_labels = tf.ones(shape=[_batch_size, 1]) - soften
    real_loss = compute_loss(prediction_on_real_data, real_labels)
    fake_loss = compute_loss(prediction_on_fake_data, fake_labels)
    generator_loss = compute_loss(prediction_on_fake_data, real_labels)
    return {"discriminator": 0.5 * (fake_loss + real_loss), "generator": generator_loss}


def train_loop(batch_size, n_training_epochs, models, opts):
    x_train = tf.random.shuffle(tf.convert_to_tensor(numpy.zeros([60000, 28, 28], dtype=numpy.float32)))
    dataset = tf.data.Dataset.from_tensor_slices(x_train)
    logger = logging.getLogger()

    @tf.function
    def train_iteration(data):
        loss = {}
        for network in ("generator", "discriminator"):
            with tf.GradientTape() as tape:
                loss = forward_pass(models["generator"], models["discriminator"], data, NOISE)
                scaled = opts[network].scale_loss(loss[network])
            trainable_vars = models[network].trainable_variables
            grads = tape.gradient(scaled, trainable_vars)
            opts[network].apply_gradients(zip(grads, trainable_vars))
        return loss

    for i_epoch in range(n_training_epochs):
        batches = dataset.shuffle(60000).batch(batch_size=batch_size, drop_remainder=True)
        for i_batch, batch in enumerate(batches):
            data = tf.reshape(batch, [-1, 28, 28, 1])
            start = time.time()
            loss = train_iteration(data)
            rate = 2 * batch_size / (time.time() - start)
            logger.info(
                f"({i_epoch}, {i_batch}), G Loss: {loss['generator']:.3f}, D Loss: {loss['discriminator']:.3f}, "
                f"throughput: {rate:.3f} img/s."
            )


def train_GAN(_batch_size, _training_epochs):
    generator = Generator()
    random_input = numpy.random.uniform(-1, 1, [1, 100]).astype(numpy.float32)
    generated_image = generator(random_input)
    discriminator = Discriminator()
    discriminator(generated_image)

    models = {"generator": generator, "discriminator": discriminator}
    scale = tf.keras.mixed_precision.LossScaleOptimizer
    opts = {
        "generator": scale(tf.keras.optimizers.Adam(0.001)),
        "discriminator": scale(tf.keras.optimizers.RMSprop(0.0001)),
    }
    train_loop(_batch_size, _training_epochs, models, opts)


if __name__ == "__main__":
    configure_logger()
    train_GAN(BATCH_SIZE, N_TRAINING_EPOCHS)
