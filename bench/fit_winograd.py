"""Fit how float32 convolutions of 3x3 depend on their sizes, and test it on the convolutions left out.

Usage: python bench/fit_winograd.py FOLDER

FOLDER holds NeuSight's timings of PyTorch 2.1 with cuDNN 8.9, one CSV per GPU (MIT; github.com/sitar-lab/NeuSight,
`scripts/asplos/data/dataset/train/collect/conv/p2.1.0`): forward passes of 3x3 convolutions of unit stride in float32,
TF32 off, without autotuning. Per GPU, measured time over that of the plain product is fitted as a power of each size
to a seeded half of the shapes. Prints the entries of `tcprobe.cost.winograd`; the errors on the other half go to
standard error. Exits 2 without samples.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fit_cost import in_train

from tcprobe.cost.measured import conv_record
from tcprobe.cost.plan import Target, plan_of
from tcprobe.cost.winograd import logs_of
from tcprobe.gemm.conv import convolution_of
from tcprobe.hardware import find_gpu

FILES = {
    "a100-pcie-80": "NVIDIA A100 80GB PCIe.csv",
    "v100-pcie": "Tesla V100-PCIE-32GB.csv",
    "t4": "Tesla T4.csv",
    "p100": "Tesla P100-PCIE-16GB.csv",
}
TRAIN_PCT = 50
ROUNDS = 30  # of reweighting, after which least squares have become least absolute errors


def rows(path: Path, gpu: str) -> Iterator[tuple[bool, tuple[float, ...], float, float]]:
    """Yield whether a convolution is fitted, the logarithms of its sizes, its time and its plain product's, in ns."""
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            images, side, channels, filters, taps = (
                int(line[name]) for name in ("B", "Input_Size", "Input_Channel", "Output_Channel", "Kernel_Szie")
            )
            stride, pad = int(line["Stride"]), int(line["Padding"])
            record = conv_record(
                "forward",
                "float32",
                (images, side, side, channels),
                filters,
                (taps, taps),
                (stride, stride),
                (pad, pad),
            )
            plan = plan_of(record, Target(find_gpu(gpu), tf32=False), "float32", None)
            conv = convolution_of(record, "forward")
            assert plan is not None and conv is not None
            fits = in_train((images, side, channels, filters), TRAIN_PCT)
            yield fits, logs_of(conv), float(line["Latency"]) * 1e6, plan.ideal.ns


def solved(logs: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return the level and the exponents that fit the logarithms of ratios with the least absolute error."""
    table, weight = np.column_stack([np.ones(len(logs)), logs]), np.ones(len(logs))
    for _ in range(ROUNDS):
        found = np.linalg.lstsq(table * weight[:, None], ratios * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ratios - table @ found), 0.02))
    return found


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    present = {gpu: folder / name for gpu, name in FILES.items() if (folder / name).is_file()}
    if not present:
        print(f"no timings of convolutions in {folder}: nothing fitted", file=sys.stderr)
        return 2
    for gpu, path in present.items():
        fits, logs, times, plain = (np.array(column) for column in zip(*rows(path, gpu), strict=True))
        ratios = np.log(times / plain)
        found = solved(logs[fits], ratios[fits])
        left = ratios - np.column_stack([np.ones(len(logs)), logs]) @ found
        low, _, high = np.quantile(left[fits], (0.1, 0.5, 0.9))
        figures = ", ".join(f"{value:.3f}" for value in (np.exp(found[0]), *found[1:]))
        print(f'    "{gpu}": _Fit({figures}, ({np.exp(low):.2f}, {np.exp(high):.2f})),')
        test = left[~fits]
        inside = 100 * np.mean((test >= low) & (test <= high))
        error = 100 * np.mean(np.abs(np.exp(-test) - 1))
        print(f"{gpu}: {len(test)} left out, error {error:.1f} %, in range {inside:.0f} %", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
