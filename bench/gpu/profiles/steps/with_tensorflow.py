"""Train through TensorFlow: one `tf.function` a step, Keras' mixed precision; its profiler writes an XSpace."""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import BFLOAT16, FLOAT16, GAN, RATES, TF32, Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .base import Sizes

FALLBACK = {BFLOAT16: (BFLOAT16, FLOAT16, TF32), TF32: (TF32,)}
WITHOUT_GPU = {BFLOAT16: (BFLOAT16, TF32), TF32: (TF32,)}  # a step in float16 takes a CPU 15 s


class TensorFlowSession:
    """TensorFlow on the first GPU, or on the CPU where there is none."""

    def __init__(self, model: str, precision: str, sizes: Sizes, root: Path) -> None:
        self._tf: Any = importlib.import_module("tensorflow")
        tf = self._tf
        self.notes: list[str] = []
        self.on_gpu = sees_gpu()
        script = _script(root / "workloads" / "train_gan.py")
        self.precision = self._usable(script, precision)
        if self.precision != TF32:
            tf.keras.mixed_precision.set_global_policy("mixed_" + self.precision)
        tf.random.set_seed(0)
        self._step: Callable[[], Any] = self._gan(script, sizes) if model == GAN else transformer(tf, sizes, self.notes)

    def _usable(self, script: Any, precision: str) -> str:
        fallback = FALLBACK if self.on_gpu else WITHOUT_GPU
        for tried in fallback[precision]:
            try:
                script.check_precision(self._tf, "tf32" if tried == TF32 else "mixed_" + tried)
                return tried
            except SystemExit as error:
                self.notes.append(str(error)[:300])
        raise Unusable(self.notes[-1])

    def _gan(self, script: Any, sizes: Sizes) -> Callable[[], Any]:
        """Return a step of the packaged workload: it updates the generator, then the discriminator."""
        tf = self._tf
        scale = "dynamic" if self.precision == FLOAT16 else None
        nets = script.build_generator(tf, script.SIZES["good"]), script.build_discriminator(tf)
        step, images = script.make_train_step(tf, *nets, scale), tf.random.uniform((sizes.batch, 28, 28, 1))
        return lambda: step(images)[0]

    def step(self, number: int) -> Any:
        with self._tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            return self._step()

    def wait(self, begun: Any) -> None:
        begun.numpy()  # comes after all that was launched by now

    def sync(self) -> None:
        if not self.on_gpu:
            return
        wait = getattr(getattr(self._tf.test, "experimental", None), "sync_devices", None)
        if wait is not None:
            wait()
        else:  # before TensorFlow 2.12; it launches a kernel of its own
            (self._tf.zeros(()) + 1).numpy()  # comes after all on the one compute stream

    def peak_memory(self) -> int | None:
        ask = getattr(self._tf.config.experimental, "get_memory_info", None)
        return int(ask("GPU:0")["peak"]) if self.on_gpu and ask else None

    @contextmanager
    def recorded(self, folder: Path) -> Iterator[None]:
        profiler = self._tf.profiler.experimental
        options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=1)
        profiler.start(str(folder), options)
        try:
            yield
        finally:
            profiler.stop()


def transformer(tf: Any, sizes: Sizes, notes: list[str]) -> Callable[[], Any]:
    """Return a step of a transformer block between an embedding and a head."""
    layers, width = tf.keras.layers, sizes.width
    attention = layers.MultiHeadAttention(sizes.heads, width // sizes.heads)
    mask = tf.linalg.band_part(tf.ones((1, sizes.tokens, sizes.tokens), tf.bool), -1, 0)
    words = tf.keras.Input((sizes.tokens,), batch_size=sizes.batch, dtype="int32")
    x = layers.Embedding(sizes.vocabulary, width)(words)
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, attention(y, y, attention_mask=mask)])
    y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
    x = layers.Add()([x, layers.Dense(width)(y)])
    logits = layers.Dense(sizes.vocabulary, use_bias=False)(layers.LayerNormalization()(x))
    model = tf.keras.Model(words, logits)
    kind = getattr(tf.keras.optimizers, "AdamW", None)
    if kind is None:
        notes.append("this TensorFlow has no AdamW; Adam instead")
    optimizer = (kind or tf.keras.optimizers.Adam)(RATES[0])
    text = tf.random.uniform((sizes.batch, sizes.tokens + 1), 0, sizes.vocabulary, tf.int32)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        with tf.GradientTape() as tape:
            logits = tf.cast(model(text[:, :-1], training=True), tf.float32)
            cost = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=text[:, 1:], logits=logits)
            cost = tf.reduce_mean(cost)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(cost, weights), weights))  # noqa: B905 - Python 3.8
        return cost

    return step  # type: ignore[no-any-return]


def _script(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, str(path))
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def sees_gpu() -> bool:
    """Return whether TensorFlow can use a GPU."""
    return bool(importlib.import_module("tensorflow").config.list_physical_devices("GPU"))


def open(model: str, precision: str, sizes: Sizes, root: Path) -> TensorFlowSession:  # noqa: A001 - as the others
    """Return a model in training through TensorFlow."""
    return TensorFlowSession(model, precision, sizes, root)
