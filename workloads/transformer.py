"""A small transformer that predicts masked words: attention, LayerNorm and a vocabulary that is no multiple of 8.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. BERT's vocabulary of
30522 words makes the last product, the largest, badly sized; `--vocabulary 30528` is the next multiple of 8.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, List, Optional

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
LOG = logging.getLogger("transformer")


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small transformer on masked words.")
    parser.add_argument("--precision", choices=PRECISIONS, default="tf32", help="arithmetic (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=30522, help="words (default: %(default)s)")
    parser.add_argument("--width", type=int, default=0, help="features of a word; default: 512, or 64 without a GPU")
    parser.add_argument("--blocks", type=int, default=0, help="default: 4, or 1 without a GPU")
    parser.add_argument("--length", type=int, default=0, help="words of a sample; default: 128, or 16 without a GPU")
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 32, or 4 without a GPU")
    parser.add_argument("--steps", type=positive, default=None, help="steps of an epoch; default: 100, or 10")
    parser.add_argument("--epochs", type=positive, default=None, help="default: 4, or 1 without a GPU")
    parser.add_argument("--data", default="synthetic", help="synthetic, or a text file of UTF-8 (its bytes are words)")
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


def build_model(tf: Any, vocabulary: int, length: int, width: int, blocks: int) -> Any:
    """Return the model: `length` numbers of words to the logits of each word, float32."""
    layers = tf.keras.layers
    heads = max(width // 64, 1)
    inputs = tf.keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width)(inputs)
    for _ in range(blocks):
        attended = layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, attended]))
        hidden = layers.Dense(width)(layers.Dense(4 * width, activation="relu")(x))
        x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, hidden]))
    logits = layers.Dense(vocabulary)(x)
    outputs = layers.Activation("linear", dtype="float32")(logits)
    return tf.keras.Model(inputs, outputs, name="transformer")


def load_data(args: argparse.Namespace, count: int, length: int) -> Any:
    """Return `count` samples of `length` words of which a seventh is masked (word 0), and the words themselves."""
    import numpy as np

    rng = np.random.default_rng(args.seed)
    if args.data == "synthetic":
        words = rng.zipf(1.5, (count, length)) % (args.vocabulary - 1) + 1
    else:
        text = np.fromfile(args.data, dtype=np.uint8)
        if len(text) <= length:
            sys.exit("transformer: %s holds no %d bytes" % (args.data, length))
        starts = rng.integers(0, len(text) - length, count)
        words = np.stack([text[at : at + length] for at in starts]) % (args.vocabulary - 1) + 1
    masked = np.where(rng.random((count, length)) < 0.15, 0, words)
    return masked.astype("int32"), words.astype("int32")


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
        width, blocks, length = args.width or 512, args.blocks or 4, args.length or 128
        batch, steps, epochs = args.batch_size or 32, args.steps or 100, args.epochs or 4
    else:
        width, blocks, length = args.width or 64, args.blocks or 1, args.length or 16
        batch, steps, epochs = args.batch_size or 4, args.steps or 10, args.epochs or 1
        LOG.info("no GPU: a small preset, %d features, cpu_batch=%d, gpu_batch=32", width, batch)
    x, y = load_data(args, batch * steps, length)
    model = build_model(tf, args.vocabulary, length, width, blocks)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=tf.keras.optimizers.Adam(1e-4))
    model.fit(x, y, batch_size=batch, epochs=epochs, callbacks=[make_log(tf, batch, "tokens", length)], verbose=0)


if __name__ == "__main__":
    main()
