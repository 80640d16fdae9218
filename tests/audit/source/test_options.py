"""Options of a command line: what the user gives the script, else their defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.source.read import read_source, read_steps

TEXT = """
import argparse
from tensorflow import keras
p = argparse.ArgumentParser()
p.add_argument("--units", "-u", type=int, default=100)
p.add_argument("--sizes", choices=("good", "bad"), default="good")
p.add_argument("--wide", action="store_true")
p.add_argument("--many", nargs="+", type=int, default=[1])
args = p.parse_args()
DEPTH = {"good": 64, "bad": 63}
inputs = keras.Input((32,))
x = keras.layers.Dense(args.units)(inputs)
x = keras.layers.Dense(DEPTH[args.sizes])(x)
x = keras.layers.Dense(500 if args.wide else 5)(x)
x = keras.layers.Dense(args.many[0])(x)
model = keras.Model(inputs, x)
model.compile("sgd", "mse")
model.fit(data)
"""
CASES = {
    (): [100, 64, 5, 1],
    ("--units", "24", "--sizes=bad"): [24, 63, 5, 1],
    ("-u", "24", "--units=25", "--wide"): [25, 64, 500, 1],
    ("--units", "many"): [None, 64, 5, 1],
    ("--units",): [None, 64, 5, 1],
    ("--many", "7", "8"): [100, 64, 5, None],
    ("--unit", "24"): [None, 64, 5, 1],
}


@pytest.mark.parametrize("argv", CASES, ids=" ".join)
def test_sizes_are_those_of_the_arguments(argv: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEXT, encoding="utf-8")
    (model,) = read_steps(read_source(tmp_path / "train.py", argv=argv), None)
    sizes = [layer.output_shape[-1] if layer.output_shape else None for layer in model.layers if layer.kind == "Dense"]
    assert sizes == CASES[argv]
