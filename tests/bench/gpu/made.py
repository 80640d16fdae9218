"""A small folder of results as an H200 might leave it: a few kernels and products, in the recorder's tables."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from bench.gpu.summary.__main__ import write
from bench.gpu.tables import CASES, CLOCKS, LAUNCHES, LOGGED, PAIRS, TALLIES, write_table
from tcprobe.calibration.shapes import MatMul
from tcprobe.cost.measured import csv_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.shipped import shipped
from tcprobe.hardware import find_gpu

GPU, DATE = "h200-sxm", "2026-11-22"
NAME = f"{GPU}-{DATE}"
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
OPS = {p: f"sm__ops_path_tensor_src_{p}.sum" for p in ("fp16", "bf16", "tf32", "fp8", "int8", "fp64")}
KERNELS = (*LAUNCHES, PIPE, *OPS.values())
SPREAD = {"spread_pct": 1.5}
NVJET = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"
OLD = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_f16_128x64_sliced1x2_ldg1_nn_align1>(cutlass::Params)"
SGEMM = "ampere_sgemm_128x64_nn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_functor>(int, at::native::relu_functor)"
TRITON = "gemm_fusion_dot_3"
MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_12relu_functorEEEviT0_"

Row = Mapping[str, object]


def case(name: str, dtype: str, aligned: int | None, op: str = "gemm", status: str = "ran") -> Row:
    """Return a case of ``cases.csv.gz``."""
    shape = "m=4096 n=4096 k=4096 layout=nn" if aligned else "m=4095 n=4095 k=4095 layout=nn"
    told = {"case": name, "op": op, "pass": "forward", "dtype": dtype, "shape": shape, "aligned": aligned}
    return {**told, "status": status}


def launch(name: str, kernel: str, precision: str | None, pipe: float | None = None, mangled: str = "") -> Row:
    """Return a launch of ``kernels.csv.gz``: its operations by Tensor Cores are all of one precision, or none."""
    operations = {metric: 1e9 if one == precision else 0 for one, metric in OPS.items()}
    where = {"grid": "64,32,1", "block": "128,1,1", "device": 0, "duration_ns": 51200}
    used = (60.0 if precision else 0.0) if pipe is None else pipe
    return {"case": name, "launch": 0, "kernel": kernel, "mangled": mangled, **where, PIPE: used, **operations}


ALL_CASES = (
    case("g16", "float16", 1),
    case("g16odd", "float16", 0),
    case("g32", "float32", 1),
    case("relu", "float16", None, "elementwise"),
    case("dot", "bfloat16", 1),
    case("f8", "float8_e4m3fn", 1, status="torch has no float8 here"),
)
ALL_LAUNCHES = (
    launch("g16", NVJET, "fp16"),
    launch("g16odd", OLD, "fp16"),
    launch("g32", SGEMM, None),
    launch("relu", RELU, None, 3.7, MANGLED),  # HFMA2 executes on the tensor pipe
    launch("dot", TRITON, "bf16"),
)


def results(
    folder: Path, cases: Iterable[Row] = ALL_CASES, launches: Iterable[Row] = ALL_LAUNCHES, *, dry: bool = False
) -> Path:
    """Write the folder of a day below another, its summary too, and return it."""
    place = folder / NAME
    unit = made_unit(place, "classification", "ncu-torch")
    write_table(unit / "cases.csv.gz", CASES, cases)
    write_table(unit / "kernels.csv.gz", KERNELS, launches)
    (place / "provenance.json").write_text(json.dumps(provenance(dry)), encoding="utf-8")
    steps(place)
    products(place)
    run(place)
    write(place)
    return place


def made_unit(place: Path, part: str, name: str, **told: object) -> Path:
    """Make the folder of a unit that is done."""
    unit = place / part / name
    unit.mkdir(parents=True)
    record = {"status": "done", "reason": None, "remedy": None, "seconds": 12.5, **told}
    (unit / "unit.json").write_text(json.dumps(record), encoding="utf-8")
    return unit


def provenance(dry: bool) -> dict[str, object]:
    """Return what `record.py` writes on such a machine."""
    smi = {"name": "NVIDIA H200", "driver_version": "580.65.06", "compute_cap": "9.0"}
    torch = {"version": "2.11.0", "python": "3.12.3", "libraries": {"triton": "3.6.0"}}
    told = {"date": DATE, "dry_run": dry, "calls": [f"{DATE}T05:00:00+00:00"], "gpu": GPU, "nvidia_smi": smi, "gpus": 1}
    made = {"ncu": "2025.3.1", "nsys": None, "tcprobe": "0.1", "commit": "0" * 40, "changed": False}
    return {**told, "frameworks": {"torch": torch}, **made, "cpu": "a CPU", "cores": 8, "system": "Linux x86_64"}


def steps(place: Path) -> None:
    """Write one training step as two profilers recorded it."""
    told = {"model": "gan", "framework": "torch", "version": "2.11.0", "precision": "bfloat16", "steps": 30}
    for recorder, took in (("kineto", 1.1e6), ("nsys", 1.05e6)):
        unit = made_unit(place, "profiles", f"gan-torch-{recorder}")
        figures = {"step_ns": took, "plain_step_ns": 1.0e6, "recorder": recorder, "counted_steps": 20, "notes": []}
        (unit / "step.json").write_text(json.dumps({**told, **figures}), encoding="utf-8")
        rows = [{"kernel": NVJET, "calls": 40, "sum_ns": 12_000_000, "min_ns": 200_000, "max_ns": 400_000}]
        write_table(unit / "kernels.csv.gz", TALLIES, rows)


def products(place: Path) -> None:
    """Write products that take 1.1 times as long as predicted, and resize pairs."""
    unit, gpu = made_unit(place, "costs", "calibrate-torch", framework="torch"), find_gpu(GPU)
    rows = []
    for dtype in ("float16", "bfloat16"):
        for size in (1024, 2048, 4095, 4096):
            shape = MatMul(size, size, size)
            cost = op_cost(shape.record(dtype), Target(gpu, "cublas12", tf32=False))
            assert cost is not None
            columns = {"gpu": GPU, "library": "cublas12", "dtype": dtype, **shape.columns()}
            rows.append({**columns, "time_ns": 1.1 * cost.timed_ns, "source": "PyTorch 2.11.0"})
    (unit / "raw.csv.gz").write_bytes(gzip.compress(csv_of(rows).encode(), mtime=0))
    constants = replace(shipped()[GPU], basis="calibrated")
    (unit / "constants.json").write_text(constants.to_json(), encoding="utf-8")
    pairs(made_unit(place, "costs", "pairs-torch", framework="torch"))


def pairs(unit: Path) -> None:
    """Write two resize pairs, one of them faster than any prediction, with clocks."""
    told = {"op": "gemm", "pass": "forward", "dtype": "float16", "status": "ran", "library": "cublas12", "rounds": 7}
    shapes = {f"shape_{end}": f"m=4096 n=4096 k={k} layout=nn" for end, k in (("from", 4090), ("to", 4096))}
    rows = [
        {**told, **shapes, "pair": "dense inputs 4090 to 4096", "from_ns": 4e5, "to_ns": 4e5 * r, "ratio": r, **SPREAD}
        for r in (0.4, 0.01)
    ]
    write_table(unit / "pairs.csv.gz", PAIRS, rows)
    sampled = [
        {"second": n, "sm_mhz": mhz, "memory_mhz": 3201, "power_w": 640.5, "temperature_c": 55, "throttle": why}
        for n, (mhz, why) in enumerate([(345, "gpu_idle"), (1980, "none"), (1755, "sw_power_cap")])
    ]
    write_table(unit / "clocks.csv.gz", CLOCKS, sampled)


def run(place: Path, name: str = "plain-train-gan-float32-good", exit_code: int = 0) -> None:
    """Write a run without tcprobe."""
    unit = made_unit(place, "runs", name, version="2.21.0")
    asked = {"kind": "plain", "precision": "float32", "sizes": "good", "loss_scale": None, "xla": False, "batch": 128}
    found = {"exit_code": exit_code, "gpu_used": True, "peak_gpu_memory_bytes": 1 << 30}
    (unit / "ran.json").write_text(json.dumps({**asked, **found}), encoding="utf-8")
    rows = [{"step": n, "at_ms": 5 * n, "step_ns": 5_000_000} for n in range(8)]
    write_table(unit / "logged.csv.gz", LOGGED, rows)
