"""GAN on MNIST-shaped images: a custom training loop with two optimizers.

Runs on TensorFlow 2.4 to 2.21 (Keras 2 and 3) and Python 3.8 or later, with or without a GPU. One step updates
the generator, then the discriminator. `--sizes bad` makes the batch and the generator's layers no multiples of 8.
"""

import argparse
import contextlib
import logging
import os
import sys
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

PRECISIONS = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
IMAGES = 60_000
NOISE = 100
AUDITED = "TCPROBE_AUDIT"  # an audit traces the step and does not run it: any size, on any machine
LOG = logging.getLogger("train_gan")


class Sizes(NamedTuple):
    """The generator's sizes: depth of the first image, and filters of its first three convolutions."""

    batch: int
    small_batch: int
    depth: int
    filters: Tuple[int, int, int]


SIZES = {
    "good": Sizes(batch=4096, small_batch=64, depth=64, filters=(64, 32, 8)),
    "bad": Sizes(batch=4090, small_batch=60, depth=63, filters=(63, 31, 7)),
}


class Plan(NamedTuple):
    """How much to train: images a batch, epochs, batches an epoch, and steps in all."""

    batch: int
    epochs: int
    batches: int
    steps: int


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a GAN on MNIST-shaped images.")
    parser.add_argument("--precision", choices=PRECISIONS, default="tf32", help="arithmetic (default: %(default)s)")
    parser.add_argument(
        "--loss-scale",
        default=None,
        metavar="none|dynamic|FLOAT",
        help="loss scaling (default: dynamic with mixed_float16, else none)",
    )
    parser.add_argument("--xla", action="store_true", help="let XLA cluster the graph")
    parser.add_argument(
        "--sizes", choices=sorted(SIZES), default="good", help="layer and batch sizes (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=positive, default=None, help="default: 4096, or 4090 with bad sizes")
    parser.add_argument("--epochs", type=positive, default=None, help="default: 4")
    parser.add_argument("--steps", type=positive, default=None, help="stop after so many steps")
    parser.add_argument("--data", choices=("synthetic", "mnist"), default="synthetic", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="seed of data, weights and noise (default: %(default)s)")
    parser.add_argument(
        "--strategy",
        choices=("none", "mirrored", "multiworker"),
        default="none",
        help="tf.distribute: on all GPUs, or on the workers of TF_CONFIG (default: %(default)s)",
    )
    args = parser.parse_args(argv)
    try:
        args.loss_scale = loss_scale(args.loss_scale, args.precision)
    except ValueError as error:
        parser.error(str(error))
    return args


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def loss_scale(text: Optional[str], precision: str) -> Any:
    """Return None, "dynamic" or a fixed scale; ValueError where the text is none of these."""
    if text is None:
        return "dynamic" if precision == "mixed_float16" else None
    if text == "none":
        return None
    if text == "dynamic":
        return text
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale < float("inf"):
        raise ValueError("argument --loss-scale: expected none, dynamic or a number above 0, got %r" % text)
    return scale


def import_tensorflow(args: argparse.Namespace) -> Any:
    """Import TensorFlow with the environment that the precision and XLA need before the import."""
    if args.precision == "float32":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    if args.xla:
        flags = os.environ.get("TF_XLA_FLAGS", "")
        os.environ["TF_XLA_FLAGS"] = (flags + " --tf_xla_auto_jit=2 --tf_xla_cpu_global_jit").strip()
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(args.precision == "tf32")
    if args.precision.startswith("mixed_"):
        tf.keras.mixed_precision.set_global_policy(args.precision)
    tf.random.set_seed(args.seed)
    return tf


def check_precision(tf: Any, precision: str) -> None:
    """Exit with one line where this TensorFlow lacks a kernel that the model needs in `precision`."""
    if not precision.startswith("mixed_"):
        return
    dtype = precision[len("mixed_") :]
    image, weights = tf.zeros((1, 4, 4, 8), dtype), tf.zeros((3, 3, 8, 8), dtype)
    same = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    try:
        tf.raw_ops.Conv2D(input=image, filter=weights, **same)
        tf.raw_ops.Conv2DBackpropFilter(input=image, filter_sizes=[3, 3, 8, 8], out_backprop=image, **same)
        tf.raw_ops.MaxPool(input=image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        tf.raw_ops.ResizeNearestNeighbor(images=image, size=[8, 8])
        tf.raw_ops.MatMul(a=image[0, 0], b=image[0, 0], transpose_b=True)
    except (tf.errors.OpError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        sys.exit(
            "train_gan: TensorFlow %s cannot train in %s on this machine: %s" % (tf.__version__, precision, reason)
        )


def plan(args: argparse.Namespace, has_gpu: bool) -> Plan:
    """Choose batch and length; without a GPU a small preset, unless the command line asks for more."""
    sizes = SIZES[args.sizes]
    half = args.precision == "mixed_float16"
    small = max(sizes.small_batch // 8, 1) if half else sizes.small_batch
    batch = args.batch_size or (sizes.batch if has_gpu else small)
    batches = IMAGES // batch
    if not batches:
        sys.exit("train_gan: --batch-size %d is more than the %d images there are" % (batch, IMAGES))
    epochs = args.epochs or 4
    steps = min(args.steps or epochs * batches, epochs * batches)
    if not has_gpu:
        LOG.info("no GPU: cpu_batch=%d, gpu_batch=%d", batch, args.batch_size or sizes.batch)
    if not has_gpu and args.steps is None and args.epochs is None:
        steps = min(steps, 6 if half else 30)
        LOG.info("no GPU: a small preset, batch %d, %d steps (--batch-size and --steps change it)", batch, steps)
    return Plan(batch, epochs, batches, steps)


def build_generator(tf: Any, sizes: Sizes) -> Any:
    """Return the generator: noise to a 28x28x1 image in [0, 1], float32."""
    layers = tf.keras.layers
    first, second, third = sizes.filters
    return tf.keras.Sequential(
        [
            tf.keras.Input((NOISE,)),
            layers.Dense(7 * 7 * sizes.depth),
            layers.Reshape((7, 7, sizes.depth)),
            layers.BatchNormalization(),
            layers.Conv2D(first, 5, padding="same", activation="tanh"),
            layers.UpSampling2D(2, interpolation="nearest"),
            layers.BatchNormalization(),
            layers.Conv2D(second, 5, padding="same", activation="tanh"),
            layers.UpSampling2D(2, interpolation="nearest"),
            layers.BatchNormalization(),
            layers.Conv2D(third, 5, padding="same", activation="tanh"),
            layers.BatchNormalization(),
            layers.Conv2D(1, 5, padding="same"),
            layers.Activation("sigmoid", dtype="float32"),
        ],
        name="generator",
    )


def build_discriminator(tf: Any) -> Any:
    """Return the discriminator: a 28x28x1 image to one logit, float32."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Conv2D(24, 5, padding="same", activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.4),
            layers.Conv2D(64, 5, padding="same", activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.4),
            layers.Conv2D(128, 5, padding="same", activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.4),
            layers.Flatten(),
            layers.Dense(1),
            layers.Activation("linear", dtype="float32"),
        ],
        name="discriminator",
    )


class Updater:
    """An optimizer with the loss scaling asked for, the same way on Keras 2 and 3."""

    def __init__(self, tf: Any, optimizer: Any, scale: Any) -> None:
        self.fixed = scale if isinstance(scale, float) else None
        self.dynamic = scale == "dynamic"
        if self.dynamic:
            wrapper = getattr(tf.keras.mixed_precision, "LossScaleOptimizer", None)
            optimizer = (wrapper or tf.keras.optimizers.LossScaleOptimizer)(optimizer)
        self.optimizer = optimizer

    def scale(self, loss: Any) -> Any:
        """Return the loss to differentiate."""
        if self.fixed:
            return loss * self.fixed
        if not self.dynamic:
            return loss
        scale = getattr(self.optimizer, "scale_loss", None) or self.optimizer.get_scaled_loss
        return scale(loss)

    def apply(self, gradients: List[Any], variables: List[Any]) -> None:
        """Update `variables` from the gradients of the scaled loss."""
        if self.fixed:
            gradients = [g / self.fixed for g in gradients]
        if self.dynamic and hasattr(self.optimizer, "get_unscaled_gradients"):
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, variables))


def make_strategy(tf: Any, name: str) -> Any:
    """Return the strategy; None without one. Without a GPU `mirrored` takes two logical CPUs."""
    if name == "none":
        return None
    if name == "multiworker":
        if not os.environ.get("TF_CONFIG"):
            sys.exit("train_gan: --strategy multiworker needs TF_CONFIG, the workers' addresses and which this one is")
        return tf.distribute.MultiWorkerMirroredStrategy()
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def replicated(tf: Any, strategy: Any, train_step: Any) -> Any:
    """Return the step that runs on every replica, each with its part of the images, and gives the mean losses."""

    @tf.function
    def replicas_step(images: Any) -> Tuple[Any, Any]:
        mean = tf.distribute.ReduceOp.MEAN
        generator_loss, discriminator_loss = strategy.run(train_step, args=(images,))
        return strategy.reduce(mean, generator_loss, axis=None), strategy.reduce(mean, discriminator_loss, axis=None)

    count = strategy.num_replicas_in_sync

    def step(images: Any) -> Tuple[Any, Any]:
        each = images.shape[0] // count

        def part(context: Any) -> Any:
            at = context.replica_id_in_sync_group * each
            return images[at : at + each]

        return replicas_step(strategy.experimental_distribute_values_from_function(part))

    return step


def make_train_step(tf: Any, generator: Any, discriminator: Any, scale: Any, strategy: Any = None) -> Any:
    """Return the compiled step: images in, losses of generator and discriminator out."""
    for_generator = Updater(tf, tf.keras.optimizers.Adam(1e-3), scale)
    for_discriminator = Updater(tf, tf.keras.optimizers.RMSprop(1e-4), scale)
    if strategy is not None:  # Keras 3 makes an optimizer's variables outside the replicas alone
        for updater, model in ((for_generator, generator), (for_discriminator, discriminator)):
            if hasattr(updater.optimizer, "build"):
                updater.optimizer.build(model.trainable_variables)

    def cross_entropy(logits: Any, label: float) -> Any:
        labels = tf.fill(tf.shape(logits), label)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    def losses(images: Any) -> Tuple[Any, Any]:
        noise = tf.random.uniform((images.shape[0], NOISE), -1.0, 1.0)
        real = discriminator(images, training=True)
        fake = discriminator(generator(noise, training=True), training=True)
        return cross_entropy(fake, 1.0), 0.5 * (cross_entropy(real, 1.0) + cross_entropy(fake, 0.0))

    def train_step(images: Any) -> Tuple[Any, Any]:
        with tf.GradientTape() as tape:
            generator_loss, _ = losses(images)
            scaled = for_generator.scale(generator_loss)
        variables = generator.trainable_variables
        for_generator.apply(tape.gradient(scaled, variables), variables)
        with tf.GradientTape() as tape:
            _, discriminator_loss = losses(images)
            scaled = for_discriminator.scale(discriminator_loss)
        variables = discriminator.trainable_variables
        for_discriminator.apply(tape.gradient(scaled, variables), variables)
        return generator_loss, discriminator_loss

    return tf.function(train_step) if strategy is None else replicated(tf, strategy, train_step)


def load_images(tf: Any, args: argparse.Namespace, count: int) -> Any:
    """Return `count` images, float32, shape (count, 28, 28, 1), in [0, 1]."""
    import numpy as np

    if args.data == "synthetic":
        return np.random.default_rng(args.seed).random((count, 28, 28, 1), dtype=np.float32)
    require_mnist()
    (images, _), _ = tf.keras.datasets.mnist.load_data()
    return (images[:count, :, :, None] / 255.0).astype("float32")


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
            "train_gan: MNIST cannot be downloaded (%s); put mnist.npz into %s, or use --data synthetic"
            % (error, os.path.join(home, "datasets"))
        )


def batches(tf: Any, images: Any, todo: Plan) -> Iterator[Tuple[int, int, Any]]:
    """Yield epoch, batch number and images on the device, `todo.steps` times."""
    for step in range(todo.steps):
        epoch, batch = divmod(step, todo.batches)
        start = batch * todo.batch % len(images)
        yield epoch, batch, tf.constant(images[start : start + todo.batch])


def train(tf: Any, train_step: Any, images: Any, todo: Plan) -> Dict[str, float]:
    """Run the loop and log every step; return the last losses."""
    last = {}
    for epoch, batch, data in batches(tf, images, todo):
        start = time.perf_counter()
        generator_loss, discriminator_loss = (float(loss) for loss in train_step(data))
        elapsed = time.perf_counter() - start
        last = {"generator": generator_loss, "discriminator": discriminator_loss}
        LOG.info(
            "(%d, %d), G Loss: %.3f, D Loss: %.3f, step_time: %.3f, throughput: %.3f img/s.",
            epoch,
            batch,
            generator_loss,
            discriminator_loss,
            elapsed,
            2 * todo.batch / elapsed,
        )
    return last


def main(argv: Optional[List[str]] = None) -> None:
    """Train."""
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    tf = import_tensorflow(args)
    strategy = make_strategy(tf, args.strategy)  # before any op: it sets devices up
    audited = os.environ.get(AUDITED) == "1"
    if not audited:
        check_precision(tf, args.precision)
    todo = plan(args, has_gpu=audited or bool(tf.config.list_physical_devices("GPU")))
    kept = min(IMAGES // todo.batch, todo.steps) * todo.batch
    images = load_images(tf, args, kept)
    with contextlib.ExitStack() as scope:
        if strategy is not None:
            scope.enter_context(strategy.scope())
        generator, discriminator = build_generator(tf, SIZES[args.sizes]), build_discriminator(tf)
        train_step = make_train_step(tf, generator, discriminator, args.loss_scale, strategy)
    train(tf, train_step, images, todo)


if __name__ == "__main__":
    main()
