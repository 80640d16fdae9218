"""An image classifier on a frozen backbone of keras.applications, then fine-tuned: two phases, two calls of fit.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. Weights are random, or
those of `--weights FILE`; with mixed precision the memory that is freed takes larger batches.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, List, Optional

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
LOG = logging.getLogger("transfer_learning")


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a classifier on a frozen backbone, then fine-tune it.")
    parser.add_argument("--precision", choices=PRECISIONS, default="tf32", help="arithmetic (default: %(default)s)")
    parser.add_argument("--backbone", default="", help="of keras.applications; default: ResNet50, or MobileNet")
    parser.add_argument("--weights", default=None, help="a file of the backbone's weights, without top")
    parser.add_argument("--classes", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 64, or 4 without a GPU")
    parser.add_argument("--steps", type=positive, default=None, help="steps of each phase; default: 30, or 8")
    parser.add_argument("--data", default="synthetic", help="synthetic, or a folder of images with one folder a class")
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


def load_data(tf: Any, args: argparse.Namespace, batch: int, steps: int, side: int) -> Any:
    """Return batches of images, float32, (batch, side, side, 3), in [0, 255], and of their classes, without an end."""
    import numpy as np

    if args.data != "synthetic":
        loader = tf.keras.preprocessing.image_dataset_from_directory
        return loader(args.data, image_size=(side, side), batch_size=batch, seed=args.seed).repeat()
    rng = np.random.default_rng(args.seed)
    labels = rng.integers(0, args.classes, batch * min(steps, 8))
    images = rng.random((len(labels), side, side, 3), dtype=np.float32) * 255
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch, drop_remainder=True).repeat()


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
    """Train the head on a frozen backbone, then all of it at a small rate."""
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    tf = import_tensorflow(args)
    if tf.config.list_physical_devices("GPU"):
        name, side, batch, steps, options = (
            args.backbone or "ResNet50",
            224,
            args.batch_size or 64,
            args.steps or 30,
            {},
        )
    else:
        name, side, batch, steps = args.backbone or "MobileNet", 32, args.batch_size or 4, args.steps or 8
        options = {} if args.backbone else {"alpha": 0.25}
        LOG.info("no GPU: a small preset, %s of %dx%d images, cpu_batch=%d, gpu_batch=64", name, side, side, batch)
    make = getattr(tf.keras.applications, name, None)
    if not callable(make):
        sys.exit("transfer_learning: --backbone %s is no model of keras.applications" % name)
    backbone = make(include_top=False, weights=args.weights, input_shape=(side, side, 3), pooling="avg", **options)
    layers = tf.keras.layers
    inputs = tf.keras.Input((side, side, 3))
    x = backbone(inputs / 127.5 - 1.0, training=False)  # its BatchNormalization keeps what it has learnt
    x = layers.Dense(args.classes)(x)
    model = tf.keras.Model(inputs, layers.Activation("softmax", dtype="float32")(x))
    data = load_data(tf, args, batch, steps, side)
    keras = tf.keras
    phases = (("frozen", keras.optimizers.Adam(1e-3)), ("fine-tuning", keras.optimizers.SGD(1e-4, momentum=0.9)))
    for phase, optimizer in phases:
        backbone.trainable = phase == "fine-tuning"
        model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])
        LOG.info("%s: %d of %d weights train", phase, len(model.trainable_weights), len(model.weights))
        model.fit(data, steps_per_epoch=steps, epochs=1, callbacks=[make_log(tf, batch, "img")], verbose=0)


if __name__ == "__main__":
    main()
