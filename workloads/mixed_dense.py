"""Two wide Dense layers and a softmax, trained by fit: the model of TensorFlow's guide to mixed precision.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. As it stands it makes two
mistakes: 4090 units, no multiple of 8, and a softmax in float16. `--units 4096 --softmax right` makes neither.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, List, Optional

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
LOG = logging.getLogger("mixed_dense")


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train two wide Dense layers and a softmax.")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="mixed_float16", help="arithmetic (default: %(default)s)"
    )
    parser.add_argument("--units", type=int, default=0, help="default: 4090, or 64 without a GPU")
    parser.add_argument(
        "--softmax",
        choices=("wrong", "right"),
        default="wrong",
        help="wrong: inside the last Dense, in the policy's dtype; right: a layer of its own in float32",
    )
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 8192, or 128 without a GPU")
    parser.add_argument("--epochs", type=positive, default=None, help="default: 5")
    parser.add_argument("--steps", type=positive, default=None, help="steps of an epoch; of one epoch by default")
    parser.add_argument("--data", choices=("synthetic", "mnist"), default="synthetic", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights (default: %(default)s)")
    return parser.parse_args(argv)


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def import_tensorflow(args: argparse.Namespace) -> Any:
    """Import TensorFlow with the environment that the precision needs before the import."""
    if args.precision == "float32":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(args.precision == "tf32")
    if args.precision.startswith("mixed_"):
        tf.keras.mixed_precision.set_global_policy(args.precision)
    tf.random.set_seed(args.seed)
    return tf


def build_model(tf: Any, units: int, softmax: str) -> Any:
    """Return the model: 784 numbers to ten probabilities."""
    keras, layers = tf.keras, tf.keras.layers
    inputs = keras.Input(shape=(784,), name="digits")
    x = layers.Dense(units, activation="relu", name="dense_1")(inputs)
    x = layers.Dense(units, activation="relu", name="dense_2")(x)
    if softmax == "wrong":
        outputs = layers.Dense(10, activation="softmax", name="predictions")(x)
    else:
        x = layers.Dense(10, name="dense_logits")(x)
        outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
    return keras.Model(inputs, outputs, name="mixed_dense")


def load_data(tf: Any, args: argparse.Namespace, count: int) -> Any:
    """Return `count` images, float32, shape (count, 784), in [0, 1], and their labels, 0 to 9."""
    import numpy as np

    if args.data == "mnist":
        (images, labels), _ = tf.keras.datasets.mnist.load_data()
        return images.reshape(60000, 784)[:count].astype("float32") / 255, labels[:count].astype("int32")
    rng = np.random.default_rng(args.seed)
    labels = rng.integers(0, 10, count)
    images = rng.random((count, 784), dtype=np.float32)
    images[np.arange(count), 70 * labels] = 8.0  # tells the digit
    return images, labels.astype("int32")


def make_log(tf: Any, batch: int, unit: str, per_sample: int = 1) -> Any:
    """Return a callback that logs losses, step time and throughput of each epoch, validation left out."""

    class Log(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, *_: Any) -> None:
            self.steps, self.begun, self.elapsed = 0, time.perf_counter(), 0.0

        def on_train_batch_end(self, number: int, logs: Any = None) -> None:  # noqa: ARG002
            self.steps, self.elapsed = number + 1, time.perf_counter() - self.begun

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            figures = ", ".join("%s: %.5f" % (name, value) for name, value in sorted((logs or {}).items()))
            step = self.elapsed / max(self.steps, 1)
            rate = batch * per_sample / step if step else 0.0
            LOG.info(
                "(%d, %d), %s, step_time: %.5f, throughput: %.3g %s/s.", epoch, self.steps, figures, step, rate, unit
            )

    return Log()


def main(argv: Optional[List[str]] = None) -> None:
    """Train."""
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    tf = import_tensorflow(args)
    if tf.config.list_physical_devices("GPU"):
        units, batch, count = args.units or 4090, args.batch_size or 8192, 60000
    else:
        units, batch, count = args.units or 64, args.batch_size or 128, 2500
        LOG.info("no GPU: a small preset, %d units, cpu_batch=%d, gpu_batch=8192", units, batch)
    if args.steps:
        count = -(-args.steps * batch * 5 // 4)  # of which a fifth validates
    x_train, y_train = load_data(tf, args, count)
    model = build_model(tf, units, args.softmax)
    model.compile(loss="sparse_categorical_crossentropy", optimizer=tf.keras.optimizers.RMSprop(), metrics=["accuracy"])
    epochs = args.epochs or (1 if args.steps else 5)
    callbacks = [make_log(tf, batch, "img")]
    model.fit(x_train, y_train, batch_size=batch, epochs=epochs, validation_split=0.2, callbacks=callbacks, verbose=0)


if __name__ == "__main__":
    main()
