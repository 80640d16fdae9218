"""Audit every model of keras.applications in traced mode and check each finding against the layers themselves.

Usage: python bench/applications.py [NAME ...] [--dtype float16]

For every model (weights=None) it checks: no crash; each TC101, TC103 and TC105 finding names a layer with a setting or
input of that size, which breaks the rule of 8, and one above a note breaks the rule of 16 bytes too; every layer whose
filters or units break the rule of 8 is found; every product has a cost or a reason why not; the audit takes at most
30 s more than importing TensorFlow and Keras, in wall time or, on a machine that others use too, in CPU time.
Prints one row per model; exits 1 if one fails.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = """
import json
import keras


def build(name, told):
    model = getattr(keras.applications, name)(weights=None)
    found = {}
    for layer in model._flatten_layers(include_self=False):
        own = {n: getattr(layer, n, None) for n in ("filters", "units", "groups")}
        own = {n: v for n, v in own.items() if isinstance(v, int)}
        if own and "Depthwise" not in type(layer).__name__:
            found[layer.name] = {**own, "taken": layer.input.shape[-1]}
    with open(told, "w") as file:
        json.dump(found, file)
    return model
"""
LIMIT_S = 30.0
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
SIZED = ("TC101", "TC103", "TC105")
OUTPUTS, INPUTS = ("filters", "units"), ("channels", "inputs")
ELEMENTS = {None: 4, "float32": 4, "float16": 8, "bfloat16": 8}  # per 16 bytes; TF32 is stored in 4 bytes
Sizes = dict[str, dict[str, int]]


class Took(NamedTuple):
    """Wall time, and CPU time including child processes, of a command, in seconds."""

    wall_s: float
    cpu_s: float


def models() -> list[str]:
    """Return the names of all models in keras.applications."""
    import keras

    names = [n for n in dir(keras.applications) if n[0].isupper()]
    return sorted(n for n in names if inspect.isfunction(getattr(keras.applications, n)))


def timed(command: list[str]) -> tuple[subprocess.CompletedProcess[str], Took]:
    """Run a command; return its output and how long it took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=QUIET, capture_output=True, text=True, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    return done, Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def wrong(findings: list[dict[str, Any]], layers: Sizes, dtype: str | None = None) -> list[str]:
    """Return what contradicts the layers: false findings, and bad sizes that were missed.

    Args:
        findings: from the JSON document.
        layers: settings and input features of each layer that multiplies matrices.
        dtype: dtype that the audit was run with; None for TF32.
    """
    sized = [f for f in findings if f["code"] in SIZED]
    problems = [text for finding in sized for text in _wrong(finding, layers, ELEMENTS[dtype])]
    listed = {(_name(f), f["dimension"]) for f in sized} | {(_name(f), "") for f in findings if f["code"] == "TC104"}
    for name, own in layers.items():
        missed = [d for d in OUTPUTS if own.get(d, 8) % 8 and not {(name, d), (name, "")} & listed]
        problems += [f"missed {name} {d}={own[d]}" for d in missed]
    return problems


def _wrong(finding: dict[str, Any], layers: Sizes, elements: int) -> list[str]:
    name, dimension, size = _name(finding), str(finding["dimension"]), finding["size"]
    own = layers.get(name)
    if own is None:
        return [f"{finding['code']} {name}: no such layer"]
    groups = own.get("groups", 1)
    has = own.get(dimension, own["taken"] if dimension in INPUTS else size)
    problems = [] if size in (has, has // groups) else [f"{name} {dimension}={size}: the layer has {has}"]
    if size % 8 == 0:
        problems.append(f"{name} {dimension}={size} is a multiple of 8")
    if finding["severity"] != "note" and size % elements == 0:
        problems.append(f"{name} {dimension}={size} is a multiple of 16 bytes, and no note")
    return problems


def _name(finding: dict[str, Any]) -> str:
    return str(finding["layer"]).rpartition("/")[2]


def check(name: str, script: Path, imports: Took, dtype: str | None) -> bool:
    """Audit one model, print its row, and say whether it passed."""
    told = script.with_suffix(".json")
    command = [sys.executable, "-m", "tcprobe", "audit-shapes", "--mode", "traced", f"{script}:build", "--arg"]
    command += [f"name={name}", "--arg", f"told={told}", "--format", "json", *(["--dtype", dtype] if dtype else [])]
    done, took = timed(command)
    if done.returncode not in (0, 1):
        print(f"{name:24} FAILED exit {done.returncode}: {done.stderr.strip()[-300:]}", flush=True)
        return False
    (audited,) = json.loads(done.stdout)["audited"]
    findings = audited["findings"]
    problems = wrong(findings, json.loads(told.read_text()), dtype)
    wall, cpu = took.wall_s - imports.wall_s, took.cpu_s - imports.cpu_s
    if audited["costed"] < audited["products"] and not audited["unseen"]:
        problems.append(f"{audited['products'] - audited['costed']} not costed")
    if min(wall, cpu) > LIMIT_S:
        problems.append("too slow")
    counts = "  ".join(f"{sum(f['severity'] == s for f in findings):3} {s}s" for s in ("error", "warning", "note"))
    print(
        f"{name:24} beyond imports {cpu:5.1f} s CPU {wall:6.1f} s clock  {audited['products']:4} products  {counts}  "
        f"{'; '.join(problems[:3]) or 'right'}",
        flush=True,
    )
    return not problems


def main() -> int:
    """Check the named models, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; default: all")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), help="judge for this dtype")
    options = parser.parse_args()
    twice = [timed([sys.executable, "-c", "import tensorflow, keras; keras.Sequential"])[1] for _ in range(2)]
    imports = Took(min(t.wall_s for t in twice), min(t.cpu_s for t in twice))
    print(f"importing TensorFlow and Keras: {imports.cpu_s:.1f} s CPU, {imports.wall_s:.1f} s clock", flush=True)
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as scratch:
        script = Path(scratch) / "applications.py"
        script.write_text(SCRIPT)
        good = [check(name, script, imports, options.dtype) for name in options.names or models()]
    print(f"{sum(good)} of {len(good)} models right")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
