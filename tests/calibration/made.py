"""Make raw rows as a GPU with given constants would measure them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tcprobe.calibration.plan import Case, cases_for
from tcprobe.cost.constants import Constants, Multiplier, Rate, RateFamily, fitted, launch_apart
from tcprobe.cost.measured import csv_of, measurements_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.hardware import Gpu, find_gpu

H200 = find_gpu("h200-sxm")
CORES: tuple[RateFamily, ...] = ("tc16", "tf32")
SLOWER = {"odd": 0.3, "even": 0.5, "nt_odd": 0.25, "nt_even": 0.4}


def exactly(value: float) -> Multiplier:
    return Multiplier(value, value, value)


def truth(gpu: Gpu = H200, emax: float = 0.6, bwf: float = 0.6, t0_ns: float = 6000.0) -> Constants:
    """Return the constants of a GPU that was never measured; `t0_ns` is an empty kernel with its launch."""
    empty, launch = launch_apart(t0_ns)

    def rate(family: RateFamily) -> Rate:
        known = replace(fitted(gpu, family, "serving").rate, spread=(1.0, 1.0, 1.0), emax=emax, bwf=bwf)
        return replace(known, t0_ns=empty, launch_ns=launch)

    families: tuple[RateFamily, ...] = (*CORES, "fp32")
    return Constants(
        gpu.id,
        "made",
        "calibrated",
        {family: rate(family) for family in families},
        {
            f"{family}:{pass_}{part}": (value, value, value)
            for family in families
            for pass_ in ("forward", "dgrad", "wgrad")
            for part, value in (("", 1.5), (":winograd", 0.7))
        },
        {f"gemm:{family}:{level}": exactly(value) for family in CORES for level, value in SLOWER.items()},
    )


def timed(
    cases: Sequence[Case], gpu: Gpu, constants: Constants, path: Path, noise: float = 0.02
) -> list[dict[str, object]]:
    """Return the rows of cases with the times that constants give with launches, off by as much as noise either way."""
    rows = [{**case.row, "time_ns": 1, "source": "made"} for case in cases]
    path.write_text(csv_of(rows), encoding="utf-8")
    draw = random.Random(1)
    on = Target(gpu, "cublas12", tf32=False, constants=constants, channels_last=True)
    for row, read in zip(rows, measurements_of(path.read_text(encoding="utf-8"), path), strict=True):
        cost = op_cost(read.record, on)
        assert cost is not None
        row["time_ns"] = f"{cost.timed_ns * draw.uniform(1 - noise, 1 + noise):.1f}"
    path.unlink()
    return rows


def raw_csv(path: Path, gpu: Gpu = H200, levels: int = 4, constants: Constants | None = None) -> Path:
    """Write a raw CSV of the plan up to a priority."""
    cases = [case for case in cases_for(gpu, "cublas12", "torch") if case.level <= levels]
    path.write_text(csv_of(timed(cases, gpu, constants or truth(gpu), path)), encoding="utf-8")
    return path
