"""Count the products that a style executes, without tcprobe: for the truth in its comments.

Usage: python -m tests.truths.executed SCRIPT

A callback of TensorFlow's adds to every product that is made a function that counts, with the sizes that it has as it
runs; one whose result nobody needs is pruned with it. Eager products are counted as they come. Prints what each kind of
product runs in the mean step of the script, in all threads, with the FLOPs of one: 2 times the multiplications of each
weight and output position of the forward pass, padding included, for all three passes of a convolution alike.
"""

from __future__ import annotations

import math
import runpy
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tests.truths.styles import counted

CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", *CONVOLUTIONS)
Sizes = tuple[int, ...]


def multiplications(op_type: str, inputs: Sequence[Sizes], output: Sizes, attributes: dict[str, Any]) -> int:
    """Return the multiplications of one execution.

    Args:
        op_type: one of `PRODUCTS`.
        inputs: sizes of its inputs, in TensorFlow's order.
        output: sizes of its output.
        attributes: of the op, by name.
    """
    if op_type not in CONVOLUTIONS:
        turned = attributes.get("transpose_a", attributes.get("adj_x", False))
        return math.prod(output) * inputs[0][-2 if turned else -1]
    positions = output if op_type == "Conv2D" else inputs[2]  # of what the forward convolution puts out, channels last
    kernel = output if op_type == "Conv2DBackpropFilter" else inputs[1]
    return math.prod(positions[:-1]) * math.prod(kernel)


class Count:
    """Products that ran, by kind, layer's scope and sizes."""

    def __init__(self, tf: Any) -> None:
        self.times: Counter[tuple[str, int]] = Counter()
        self._tf = tf
        self._counting = threading.local()

    def __call__(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        """Count an eager product, or add what counts to one that is made in a graph."""
        del op_name
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        if kind not in PRODUCTS or getattr(self._counting, "now", False):
            return None
        names = [name.decode() if isinstance(name, bytes) else name for name in attrs[::2]]
        attributes = {name: getattr(value, "b", value) for name, value in zip(names, attrs[1::2], strict=True)}
        if graph is None:
            self._ran(kind, attributes, [tuple(i.shape) for i in inputs], tuple(outputs[0].shape))
            return None
        self._counting.now = True
        try:
            return [self._counted(kind, attributes, inputs, outputs[0])]
        finally:
            self._counting.now = False

    def _ran(self, kind: str, attributes: dict[str, Any], inputs: Sequence[Sizes], output: Sizes) -> None:
        self.times[kind, 2 * multiplications(kind, inputs, output, attributes)] += 1

    def _counted(self, kind: str, attributes: dict[str, Any], inputs: Any, output: Any) -> Any:
        tf = self._tf

        def ran(result: Any, *sizes: Any) -> Any:
            self._ran(kind, attributes, [tuple(map(int, s)) for s in sizes], tuple(result.shape))
            return result.dtype.type(0)

        sizes = [tf.shape(each) for each in inputs]
        nothing = tf.numpy_function(ran, [output, *sizes], output.dtype, stateful=False)
        nothing.set_shape(())
        return output + tf.stop_gradient(nothing)


def in_every_thread(add: Callable[[Any], None], callback: Any) -> None:
    """Have a callback added in each thread that begins: TensorFlow keeps those of each thread apart."""
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(thread: threading.Thread) -> None:
        add(callback)
        begin(thread)

    threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]


def main() -> None:
    """Run a style and print its products."""
    import tensorflow as tf
    from tensorflow.python.framework import op_callbacks

    count, output = Count(tf), StringIO()
    op_callbacks.add_op_callback(count)
    in_every_thread(op_callbacks.add_op_callback, count)
    with redirect_stdout(output):
        runpy.run_path(str(Path(sys.argv[1])), run_name="__main__")
    steps = sum(counted(output.getvalue()))
    total = sum(flops * times for (_, flops), times in count.times.items())
    print(f"{steps} steps, {total / steps:g} FLOP in the mean step")
    for (kind, flops), times in sorted(count.times.items()):
        print(f"{times / steps:10g} {kind} of {flops} FLOP")


if __name__ == "__main__":
    main()
