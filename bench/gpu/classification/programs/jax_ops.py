"""Single ops in JAX, each compiled: ``python jax_ops.py orders.json``. Python 3.8 syntax, JAX only."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

import loop

ORDERS = loop.orders()
RANGES = loop.open_ranges(ORDERS)
# Nsight Compute saves and restores what a kernel may write each time that it repeats it.
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
# Kernels of a CUDA graph are not launched one by one.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_command_buffer="

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

WAYS = {"cudnn": "cudnn", "math": "xla"}
NHWC = ("NHWC", "HWIO", "NHWC")


def main() -> None:
    loop.run(ORDERS, RANGES, prepare)


def prepare(case: loop.Case) -> Callable[[], None]:
    # JAX allows TF32 unless the highest precision is asked for, in the products of attention and gradients too.
    with jax.default_matmul_precision("highest" if case["dtype"] == "float32" else "default"):
        function, arguments = OPS[case["op"]](case)
        # What XLA chose and tuned is chosen here, before anything is counted.
        compiled = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(compiled(*arguments))


def tensor(case: loop.Case, *shape: int) -> Any:
    name = "float32" if case["dtype"] == "tf32" else case["dtype"]
    if not hasattr(jnp, name):
        raise loop.Lacking("JAX %s has no %s" % (jax.__version__, name))
    return jnp.ones(shape, getattr(jnp, name))  # numbers decide over no kernel, and drawing them costs a compilation


def gemm(case: loop.Case) -> Any:
    m, n, k, layout = case["m"], case["n"], case["k"], case["kind"]
    a = tensor(case, k, m) if layout == "tn" else tensor(case, m, k)
    b = tensor(case, n, k) if layout == "nt" else tensor(case, k, n)
    sides = ((0 if layout == "tn" else 1,), (1 if layout == "nt" else 0,))
    results = {"int8": jnp.int32, "float8_e4m3fn": jnp.float32}

    def function(a: Any, b: Any) -> Any:
        into = results.get(case["dtype"])
        return jax.lax.dot_general(a, b, (sides, ((), ())), preferred_element_type=into)

    return function, (a, b)


def conv(case: loop.Case) -> Any:
    x = tensor(case, case["batch"], case["height"], case["width"], case["c"])
    w = tensor(case, case["kernel"], case["kernel"], case["c"], case["filters"])

    def forward(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC)

    if case["pass"] == "forward":
        return forward, (x, w)
    dy = jnp.ones((*x.shape[:3], case["filters"]), x.dtype)
    if case["pass"] == "dgrad":
        return lambda w, dy: jax.linear_transpose(lambda x: forward(x, w), x)(dy), (w, dy)
    return lambda x, dy: jax.linear_transpose(lambda w: forward(x, w), w)(dy), (x, dy)


def attention(case: loop.Case) -> Any:
    if case["kind"] not in WAYS or not hasattr(jax.nn, "dot_product_attention"):
        raise loop.Lacking("JAX %s has no %s attention" % (jax.__version__, case["kind"]))
    shape = (case["batch"], case["length"], case["heads"], case["head"])
    arguments = tuple(tensor(case, *shape) for _ in range(3))
    return _either(case, functools.partial(jax.nn.dot_product_attention, implementation=WAYS[case["kind"]]), arguments)


def normalisation(case: loop.Case) -> Any:
    axis = 0 if case["kind"] == "batch" else -1

    def forward(x: Any) -> Any:
        x32 = x.astype(jnp.float32)
        mean = x32.mean(axis, keepdims=True)
        return ((x32 - mean) * jax.lax.rsqrt(x32.var(axis, keepdims=True) + 1e-5)).astype(x.dtype)

    return _either(case, forward, (tensor(case, case["rows"], case["width"]),))


def softmax(case: loop.Case) -> Any:
    return _either(case, jax.nn.softmax, (tensor(case, case["rows"], case["width"]),))


def elementwise(case: loop.Case) -> Any:
    x, y = tensor(case, case["rows"], case["width"]), tensor(case, case["rows"], case["width"])
    if case["kind"] == "add":
        return jnp.add, (x, y)
    if case["kind"] == "gelu":
        return jax.nn.gelu, (x,)
    key = jax.random.PRNGKey(0)
    return lambda x, key: jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x, 0), (x, key)


def reduction(case: loop.Case) -> Any:
    x = tensor(case, case["rows"], case["width"])
    return {"sum": lambda x: x.sum(0), "max": lambda x: x.max(1)}[case["kind"]], (x,)


def copy(case: loop.Case) -> Any:
    x = tensor(case, case["rows"], case["width"])
    other = jnp.float16 if x.dtype == jnp.float32 else jnp.float32
    return {"cast": lambda x: x.astype(other), "transpose": lambda x: x.T, "copy": jnp.copy}[case["kind"]], (x,)


def gather(case: loop.Case) -> Any:
    ids = jnp.arange(case["rows"])
    return lambda table, ids: table[ids], (tensor(case, case["rows"], case["width"]), ids)


def _either(case: loop.Case, forward: Callable[..., Any], arguments: Any) -> Any:
    """Return the forward pass, or both passes: XLA compiles them as one."""
    if case["pass"] == "forward":
        return forward, arguments

    def both(*arguments: Any) -> Any:
        out, back = jax.vjp(forward, *arguments)
        return back(jnp.ones_like(out))

    return both, arguments


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
