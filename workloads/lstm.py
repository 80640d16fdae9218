"""An LSTM that predicts the next word: cuDNN's form of the layer, or the fallback, and what sets it.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. Language models of LSTMs
are the published case that trains in float16 with a scaled loss alone: `--loss-scale` chooses.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, List, Optional

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
LOG = logging.getLogger("lstm")


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train an LSTM on the next word.")
    parser.add_argument("--precision", choices=PRECISIONS, default="tf32", help="arithmetic (default: %(default)s)")
    parser.add_argument(
        "--fallback",
        choices=("none", "activation", "recurrent_dropout", "use_bias", "unroll"),
        default="none",
        help="the argument that keeps the layer off cuDNN (default: %(default)s)",
    )
    parser.add_argument(
        "--loss-scale",
        type=loss_scale,
        default="auto",
        metavar="none|dynamic|FLOAT",
        help="loss scaling (default: dynamic with mixed_float16, else none)",
    )
    parser.add_argument("--units", type=int, default=0, help="default: 1024, or 64 without a GPU")
    parser.add_argument("--vocabulary", type=int, default=8192, help="words (default: %(default)s)")
    parser.add_argument("--length", type=int, default=0, help="words of a sample; default: 32, or 8 without a GPU")
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 128, or 4 without a GPU")
    parser.add_argument("--steps", type=positive, default=None, help="default: 200, or 10 without a GPU")
    parser.add_argument("--data", default="synthetic", help="synthetic, or a text file of UTF-8 (its bytes are words)")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.loss_scale == "auto":
        args.loss_scale = "dynamic" if args.precision == "mixed_float16" else None
    return args


def loss_scale(text: str) -> Any:
    """Parse none (None), dynamic, or a fixed scale; "auto" leaves it to the precision."""
    if text in ("auto", "dynamic"):
        return text
    if text == "none":
        return None
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale < float("inf"):
        raise argparse.ArgumentTypeError("expected none, dynamic or a number above 0, got %r" % text)
    return scale


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


def build_model(tf: Any, args: argparse.Namespace, units: int, length: int) -> Any:
    """Return the model: `length` numbers of words to the logits of the word after each, float32."""
    layers = tf.keras.layers
    inputs = tf.keras.Input((length,), dtype="int32")
    x = layers.Embedding(args.vocabulary, units)(inputs)
    x = layers.LSTM(
        units,
        return_sequences=True,
        activation="relu" if args.fallback == "activation" else "tanh",
        recurrent_dropout=0.1 if args.fallback == "recurrent_dropout" else 0.0,
        use_bias=args.fallback != "use_bias",
        unroll=args.fallback == "unroll",
    )(x)
    logits = layers.Dense(args.vocabulary)(x)
    outputs = layers.Activation("linear", dtype="float32")(logits)
    return tf.keras.Model(inputs, outputs, name="lstm")


class Updater:
    """An optimizer with the loss scaling asked for, in the way of Keras 2 and of Keras 3."""

    def __init__(self, tf: Any, optimizer: Any, scale: Any) -> None:
        self.dense = tf.convert_to_tensor
        wrapper = tf.keras.mixed_precision.LossScaleOptimizer
        self.by_keras_2 = scale is not None and hasattr(wrapper, "get_scaled_loss")
        if scale == "dynamic":
            optimizer = wrapper(optimizer)
        elif self.by_keras_2:
            optimizer = wrapper(optimizer, dynamic=False, initial_scale=scale)
        elif scale is not None:  # Keras 3 refuses dynamic=False
            optimizer.loss_scale_factor = scale
        self.optimizer = optimizer
        self.scaled = scale is not None

    def scale(self, loss: Any) -> Any:
        """Return the loss to differentiate."""
        if not self.scaled:
            return loss
        return self.optimizer.get_scaled_loss(loss) if self.by_keras_2 else self.optimizer.scale_loss(loss)

    def apply(self, gradients: List[Any], variables: List[Any]) -> None:
        """Update `variables` from the gradients of the scaled loss; Keras 3 divides them by the scale itself."""
        if self.by_keras_2:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        elif self.scaled:  # a loss_scale_factor cannot divide the embedding's, which is sparse
            gradients = [self.dense(gradient) for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, variables))


def make_train_step(tf: Any, model: Any, scale: Any) -> Any:
    """Return the compiled step: words and the words after them in, loss out."""
    updater = Updater(tf, tf.keras.optimizers.Adam(1e-3), scale)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(words: Any, following: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(following, model(words, training=True))
            scaled = updater.scale(loss)
        variables = model.trainable_variables
        updater.apply(tape.gradient(scaled, variables), variables)
        return loss

    return train_step


def load_data(args: argparse.Namespace, count: int, length: int) -> Any:
    """Return `count` samples of `length` + 1 words, int32."""
    import numpy as np

    rng = np.random.default_rng(args.seed)
    if args.data == "synthetic":
        return (rng.zipf(1.5, (count, length + 1)) % args.vocabulary).astype("int32")
    text = np.fromfile(args.data, dtype=np.uint8)
    if len(text) <= length + 1:
        sys.exit("lstm: %s holds no %d bytes" % (args.data, length + 1))
    starts = rng.integers(0, len(text) - length - 1, count)
    return np.stack([text[at : at + length + 1] for at in starts]).astype("int32") % args.vocabulary


def main(argv: Optional[List[str]] = None) -> None:
    """Train."""
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    tf = import_tensorflow(args)
    if tf.config.list_physical_devices("GPU"):
        units, length, batch = args.units or 1024, args.length or 32, args.batch_size or 128
        steps = args.steps or 200
    else:
        units, length, batch = args.units or 64, args.length or 8, args.batch_size or 4
        steps = args.steps or 10
        LOG.info("no GPU: a small preset, %d units, cpu_batch=%d, gpu_batch=128", units, batch)
    data = load_data(args, batch * steps, length)
    train_step = make_train_step(tf, build_model(tf, args, units, length), args.loss_scale)
    for step in range(steps):
        words = data[step * batch : (step + 1) * batch]
        begun = time.perf_counter()
        loss = float(train_step(tf.constant(words[:, :-1]), tf.constant(words[:, 1:])))
        elapsed = time.perf_counter() - begun
        rate = batch * length / elapsed
        LOG.info("(0, %d), Loss: %.5f, step_time: %.5f, throughput: %.3g tokens/s.", step, loss, elapsed, rate)


if __name__ == "__main__":
    main()
