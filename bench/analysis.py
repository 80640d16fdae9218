"""Measure how the analysis of a profile grows with its launches: a straight line, or not.

    python bench/analysis.py [BEFORE] [--launches 0.1 0.3 1 3 4 10] [--runs 3] [--ops 2000] [--names 300] [--steps 100]
        [--devices 8]

Makes profiles of so many million launches (several GPUs and streams, overlaps and gaps, ops with shapes, layers,
copies, steps of which the first two warm up) and analyses each in a process of its own. BEFORE is another checkout,
whose package analyses the same profiles beside this one's. A plain ``np.sort`` of as many random int64 in the same
process is the unit that machines share. Times are CPU seconds, the least of `--runs` processes; memory is the largest
peak, above what holds the profile. Exits 1 where a launch of the largest profile costs 1.3 times one of the profile of
1 million.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row, Table
    from tcprobe.schema.profile import Profile

ROOT = Path(__file__).resolve().parent.parent
MOST = 1.3
TYPES = ("MatMul", "BiasAdd", "Conv2D", "Relu", "MatMul", "AddV2", "Conv2DBackpropFilter", "Mul", "Softmax", "MatMul")
LAYER_OPS = 10  # ops of one layer
KERNELS = (
    "ampere_fp16_s16816gemm_fp16_{0}x128_ldg8_f2f_stages_{0}x3_nn",
    "void Eigen::internal::EigenMetaKernel<Op{0}, long>(Op{0}, long)",
    "ampere_sgemm_{0}x64_nn",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816wgrad_optimized_f16_{0}x64_32x5_nhwc_align8>(Params)",
    "gemm_fusion_dot_{0}",
    "void tensorflow::functor::RowReduceKernel<float, {0}>(float*, int)",
    "ncclDevKernel_AllReduce_Sum_f16_RING_LL_{0}(ncclDevKernelArgsStorage)",
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize{0}x128x32_stage4_tensor16x8x16_kernel",
    "somebodys_own_kernel_{0}",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a profile holds."""

    launches: int
    devices: int
    steps: int
    ops: int
    names: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one analysis cost: seconds, and bytes above what holds the profile and in all; `sort_s` is np.sort's."""

    cpu_s: float
    wall_s: float
    above_bytes: int
    peak_bytes: int
    sort_s: float


def synthetic(plan: Plan) -> Profile:
    """Return a profile as a reader would; the same for the same plan."""
    from tcprobe.schema.profile import Metadata, Profile
    from tcprobe.schema.tables import DEVICES, HOST_OPS, LAUNCH_CONFIGS, METRICS, STEPS

    ops = [op_row(i) for i in range(plan.ops)]
    configs = [{"registers": 32 + i % 200, "block": f"{32 * (1 + i % 32)},1,1", "grid": f"{i},1,1"} for i in range(500)]
    gpus = [
        {"device": i, "name": "NVIDIA A100-SXM4-80GB", "name_basis": "reported", "vendor": "Nvidia",
         "compute_capability": "8.0", "tensor_cores": "unknown", "sm_count": 108, "state": "active"}
        for i in range(plan.devices)
    ]  # fmt: skip
    host = [
        {"op": r["op"], "op_type": r["op_type"], "calls": 9, "sum_ns": 900, "min_ns": 1, "max_ns": 300} for r in ops
    ]
    kinds = [{"step": s, "start_ns": s * 10**8, "duration_ns": 10**8, "kind": "measured"} for s in range(plan.steps)]
    logged = [{"step": s, "name": "throughput", "value": 9.0, "unit": "img/s"} for s in range(plan.steps)]
    recorded = rows_of(DEVICES, gpus), rows_of(LAUNCH_CONFIGS, configs), rows_of(HOST_OPS, host)
    return Profile(Metadata("xplane", precision="mixed_float16", gpu_used=True)).with_tables(
        *recorded, rows_of(STEPS, kinds), rows_of(METRICS, logged), graph_of(ops), *events(plan, ops)
    )


def rows_of(spec: Any, rows: list[Row]) -> Table:
    """Return a small table."""
    from tcprobe.schema.columns import Table

    return Table.from_rows(spec, rows)


def op_row(number: int) -> Row:
    """Return one row of `op_details`; every seventh layer is badly sized, every thirteenth op says no shapes."""
    kind, layer = TYPES[number % len(TYPES)], number // LAYER_OPS
    wide = 1021 if layer % 7 == 3 else 1024
    shapes = [[256, 512], [512, wide]] if kind == "MatMul" else [[32, 28, 28, 64], [3, 3, 64, wide // 8]]
    row: Row = {"op": f"model/block_{layer // 8}/layer_{layer}/{kind}_{number}", "op_type": kind}
    return {**row, "dtype": "float16", "input_shapes": json.dumps(shapes) if number % 13 else None}


def graph_of(ops: list[Row]) -> Table:
    """Return the graph's record of every op that multiplies."""
    from tcprobe.schema.tables import GRAPH_OPS

    kept = [(i, op) for i, op in enumerate(ops) if op["op_type"] in ("MatMul", "Conv2D")]
    return rows_of(
        GRAPH_OPS,
        [
            {
                "function": "__inference_step_1", "op": op["op"], "op_type": op["op_type"], "executed_op": op["op"],
                "executed_type": op["op_type"], "executes": "yes", "pass": "forward",
                "layer": f"layer_{i // LAYER_OPS}",
                "layer_class": "Dense" if op["op_type"] == "MatMul" else "Conv2D", "input_shapes": op["input_shapes"],
                "input_dtypes": '["float16", "float16"]', "source": f"model.py:{i}",
                "attributes": '{"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"}',
            }
            for i, op in kept
        ],
    )  # fmt: skip


def events(plan: Plan, ops: list[Row]) -> list[Table]:
    """Return what has a time: launches by GPU and stream as XSpace has them, copies, and what names steps and ops."""
    from tcprobe.schema.columns import Names, Table
    from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS, OP_DETAILS, STEP_MARKS

    rng, each = np.random.default_rng(7), plan.launches // plan.devices
    per_step = max(each // plan.steps, 1)
    step = np.minimum(np.arange(each) // per_step, plan.steps - 1)
    op = (np.arange(each) % per_step) * plan.ops // per_step if per_step >= plan.ops else np.arange(each) % plan.ops
    kernel = (op * 7 + np.arange(each) % 3) % plan.names
    parts: list[dict[str, Any]] = []
    for device in range(plan.devices):
        spent = np.minimum(rng.lognormal(9.0, 1.2, each), 5e6).astype(np.int64) * np.where(step < 2, 3, 1)
        stream = rng.choice([7, 13, 20], each, p=[0.85, 0.1, 0.05])
        gap = np.where(stream == 7, spent + rng.integers(0, 2000, each), 0)  # other streams run beside the first
        start = 10**6 + np.cumsum(gap) - gap
        part = {"stream": stream, "start_ns": start, "duration_ns": spent, "op_id": op, "kernel": kernel}
        part |= {"device": np.full(each, device), "config_id": (kernel * 3 + op) % 500, "launch_ns": start - 5000.0}
        part |= {"iteration": np.where(rng.random(each) < 0.001, np.nan, step), "thread": np.full(each, float(device))}
        parts.append({name: values[np.argsort(stream, kind="stable")] for name, values in part.items()})
    columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
    columns["correlation_id"] = np.arange(each * plan.devices, dtype=np.float64)
    names = [KERNELS[i % len(KERNELS)].format(i) for i in range(plan.names)]
    copied = rng.choice(each * plan.devices, plan.launches // 50, replace=False)
    copies = {c: columns[c][copied] for c in ("device", "stream", "start_ns", "duration_ns", "launch_ns", "iteration")}
    begun = [int(start[step == s][0]) - 6000 for s in range(plan.steps) if (step == s).any()]
    marks = [{"iteration": s, "start_ns": at, "end_ns": at + 10**4} for s, at in enumerate(begun)]
    tables = rows_of(OP_DETAILS, ops), rows_of(STEP_MARKS, marks)
    copied_ = Table(MEMORY_OPS, {**copies, "kind": ["MemcpyH2D"] * len(copied)})
    return [Table(LAUNCHES, {**columns, "kernel": Names(columns["kernel"], names)}), copied_, *tables]


def memory(field: str) -> int:
    """Return a figure of this process' memory in bytes: VmRSS now, VmHWM at its peak."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0]) * 1024


def analyse_one(plan: Plan) -> Cost:
    """Make the profile and analyse it, in this process."""
    import ctypes
    import gc

    from tcprobe.analysis import Options, analyse

    profile = synthetic(plan)
    numbers = np.random.default_rng(1).integers(0, 2**62, plan.launches)
    sorting = []
    for _ in range(3):
        begin = time.process_time()
        np.sort(numbers)
        sorting.append(time.process_time() - begin)
    del numbers
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    held, wall, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    analysed = analyse(profile, Options())
    cpu, wall, peak = time.process_time() - cpu, time.perf_counter() - wall, memory("VmHWM")
    empty = [
        n
        for n in ("summary", "kernels", "ops", "layers", "iterations", "gemms", "bad_sizes")
        if not len(analysed.require(n))
    ]
    if empty:
        raise SystemExit(f"the analysis made no {', '.join(empty)}")
    return Cost(cpu, wall, peak - held, peak, min(sorting))


def measured(root: Path, plan: Plan, runs: int) -> Cost:
    """Return the least times and the largest memory of `runs` processes with the package of the checkout `root`."""
    env = {**os.environ, "PYTHONPATH": str(root), "XDG_CONFIG_HOME": str(root / "nowhere")}
    command = [sys.executable, __file__, "--one", json.dumps(asdict(plan))]
    costs = []
    for _ in range(runs):
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the analysis of {plan.launches:,} launches failed")
        costs.append(Cost(**json.loads(done.stdout)))
    memory_of = max(c.above_bytes for c in costs), max(c.peak_bytes for c in costs)
    times = (min(getattr(c, name) for c in costs) for name in ("cpu_s", "wall_s", "sort_s"))
    cpu_s, wall_s, sort_s = times
    return Cost(cpu_s, wall_s, *memory_of, sort_s)


def show(name: str, launches: int, cost: Cost) -> None:
    """Print one line of the table."""
    print(
        f"{name:8} {launches / 1e6:6.1f} M  {cost.cpu_s:6.2f} s  {cost.wall_s:6.2f} s  "
        f"{1e9 * cost.cpu_s / launches:7.0f} ns  {cost.cpu_s / cost.sort_s:6.1f} x  "
        f"{cost.above_bytes / 1e6:6.0f} MB  {cost.peak_bytes / 1e6:6.0f} MB",
        flush=True,
    )


def main() -> int:
    """Measure and print; return 1 where a launch costs more the more there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="checkout to measure beside this one")
    parser.add_argument("--launches", type=float, nargs="+", default=[0.1, 0.3, 1, 3, 4, 10], help="in millions")
    parser.add_argument("--runs", type=int, default=3, help="processes of each; the best counts")
    for name, count in (("ops", 2000), ("names", 300), ("steps", 100), ("devices", 8)):
        parser.add_argument(f"--{name}", type=int, default=count, help=f"distinct ones; default {count}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(analyse_one(Plan(**json.loads(options.one))))))
        return 0
    roots = {"before": options.before.resolve()} if options.before else {}
    costs: dict[tuple[str, float], Cost] = {}
    print(
        f"{'':8} {'launches':>8}  {'CPU':>8}  {'wall':>8}  {'a launch':>10}  {'np.sort':>8}  {'above':>9}  {'peak':>9}"
    )
    for millions in options.launches:
        launches = round(millions * 1e6)
        plan = Plan(launches, options.devices, options.steps, options.ops, options.names)
        for name, root in {**roots, "now": ROOT}.items():
            costs[name, millions] = measured(root, plan, options.runs)
            show(name, launches, costs[name, millions])
        if options.before:
            old, new = costs["before", millions], costs["now", millions]
            ratio = (new.cpu_s / new.sort_s) / (old.cpu_s / old.sort_s)
            print(f"{'':8} {ratio:.2f} of the time by np.sort, {new.above_bytes / old.above_bytes:.2f} of the memory")
    return straight({m: cost for (name, m), cost in costs.items() if name == "now"})


def straight(costs: dict[float, Cost]) -> int:
    """Say whether a launch of the largest profile costs about what one of 1 million costs; 1 where it does not."""
    largest, other = max(costs), 1.0
    if other not in costs or largest <= other:
        return 0
    grown = (costs[largest].cpu_s / largest) / (costs[other].cpu_s / other)
    print(f"a launch of {largest:g} M costs {grown:.2f} times one of 1 M; a straight line is at most {MOST}")
    return int(grown > MOST)


if __name__ == "__main__":
    sys.exit(main())
