"""Runs cases one by one in PyTorch or JAX: ``python ops.py ORDERS.json``. Python 3.8, and the framework alone.

ORDERS: `framework`, `device` (cuda or cpu), `cases`, `results`, where a line is added for each case: what became of it.
On a GPU each op runs twice, then once more inside a range of NVTX that names the case, with the profiler switched on.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

PATH = re.compile(r"(?:/[^\s/:,'\"]+)+/([^\s/:,'\"]+)")
WARM_UPS = 2
Case = dict[str, Any]
Run = Callable[[], Any]


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    prepare = {"torch": with_torch, "jax": with_jax}[orders["framework"]](orders["device"])
    counted = switched if orders["device"] == "cuda" else contextlib.nullcontext
    with open(orders["results"], "a", encoding="utf-8") as file:
        for case in orders["cases"]:
            try:
                once = prepare(case)
                for _ in range(WARM_UPS):
                    once()
                with counted(case["case"]):
                    once()
                status = "ran"
            except Exception as error:  # whatever a framework says, it is the case's status
                status = PATH.sub(r"\1", "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0]))[:200]
            file.write(json.dumps({"case": case["case"], "status": status}) + "\n")
            file.flush()


@contextlib.contextmanager
def switched(name: str) -> Iterator[None]:
    """Have Nsight Compute record (--profile-from-start off), under the name of the case, from whichever thread."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context):
        raise RuntimeError("the driver's context cannot be had")
    start, end = marks()
    opened = start("case=" + name)
    driver.cuProfilerStart()
    try:
        yield
    finally:
        driver.cuProfilerStop()
        end(opened)


def marks() -> Any:
    """Return what starts and ends a range of the process: PyTorch's, else nvtx's; without either no case is named."""
    if "torch" in sys.modules:
        return sys.modules["torch"].cuda.nvtx.range_start, sys.modules["torch"].cuda.nvtx.range_end
    try:
        import nvtx
    except ImportError:
        return str, str
    return nvtx.start_range, nvtx.end_range


def with_torch(device: str) -> Callable[[Case], Run]:
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")

    def tensor(case: Case, *shape: int) -> Any:
        if case["dtype"] == "int8":
            return torch.randint(-8, 8, shape, device=device, dtype=torch.int8)
        made = torch.randn(*shape, device=device).to(getattr(torch, case["dtype"].replace("tf32", "float32")))
        return made.requires_grad_(case["pass"] == "backward")

    def gemm(case: Case) -> Run:
        m, n, k = case["sizes"]
        a = tensor(case, k, m).t() if case["kind"] == "tn" else tensor(case, m, k)
        b = tensor(case, n, k).t() if case["kind"] == "nt" else tensor(case, k, n)
        one = torch.tensor(1.0, device=device)
        ways = {
            "int8": lambda: torch._int_mm(a, b),
            "float8_e4m3fn": lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
        }
        return ways.get(case["dtype"], lambda: torch.mm(a, b))

    def conv(case: Case) -> Run:
        images, side, channels, filters, taps = case["sizes"]
        # Of 1 channel, `contiguous(memory_format=channels_last)` changes no stride, and cuDNN is asked for NCHW.
        x = tensor(case, images, side, side, channels).permute(0, 3, 1, 2)
        w = tensor(case, filters, taps, taps, channels).permute(0, 3, 1, 2)
        if case["pass"] == "forward":
            return lambda: F.conv2d(x, w, padding=taps // 2)
        dy = torch.ones_like(F.conv2d(x, w, padding=taps // 2))
        rest = (
            [1, 1],
            [taps // 2] * 2,
            [1, 1],
            False,
            [0, 0],
            1,
            [case["pass"] == "dgrad", case["pass"] == "wgrad", False],
        )
        return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *rest)

    def attention(case: Case) -> Run:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        ways = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
        q, k, v = (tensor(case, *case["sizes"]) for _ in range(3))

        def forward() -> Any:
            with sdpa_kernel(getattr(SDPBackend, ways.get(case["kind"], "MATH"))):
                return F.scaled_dot_product_attention(q, k, v)

        return either(case, forward, (q, k, v))

    def other(case: Case) -> Run:
        x = tensor(case, *case["sizes"])
        ones, ids = x.detach()[0], torch.arange(case["sizes"][0], device=device)
        ways = {
            "layer_norm": lambda: F.layer_norm(x, ones.shape, ones, ones),
            "batch_norm": lambda: F.batch_norm(x, None, None, ones, ones, training=True),
            "softmax": lambda: F.softmax(x, dim=-1),
            "add": lambda: x + x,
            "gelu": lambda: F.gelu(x),
            "sum": lambda: x.sum(0),
            "max": lambda: x.amax(1),
            "cast": lambda: x.to(torch.float16 if x.dtype == torch.float32 else torch.float32),
            "transpose": lambda: x.t().contiguous(),
            "copy": lambda: x.clone(),
            "embedding": lambda: F.embedding(ids, x),
        }
        return either(case, ways[case["op"]], (x,))

    def either(case: Case, forward: Run, inputs: Any) -> Run:
        """Return the forward pass, or the backward pass of one that has run."""
        if case["pass"] == "forward":
            return forward
        out = forward()
        dy = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, inputs, dy, retain_graph=True)

    def prepare(case: Case) -> Run:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case["dtype"] == "tf32"
        once = {"gemm": gemm, "conv": conv, "attention": attention}.get(case["op"], other)(case)
        return lambda: (once(), torch.cuda.synchronize() if device == "cuda" else None)

    return prepare


def with_jax(device: str) -> Callable[[Case], Run]:
    import jax
    import jax.numpy as jnp

    if device == "cuda" and jax.default_backend() != "gpu":
        sys.exit("JAX sees no GPU")

    def tensor(case: Case, *shape: int) -> Any:
        return jnp.ones(shape, getattr(jnp, case["dtype"].replace("tf32", "float32")))

    def gemm(case: Case) -> Any:
        m, n, k = case["sizes"]
        a = tensor(case, k, m) if case["kind"] == "tn" else tensor(case, m, k)
        b = tensor(case, n, k) if case["kind"] == "nt" else tensor(case, k, n)
        sides = ((0 if case["kind"] == "tn" else 1,), (1 if case["kind"] == "nt" else 0,)), ((), ())
        into = {"int8": jnp.int32, "float8_e4m3fn": jnp.float32}.get(case["dtype"])
        return lambda a, b: jax.lax.dot_general(a, b, sides, preferred_element_type=into), (a, b)

    def conv(case: Case) -> Any:
        images, side, channels, filters, taps = case["sizes"]
        x, w = tensor(case, images, side, side, channels), tensor(case, taps, taps, channels, filters)
        dy, order = tensor(case, images, side, side, filters), ("NHWC", "HWIO", "NHWC")

        def forward(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)

        return {
            "forward": (forward, (x, w)),
            "dgrad": (lambda w, dy: jax.linear_transpose(lambda x: forward(x, w), x)(dy), (w, dy)),
            "wgrad": (lambda x, dy: jax.linear_transpose(lambda w: forward(x, w), w)(dy), (x, dy)),
        }[case["pass"]]

    def attention(case: Case) -> Any:
        way = {"math": "xla", "cudnn": "cudnn"}.get(case["kind"])
        if way is None:
            raise ValueError("JAX has no %s attention" % case["kind"])
        batch, heads, length, head = case["sizes"]
        own = tuple(tensor(case, batch, length, heads, head) for _ in range(3))
        return either(case, lambda *own: jax.nn.dot_product_attention(*own, implementation=way), own)

    def other(case: Case) -> Any:
        x = tensor(case, *case["sizes"])
        ways = {
            "layer_norm": lambda x: jax.nn.standardize(x, -1),
            "batch_norm": lambda x: jax.nn.standardize(x, 0),
            "softmax": jax.nn.softmax,
            "add": lambda x: x + x,
            "gelu": jax.nn.gelu,
            "sum": lambda x: x.sum(0),
            "max": lambda x: x.max(1),
            "cast": lambda x: x.astype(jnp.float16 if x.dtype == jnp.float32 else jnp.float32),
            "transpose": lambda x: x.T,
            "copy": jnp.copy,
            "embedding": lambda x: x[jnp.arange(x.shape[0])[::-1]],
        }
        return either(case, ways[case["op"]], (x,))

    def either(case: Case, forward: Callable[..., Any], own: Any) -> Any:
        """Return the forward pass, or both passes: XLA compiles them as one."""

        def both(*own: Any) -> Any:
            out, back = jax.vjp(forward, *own)
            return back(jnp.ones_like(out))

        return (forward if case["pass"] == "forward" else both), own

    def prepare(case: Case) -> Run:
        precision = {"tf32": "tensorfloat32", "float32": "float32"}.get(case["dtype"], "default")
        with jax.default_matmul_precision(precision):
            function, own = {"gemm": gemm, "conv": conv, "attention": attention}.get(case["op"], other)(case)
            compiled = jax.jit(function).lower(*own).compile()  # what XLA tunes is not counted
        return lambda: jax.block_until_ready(compiled(*own))

    return prepare


if __name__ == "__main__":
    main()
