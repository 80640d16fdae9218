"""A classifier of MNIST-shaped images: a custom training loop, compiled by tf.function, with XLA and mixed precision.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. `--loss-scale` chooses
how float16 gradients are kept from vanishing; `--hard-coded-float32` keeps the heavy layer out of mixed precision.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, List, NamedTuple, Optional

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
IMAGES = 60_000
LOG = logging.getLogger("train_mnist")


class Plan(NamedTuple):
    """How much to train: images a batch, batches an epoch, and steps in all."""

    batch: int
    batches: int
    steps: int


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a classifier of MNIST-shaped images.")
    parser.add_argument("--precision", choices=PRECISIONS, default="tf32", help="arithmetic (default: %(default)s)")
    parser.add_argument(
        "--loss-scale",
        type=loss_scale,
        default="auto",
        metavar="none|dynamic|FLOAT",
        help="loss scaling (default: dynamic with mixed_float16, else none)",
    )
    parser.add_argument("--hard-coded-float32", action="store_true", help="give the wide Dense dtype='float32'")
    parser.add_argument("--xla", action="store_true", help="compile the step with XLA (jit_compile)")
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 1024")
    parser.add_argument("--epochs", type=positive, default=None, help="default: 4")
    parser.add_argument("--steps", type=positive, default=None, help="stop after so many steps")
    parser.add_argument("--data", choices=("synthetic", "mnist"), default="synthetic", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.loss_scale == "auto":
        args.loss_scale = "dynamic" if args.precision == "mixed_float16" else None
    return args


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


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


def plan(args: argparse.Namespace, has_gpu: bool) -> Plan:
    """Choose batch and length; without a GPU a small preset, unless the command line asks for more."""
    half = args.precision == "mixed_float16"  # which CPUs compute slowly
    small = 8 if half else 64
    batch = args.batch_size or (1024 if has_gpu else small)
    batches = IMAGES // batch
    if not batches:
        sys.exit("train_mnist: --batch-size %d is more than the %d images there are" % (batch, IMAGES))
    most = (args.epochs or 4) * batches
    steps = min(args.steps or most, most)
    if not has_gpu:
        LOG.info("no GPU: cpu_batch=%d, gpu_batch=%d", batch, args.batch_size or 1024)
    if not has_gpu and args.steps is None and args.epochs is None:
        steps = min(steps, 8 if half else 30)
        LOG.info("no GPU: a small preset, batch %d, %d steps (--batch-size and --steps change it)", batch, steps)
    return Plan(batch, batches, steps)


def build_model(tf: Any, hard_coded_float32: bool) -> Any:
    """Return the classifier: a 28x28x1 image to ten probabilities, float32 whatever the policy."""
    layers = tf.keras.layers
    dtype = "float32" if hard_coded_float32 else None  # None: as the policy says
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu", dtype=dtype),
            layers.Dropout(0.5),
            layers.Dense(10),
            layers.Activation("softmax", dtype="float32"),
        ],
        name="classifier",
    )


class Updater:
    """An optimizer with the loss scaling asked for, in the way of Keras 2 and of Keras 3."""

    def __init__(self, tf: Any, optimizer: Any, scale: Any) -> None:
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
        self.optimizer.apply_gradients(zip(gradients, variables))


def make_train_step(tf: Any, model: Any, args: argparse.Namespace) -> Any:
    """Return the compiled step: images and labels in, loss out."""
    updater = Updater(tf, tf.keras.optimizers.Adam(1e-3), args.loss_scale)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy()

    def train_step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(images, training=True))
            scaled = updater.scale(loss)
        variables = model.trainable_variables
        updater.apply(tape.gradient(scaled, variables), variables)
        return loss

    if not args.xla:
        return tf.function(train_step)
    old = tf.__version__.startswith("2.4.")
    return tf.function(train_step, **{"experimental_compile" if old else "jit_compile": True})


def load_data(tf: Any, args: argparse.Namespace, count: int) -> Any:
    """Return `count` images, float32, shape (count, 28, 28, 1), in [0, 1], and their labels, 0 to 9."""
    import numpy as np

    if args.data == "synthetic":
        rng = np.random.default_rng(args.seed)
        labels = rng.integers(0, 10, count)
        images = rng.random((count, 28, 28, 1), dtype=np.float32)
        images[np.arange(count), 2 + 2 * labels, :, 0] = 1.0  # a bright row tells the digit
        return images, labels.astype("int32")
    require_mnist()
    (images, labels), _ = tf.keras.datasets.mnist.load_data()
    return (images[:count, :, :, None] / 255.0).astype("float32"), labels[:count].astype("int32")


def require_mnist() -> None:
    """Exit with one line where MNIST is neither in Keras' cache nor within reach."""
    import urllib.request

    home = os.environ.get("KERAS_HOME", os.path.join(os.path.expanduser("~"), ".keras"))
    if os.path.exists(os.path.join(home, "datasets", "mnist.npz")):
        return
    try:
        urllib.request.urlopen(MNIST_URL, timeout=10).close()
    except OSError as error:
        sys.exit(
            "train_mnist: MNIST cannot be downloaded (%s); put mnist.npz into %s, or use --data synthetic"
            % (error, os.path.join(home, "datasets"))
        )


def train(tf: Any, train_step: Any, data: Any, todo: Plan) -> None:
    """Run the loop and log every step."""
    images, labels = data
    for step in range(todo.steps):
        epoch, batch = divmod(step, todo.batches)
        start = batch * todo.batch % len(images)
        stop = start + todo.batch
        begun = time.perf_counter()
        loss = float(train_step(tf.constant(images[start:stop]), tf.constant(labels[start:stop])))
        elapsed = time.perf_counter() - begun
        LOG.info(
            "(%d, %d), Loss: %.5f, step_time: %.5f, throughput: %.3g img/s.",
            epoch,
            batch,
            loss,
            elapsed,
            todo.batch / elapsed,
        )


def main(argv: Optional[List[str]] = None) -> None:
    """Train."""
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    tf = import_tensorflow(args)
    todo = plan(args, has_gpu=bool(tf.config.list_physical_devices("GPU")))
    data = load_data(tf, args, min(todo.batches, todo.steps) * todo.batch)
    model = build_model(tf, args.hard_coded_float32)
    train(tf, make_train_step(tf, model, args), data, todo)


if __name__ == "__main__":
    main()
