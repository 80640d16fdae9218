"""Traces of PyTorch's profiler, made of what a test says was recorded: the keys are those of traces of 2.x."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.analysis import builders as b

PID: Final = 4711
MAIN: Final = 4711
BACKWARD: Final = 4712
"""The thread on which autograd runs gradients."""
GPU: Final = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85_018_279_936}
TYPES: Final = {"bfloat16": "c10::BFloat16", "float16": "c10::Half", "float32": "float"}


ROWS, INPUTS, UNITS, STEP = 64, 784, 250, 1000.0


class Made:
    """A trace under construction; times are microseconds."""

    def __init__(self, gpu: dict[str, Any] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.beside: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [{**GPU, "computeMajor": 9, "computeMinor": 0, **(gpu or {})}],
        }
        self._correlation = 0

    def event(self, cat: str, name: str, start: float, spent: float, thread: int = MAIN, **args: Any) -> None:
        """Add an event of the host."""
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": thread, "ts": start, "dur": spent, "args": args}
        )

    def op(
        self, name: str, start: float, spent: float, *shapes: list[int], thread: int = MAIN, dtype: str = "bfloat16",
        sequence: int | None = None, strides: list[list[int]] | None = None, concrete: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add an op; shapes are those of its inputs."""
        args: dict[str, Any] = {}
        if shapes:
            args = {"Input Dims": list(shapes), "Input type": [TYPES[dtype] if shape else "Scalar" for shape in shapes]}
        given = {"Input Strides": strides, "Concrete Inputs": concrete, "Sequence number": sequence}
        self.event("cpu_op", name, start, spent, thread, **args, **{k: v for k, v in given.items() if v is not None})

    def launch(self, kernel: str, called: float, start: float, spent: float, thread: int = MAIN, **args: Any) -> None:
        """Add a kernel and the call that launched it."""
        self._correlation += 1
        self.event("cuda_runtime", "cudaLaunchKernel", called, 2, thread, correlation=self._correlation)
        told = {"device": 0, "stream": 7, "grid": [8, 4, 1], "block": [128, 1, 1], "registers per thread": 168}
        told |= {"shared memory": 1024, "correlation": self._correlation, "est. achieved occupancy %": 50, **args}
        event = {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": start, "dur": spent}
        self.events.append({**event, "args": told})

    def module(self, name: str, start: float, spent: float) -> None:
        """Add a call of a module."""
        self.event("python_function", f"nn.Module: {name}", start, spent)

    def text(self) -> str:
        """Return the trace as JSON."""
        return json.dumps({**self.beside, "traceEvents": self.events})

    def write(self, path: Path) -> Path:
        """Write it."""
        path.write_text(self.text(), encoding="utf-8")
        return path


def training(steps: int = 3) -> Made:
    """Steps of 1 ms: a linear layer under autocast, and both its gradients on the thread of autograd."""
    made = Made()
    for step in range(steps):
        t, seq = 10_000 + step * STEP, 100 * step + 7
        made.event("user_annotation", f"ProfilerStep#{step}", t, STEP - 1)
        made.event("python_function", "train.py(12): step", t + 5, 320)
        made.event("python_function", "torch/nn/modules/module.py(1501): _call_impl", t + 6, 318)
        made.module("Net_0", t + 10, 300)
        made.module("Linear_0", t + 20, 280)
        made.op("aten::linear", t + 30, 250, [ROWS, INPUTS], [UNITS, INPUTS], [UNITS], dtype="float32", sequence=seq)
        made.op("aten::to", t + 40, 40, [UNITS, INPUTS], dtype="float32", sequence=seq)
        made.launch(b.OTHER, t + 50, t + 60, 5, grid=[1, 1, 1])
        shapes = ([UNITS], [ROWS, INPUTS], [INPUTS, UNITS], [], [])
        strides = [[1], [INPUTS, 1], [1, INPUTS], [], []]
        made.op("aten::addmm", t + 100, 100, *shapes, sequence=seq + 1, strides=strides)
        made.launch(b.TC, t + 110, t + 120, 40)
        node = "AddmmBackward0"
        made.op(f"autograd::engine::evaluate_function: {node}", t + 400, 300, thread=BACKWARD, sequence=seq + 1)
        made.op(node, t + 410, 280, [ROWS, UNITS], thread=BACKWARD, sequence=seq + 1)
        lies = [[UNITS, 1], [INPUTS, 1]]
        made.op("aten::mm", t + 420, 50, [ROWS, UNITS], [UNITS, INPUTS], thread=BACKWARD, strides=lies)
        made.launch(b.TC, t + 430, t + 440, 30, thread=BACKWARD)
        lies = [[1, UNITS], [INPUTS, 1]]
        made.op("aten::mm", t + 520, 50, [UNITS, ROWS], [ROWS, INPUTS], thread=BACKWARD, strides=lies)
        made.launch(b.FP32, t + 530, t + 540, 20, thread=BACKWARD)
    return made
