"""Audit every model of keras.applications in traced mode and check each finding against the layers themselves.

Usage: python bench/applications.py [NAME ...] [--jobs 1]

For every model (weights=None): no crash; every TC101, TC103 and TC105 finding names a layer whose own setting has that
size and breaks the rule of 16 bytes; every layer whose filters or units break the rule of 8 is found; and the audit
takes at most 30 s more than importing TensorFlow and Keras does. Prints one row a model; exits 1 where one fails.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPT = "import keras\n\n\ndef build(name):\n    return getattr(keras.applications, name)(weights=None)\n"
LIMIT_S = 30.0
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
SIZED = ("TC101", "TC103", "TC105")


def models() -> list[str]:
    """Return the names of all models of keras.applications."""
    import keras

    found = [
        n for n in dir(keras.applications) if n[0].isupper() and inspect.isfunction(getattr(keras.applications, n))
    ]
    return sorted(found)


def settings(model: Any) -> dict[str, dict[str, int]]:
    """Return filters, units and groups of every layer that multiplies matrices, nested ones too."""
    found: dict[str, dict[str, int]] = {}
    for layer in model._flatten_layers(include_self=False):
        names = ("filters", "units", "groups")
        own = {n: v for n in names if isinstance(v := getattr(layer, n, None), int)}
        if own and "Depthwise" not in type(layer).__name__:
            found[layer.name] = own
    return found


def audit(name: str, script: Path) -> tuple[dict[str, Any], float]:
    """Audit one model; return the document and the seconds it took."""
    command = [sys.executable, "-m", "tcprobe", "audit-shapes", "--mode", "traced", f"{script}:build", "--arg"]
    start = time.monotonic()
    done = subprocess.run(
        [*command, f"name={name}", "--format", "json"], env=QUIET, capture_output=True, text=True, check=False
    )
    took = time.monotonic() - start
    if done.returncode not in (0, 1):
        return {"error": f"exit {done.returncode}: {done.stderr.strip()[-300:]}"}, took
    return json.loads(done.stdout), took


def wrong(findings: list[dict[str, Any]], layers: dict[str, dict[str, int]]) -> list[str]:
    """Return what contradicts the layers: false alarms, and sizes that were missed."""
    problems = []
    listed = set()
    for finding in findings:
        if finding["code"] not in SIZED:
            continue
        name, dimension, size = str(finding["layer"]).rpartition("/")[2], finding["dimension"], finding["size"]
        own = layers.get(name, {}).get(str(dimension))
        listed.add((name, dimension))
        if size % 8 == 0 or (own is not None and own != size):
            problems.append(f"{finding['code']} {name} {dimension}={size}: the layer has {own}")
    for name, own in layers.items():
        for dimension in ("filters", "units"):
            size = own.get(dimension, 8)
            if (
                size % 8
                and (name, dimension) not in listed
                and not any(f["layer"] and f["layer"].endswith(name) for f in findings)
            ):
                problems.append(f"missed {name} {dimension}={size}")
    return problems


def check(name: str, script: Path, imports_s: float) -> bool:
    """Audit one model, print its row, say whether all is well."""
    import keras

    document, took = audit(name, script)
    if "error" in document:
        print(f"{name:24} FAILED {document['error']}")
        return False
    layers = settings(getattr(keras.applications, name)(weights=None))
    keras.backend.clear_session()
    findings = [f for a in document["audited"] for f in a["findings"]]
    problems = wrong(findings, layers)
    counts = {s: sum(f["severity"] == s for f in findings) for s in ("error", "warning", "note")}
    first = document["audited"][0]
    beyond = took - imports_s
    print(
        f"{name:24} {beyond:6.1f} s beyond imports  {first['costed']:4}/{first['products']:4} products costed  "
        f"{counts['error']:3} errors {counts['warning']:3} warnings {counts['note']:3} notes  "
        f"{'; '.join(problems[:3]) or 'right'}",
        flush=True,
    )
    return not problems and beyond <= LIMIT_S


def main() -> int:
    """Check the models that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; default: all")
    options = parser.parse_args()
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import tensorflow, keras; keras.Sequential"], env=QUIET, check=True)
    imports_s = time.monotonic() - start
    names = options.names or models()
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as scratch:
        script = Path(scratch) / "applications.py"
        script.write_text(SCRIPT)
        good = [check(name, script, imports_s) for name in names]
    print(f"{sum(good)} of {len(good)} models right; importing TensorFlow and Keras takes {imports_s:.1f} s")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
