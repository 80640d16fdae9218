"""Single ops in TensorFlow, run eagerly: ``python tensorflow_ops.py orders.json``. Python 3.8 syntax."""

from __future__ import annotations

import os
from typing import Any, Callable

import loop

ORDERS = loop.orders()
RANGES = loop.open_ranges(ORDERS)
# Nsight Compute saves and restores what a kernel may write each time that it repeats it.
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

RAW = tf.raw_ops
SYNC = getattr(getattr(tf.test, "experimental", None), "sync_devices", None)  # since 2.11


def main() -> None:
    loop.run(ORDERS, RANGES, prepare)


def prepare(case: loop.Case) -> Callable[[], None]:
    tf.config.experimental.enable_tensor_float_32_execution(case["dtype"] == "tf32")
    op = OPS[case["op"]](case)

    def once() -> None:
        out = op()
        if SYNC is not None:
            SYNC()
        else:  # a copy to the host waits for all that was launched before
            tf.reshape(out[0] if isinstance(out, (list, tuple)) else out, [-1])[:1].numpy()

    return once


def tensor(case: loop.Case, *shape: int) -> Any:
    name = "float32" if case["dtype"] == "tf32" else case["dtype"]
    if name == "float8_e4m3fn":
        raise loop.Lacking("TensorFlow %s multiplies no float8" % tf.__version__)
    if name == "int8":
        return tf.cast(tf.random.uniform(shape, -8, 8, tf.int32), tf.int8)
    return tf.cast(tf.random.normal(shape), getattr(tf, name))


def gemm(case: loop.Case) -> Callable[[], Any]:
    if case["dtype"] == "int8":
        raise loop.Lacking("TensorFlow %s multiplies no int8 on a GPU" % tf.__version__)
    m, n, k, layout = case["m"], case["n"], case["k"], case["kind"]
    a = tensor(case, k, m) if layout == "tn" else tensor(case, m, k)
    b = tensor(case, n, k) if layout == "nt" else tensor(case, k, n)
    return lambda: RAW.MatMul(a=a, b=b, transpose_a=layout == "tn", transpose_b=layout == "nt")


def conv(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["batch"], case["height"], case["width"], case["c"])
    w = tensor(case, case["kernel"], case["kernel"], case["c"], case["filters"])
    how = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    if case["pass"] == "forward":
        return lambda: RAW.Conv2D(input=x, filter=w, **how)
    dy = tf.ones([*x.shape[:3], case["filters"]], x.dtype)
    if case["pass"] == "dgrad":
        return lambda: RAW.Conv2DBackpropInput(input_sizes=tf.shape(x), filter=w, out_backprop=dy, **how)
    return lambda: RAW.Conv2DBackpropFilter(input=x, filter_sizes=tf.shape(w), out_backprop=dy, **how)


def attention(case: loop.Case) -> Callable[[], Any]:
    if case["kind"] != "math":
        raise loop.Lacking("TensorFlow %s has no %s attention" % (tf.__version__, case["kind"]))
    shape = (case["batch"], case["heads"], case["length"], case["head"])
    q, k, v = (tensor(case, *shape) for _ in range(3))
    return _either(case, lambda q: tf.nn.softmax(q @ tf.transpose(k, [0, 1, 3, 2])) @ v, q)


def normalisation(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], 1, 1, case["width"])
    if case["kind"] == "batch":
        ones, zeros = tf.ones([case["width"]]), tf.zeros([case["width"]])
        return _either(case, lambda x: tf.compat.v1.nn.fused_batch_norm(x, ones, zeros, is_training=True)[0], x)

    def layer(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + tf.cast(1e-5, x.dtype))

    return _either(case, layer, x)


def softmax(case: loop.Case) -> Callable[[], Any]:
    return _either(case, tf.nn.softmax, tensor(case, case["rows"], case["width"]))


def elementwise(case: loop.Case) -> Callable[[], Any]:
    x, y = tensor(case, case["rows"], case["width"]), tensor(case, case["rows"], case["width"])
    ways = {"add": lambda: x + y, "gelu": lambda: tf.nn.gelu(x), "dropout": lambda: tf.nn.dropout(x, 0.1)}
    return ways[case["kind"]]


def reduction(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], case["width"])
    return {"sum": lambda: tf.reduce_sum(x, 0), "max": lambda: tf.reduce_max(x, 1)}[case["kind"]]


def copy(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], case["width"])
    other = tf.float16 if x.dtype == tf.float32 else tf.float32
    ways = {"cast": lambda: tf.cast(x, other), "transpose": lambda: tf.transpose(x), "copy": lambda: RAW.DeepCopy(x=x)}
    return ways[case["kind"]]


def gather(case: loop.Case) -> Callable[[], Any]:
    table = tensor(case, case["rows"], case["width"])
    ids = tf.random.uniform([case["rows"]], 0, case["rows"], tf.int32)
    return lambda: tf.gather(table, ids)


def _either(case: loop.Case, forward: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """Return the forward pass, or both passes, run eagerly."""
    if case["pass"] == "forward":
        return lambda: forward(x)

    def both() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = forward(x)
        return tape.gradient(out, x)

    return both


OPS = {
    "gemm": gemm,
    "conv": conv,
    "attention": attention,
    "normalisation": normalisation,
    "softmax": softmax,
    "elementwise": elementwise,
    "reduction": reduction,
    "copy": copy,
    "gather": gather,
}

if __name__ == "__main__":
    main()
