"""Single ops in PyTorch: ``python torch_ops.py orders.json``. Python 3.8 syntax, PyTorch only."""

from __future__ import annotations

from typing import Any, Callable

import loop

ORDERS = loop.orders()
RANGES = loop.open_ranges(ORDERS)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

DEVICE = ORDERS["device"]
WAYS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}


def main() -> None:
    torch.manual_seed(0)
    torch.autograd.set_multithreading_enabled(False)  # the backward pass in this thread, whose ranges are marked
    loop.run(ORDERS, RANGES, prepare)


def prepare(case: loop.Case) -> Callable[[], None]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case["dtype"] == "tf32"
    op = OPS[case["op"]](case)

    def once() -> None:
        op()
        if DEVICE != "cpu":
            torch.cuda.synchronize()

    return once


def tensor(case: loop.Case, *shape: int) -> Any:
    name = "float32" if case["dtype"] == "tf32" else case["dtype"]
    if not hasattr(torch, name):
        raise loop.Lacking("PyTorch %s has no %s" % (torch.__version__, name))
    if name == "int8":
        return torch.randint(-8, 8, shape, device=DEVICE, dtype=torch.int8)
    return torch.randn(*shape, device=DEVICE).to(getattr(torch, name))


def gemm(case: loop.Case) -> Callable[[], Any]:
    m, n, k, layout = case["m"], case["n"], case["k"], case["kind"]
    a = tensor(case, k, m).t() if layout == "tn" else tensor(case, m, k)
    b = tensor(case, n, k).t() if layout == "nt" else tensor(case, k, n)
    if case["dtype"] == "int8":
        return lambda: torch._int_mm(a, b)
    if case["dtype"] == "float8_e4m3fn":
        one = torch.tensor(1.0, device=DEVICE)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return lambda: torch.mm(a, b)


def conv(case: loop.Case) -> Callable[[], Any]:
    size, pad = case["kernel"], case["kernel"] // 2
    # Of 1 channel, `contiguous(memory_format=channels_last)` changes no stride, and cuDNN is asked for NCHW.
    x = tensor(case, case["batch"], case["height"], case["width"], case["c"]).permute(0, 3, 1, 2)
    w = tensor(case, case["filters"], size, size, case["c"]).permute(0, 3, 1, 2)
    if case["pass"] == "forward":
        return lambda: F.conv2d(x, w, padding=pad)
    dy = torch.ones_like(F.conv2d(x, w, padding=pad))
    wanted = [case["pass"] == "dgrad", case["pass"] == "wgrad", False]
    rest = ([1, 1], [pad, pad], [1, 1], False, [0, 0], 1, wanted)
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *rest)


def attention(case: loop.Case) -> Callable[[], Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = getattr(SDPBackend, WAYS[case["kind"]], None)
    if backend is None:
        raise loop.Lacking("PyTorch %s has no %s attention" % (torch.__version__, case["kind"]))
    shape = (case["batch"], case["heads"], case["length"], case["head"])
    q, k, v = (tensor(case, *shape).requires_grad_(case["pass"] == "backward") for _ in range(3))

    def forward() -> Any:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v)

    return _either(case, forward, (q, k, v))


def normalisation(case: loop.Case) -> Callable[[], Any]:
    rows, width = case["rows"], case["width"]
    x = tensor(case, rows, width).requires_grad_(case["pass"] == "backward")
    weight, bias = tensor(case, width), tensor(case, width)
    if case["kind"] == "batch":
        return _either(case, lambda: F.batch_norm(x, None, None, weight, bias, training=True), (x,))
    return _either(case, lambda: F.layer_norm(x, (width,), weight, bias), (x,))


def softmax(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], case["width"]).requires_grad_(case["pass"] == "backward")
    return _either(case, lambda: F.softmax(x, dim=-1), (x,))


def elementwise(case: loop.Case) -> Callable[[], Any]:
    x, y = tensor(case, case["rows"], case["width"]), tensor(case, case["rows"], case["width"])
    ways = {"add": lambda: x + y, "gelu": lambda: F.gelu(x), "dropout": lambda: F.dropout(x, 0.1)}
    return ways[case["kind"]]


def reduction(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], case["width"])
    return {"sum": lambda: x.sum(0), "max": lambda: x.amax(1)}[case["kind"]]


def copy(case: loop.Case) -> Callable[[], Any]:
    x = tensor(case, case["rows"], case["width"])
    other = torch.float16 if x.dtype == torch.float32 else torch.float32
    ways = {"cast": lambda: x.to(other), "transpose": lambda: x.t().contiguous(), "copy": lambda: x.clone()}
    return ways[case["kind"]]


def gather(case: loop.Case) -> Callable[[], Any]:
    table = tensor(case, case["rows"], case["width"])
    ids = torch.randint(0, case["rows"], (case["rows"],), device=DEVICE)
    return lambda: F.embedding(ids, table)


def _either(case: loop.Case, forward: Callable[[], Any], inputs: Any) -> Callable[[], Any]:
    """Return the forward pass, or the backward pass alone of a forward pass that is run before."""
    if case["pass"] == "forward":
        return forward
    out = forward()
    gradient = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


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
