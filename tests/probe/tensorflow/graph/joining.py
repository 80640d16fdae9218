"""Run the workloads beside this under the graph recorder, and join the GEMM ops of TensorFlow's profile to its records.

An op joins to a record by its own name, as a fused form, or relative to a function.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DRIVER = Path(__file__).with_name("driver.py")
COMMANDS = (
    "gan.py plain", "gan.py nested", "gan.py jit",
    *(f"fit.py {mode}" for mode in (
        "functional", "sequential", "subclassed", "own_step", "ragged", "mixed", "train_on_batch", "jit")),
    "loss_scale.py", "attention.py", "recurrent.py", "convolutions.py", "control_flow.py", "control_flow.py dataset",
    "recompute.py", "saved_model.py", "mirrored.py", "mirrored.py loop", "tape_outside.py", "tape_outside.py ragged",
    "partial_batches.py", "eager.py",
    *(f"loops.py {kind}" for kind in (
        "bidirectional", "addition", "own_cell", "accumulate", "nested", "mapped", "by_data")),
    "../../../../../workloads/train_gan.py --steps 8 --batch-size 8",
)  # fmt: skip
XPLANE = ("tensorflow.tsl.profiler.protobuf.xplane_pb2", "tsl.profiler.protobuf.xplane_pb2")
GEMM = re.compile(r"MatMul|Conv[23]?[Dd]|Einsum|CudnnRNN|XlaDot")
COUNTER = re.compile(r"/(then|else|body|cond|branch|branches)/_\d+/")
NUMBERED = re.compile(r"\b(while|cond|case)_\d+/")
REWRITE = re.compile(r"ArithmeticOptimizer/FoldTransposeInto\w*?_")


class Join(NamedTuple):
    """How the GEMM ops of one profile joined to records.

    Attributes:
        how: number of distinct ops by how they joined: executed, alias, relative.
        misses: ``name:type`` of ops that joined to no record.
        executes: number of records by whether they execute.
        unexplained: executed ops that no traced op explains.
    """

    how: collections.Counter[str]
    misses: list[str]
    executes: collections.Counter[str]
    unexplained: list[str]


def events(folder: Path) -> Iterator[str]:
    """Yield the names of all events on the host planes of the newest profile in `folder`."""
    module = next(m for m in map(_import, XPLANE) if m is not None)
    for path in sorted(folder.rglob("*.xplane.pb"))[-1:]:
        for plane in module.XSpace.FromString(path.read_bytes()).planes:
            if plane.name.startswith("/host:"):
                for line in plane.lines:
                    yield from (plane.event_metadata[e.metadata_id].name for e in line.events)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def gemm_events(folder: Path) -> set[tuple[str, str]]:
    """Return name and type of the distinct GEMM ops in a profile."""
    split = (name.rpartition(":") for name in set(events(folder)))
    return {(path, kind) for path, _, kind in split if path and re.fullmatch(r"\w+", kind) and GEMM.search(kind)}


def normalised(name: str) -> str:
    """Return a name without the counters that TensorFlow adds when it inlines functions."""
    return REWRITE.sub("", NUMBERED.sub(r"\1/", COUNTER.sub(r"/\1/_N/", name)))


def join(folder: Path) -> Join:
    """Join the profile in `folder` with its graph.json."""
    graph = json.loads((folder / "graph.json").read_text()) if (folder / "graph.json").exists() else {"functions": []}
    ops = [op for function in graph["functions"] for op in function["ops"]]
    training = [op for function in graph["functions"] if function["training"] for op in function["ops"]]
    ways = {
        "executed": {op["executed_op"] for op in ops if op["executed_op"]},
        "alias": {alias for op in ops for alias in op["alias_of"]},
        "relative": {normalised(n) for op in ops for n in (op["executed_op"], *op["alias_of"]) if n},
    }
    how: collections.Counter[str] = collections.Counter()
    misses = []
    for name, kind in sorted(gemm_events(folder)):
        way = next((w for w, names in ways.items() if (normalised(name) if w == "relative" else name) in names), None)
        if way is None:
            misses.append(f"{name}:{kind}")
        how[way or "miss"] += 1
    return Join(
        how,
        misses,
        collections.Counter(op["executes"] for op in training),
        [op["op"] for op in ops if not op["output_dtypes"]],
    )


def run(python: str, out: Path, commands: Sequence[str]) -> None:
    """Run the scripts under the recorder in one process of the interpreter `python`."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([python, str(DRIVER), str(out), *commands], env=environment, check=False, capture_output=True)
