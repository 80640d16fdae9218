"""Check that every GEMM op of a profile joins to a record of graph.json, for all graph workloads and interpreters.

`python bench/probe_join.py [--python PATH ...] [--verbose]` runs the scripts of tests/probe/tensorflow/graph/workloads
under the graph recorder in each interpreter (default: this one) and prints one row per script: the number of distinct
GEMM ops in TensorFlow's CPU profile; how many join to a record by their own name, as a fused form or relative to a
function; how many join to none; how many records execute. This interpreter's TensorFlow reads the profiles.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "tests/probe/tensorflow/graph/driver.py"
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
        passes: number of records that execute or may execute, by pass.
        unexplained: executed ops that no traced op explains.
    """

    how: collections.Counter[str]
    misses: list[str]
    executes: collections.Counter[str]
    passes: collections.Counter[str]
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
        collections.Counter(op["pass"] for op in training if op["executes"] != "no"),
        [op["op"] for op in ops if not op["output_dtypes"]],
    )


def run(python: str, out: Path, commands: Sequence[str]) -> None:
    """Run the scripts under the recorder in one process of the interpreter `python`."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([python, str(DRIVER), str(out), *commands], env=environment, check=False, capture_output=True)


def show(out: Path, commands: Sequence[str], verbose: bool) -> int:
    """Print one row per script; return how many ops joined to no record."""
    missed = 0
    for number, command in enumerate(commands):
        folder = out / str(number)
        if not (folder / "gaps.json").exists():
            print(f"{command:24} did not run to its end")
            continue
        state = json.loads((folder / "gaps.json").read_text())
        result = join(folder)
        missed += len(result.misses)
        gaps = ", ".join(f"{g['hook']}: {g['reason']}" for g in state["gaps"])
        failed = (state["error"] or "").strip().splitlines()[-1:]
        print(
            f"{command:24} ops {sum(result.how.values()):3} {dict(result.how)} records {dict(result.executes)}",
            f"{dict(result.passes)} unexplained {len(result.unexplained)} {gaps} {' '.join(failed)[:160]}",
        )
        for line in (result.misses + result.unexplained) if verbose else ():
            print(f"{'':24}   {line}")
    return missed


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="interpreter to run the scripts in; may be repeated")
    parser.add_argument("--verbose", action="store_true", help="name what did not join")
    parser.add_argument("--keep", type=Path, help="folder for the output, kept")
    parser.add_argument("commands", nargs="*", default=None, help="scripts with their arguments (default: all)")
    args = parser.parse_args()
    commands = args.commands or list(COMMANDS)
    missed = 0
    for python in args.python or [sys.executable]:
        with tempfile.TemporaryDirectory() as scratch:
            out = (args.keep or Path(scratch)) / re.sub(r"\W+", "-", python).strip("-")
            run(python, out, commands)
            print(f"== {python}")
            missed += show(out, commands, args.verbose)
    print(f"{missed} ops joined to no record")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
