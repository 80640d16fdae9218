"""Read public measurements of products, to which constants are fitted (`fit.py`) and on which they are tested
(`cost_model.py`), each where it lies: none of them is copied.

- `samples`: NVIDIA aiconfigurator's parquet files (Apache-2.0; through vLLM; named as in `PARQUET`, they are its
  `systems/data/<system>/gemm/vllm/<version>/gemm_perf.parquet`) and Baidu DeepBench's CSV files (Apache-2.0; V100, T4,
  P100; dimensions of float16 zero-padded to 8 by the benchmark itself). A quarter of the shapes of the former is
  fitted, and half of the far smaller latter.
- `others`: folders of systems in aiconfigurator's `aic-core/src/aiconfigurator_core/systems/data` (Apache-2.0): all
  versions and serving stacks, of each about `MOST` products. A fitted shape is left out in all.
- `timed`, `unaligned`, `paddings`: `a100_mm.zip`, `h100_mm.zip` and `pad_mm_a100_data.zip` of
  github.com/AlnisM/autoheuristic-datasets (no licence): PyTorch's cuBLAS, called once between two events, after the
  cache was emptied. Of its unaligned products only the rates in `tcprobe.cost.alignment` were taken.
- `float32`: NeuSight's timings of PyTorch 2.1 with cuBLAS 12.1 (MIT; github.com/sitar-lab/NeuSight,
  `scripts/asplos/data/dataset`): linear layers and batched products on eight GPUs, TF32 off. Those below `LONG_NS` hold
  up to 0.1 ms of the host and are left out.
- `layers`: vidur's timings of the linear layers of language models on PyTorch, kernels alone (MIT;
  github.com/microsoft/vidur, `data/profiling/compute`), float16.
- `convolutions`: NeuSight's timings of PyTorch 2.1 with cuDNN 8.9, one CSV per GPU (MIT; github.com/sitar-lab/NeuSight,
  `scripts/asplos/data/dataset/train/collect/conv/p2.1.0`): float32, TF32 off, without autotuning.
"""

from __future__ import annotations

import csv
import io
import random
import statistics
import sys
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tcprobe.cost.alignment import SMALL, is_nt, level_of
from tcprobe.cost.measured import Measurement, conv_record, gemm_record, measurements_of
from tcprobe.cost.spread import SHARED, pooled
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import next_size
from tcprobe.schema.finding import Range
from tcprobe.schema.op import OpRecord

DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "samples" / "gemm"
SEED = 20261121
LONG_NS = 1e5
TRAIN_PCT = {"parquet": 25, "deepbench": 50, "convolutions": 50, "float32": 50}
DTYPES = {"torch.nn.functional.linear": "bfloat16", "vllm_default": "bfloat16", "CutlassFP8ScaledMMLinearKernel": "fp8"}
SOURCES = {"parquet": "NVIDIA aiconfigurator, vLLM", "deepbench": "Baidu DeepBench, cuDNN 7.6"}
DEEPBENCH = {"V100": "v100-sxm2", "T4": "t4", "P100": "p100"}
DEEPBENCH_DTYPES = {"fp32": "float32", "fp16_mixed": "float16"}
SYSTEMS = {
    "a100_sxm": "a100-sxm-80", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "l40s": "l40s", "b200_sxm": "b200",
    "b300_sxm": "b300", "gb200": "gb200", "gb300": "gb300", "rtx_pro_6000_server": "rtxpro6000bw-server",
}  # fmt: skip
PARQUET = {gpu: f"{s}__vllm__{'0.14.0' if s == 'a100_sxm' else '0.24.0'}.parquet" for s, gpu in SYSTEMS.items()}
OTHERS = {"bfloat16": "bfloat16", "fp8": "float8_e4m3fn", "fp8_block": "float8_e4m3fn"}
MOST = 2000  # products of one set of others; more take long and change nothing
FRAMEWORK = {"a100-sxm-80": "a100_mm.zip", "h100-sxm-96": "h100_mm.zip"}
PADDED = "pad_mm_a100_data.zip"
TORCH = {"torch.float16": "float16", "torch.bfloat16": "bfloat16"}
STRIDES = ("mat1_stride_0", "mat1_stride_1", "mat2_stride_0", "mat2_stride_1")
LEAST = 1024  # smallest dimension of a large product
CONVOLUTIONS = {
    "a100-pcie-80": "NVIDIA A100 80GB PCIe.csv", "v100-pcie": "Tesla V100-PCIE-32GB.csv", "t4": "Tesla T4.csv",
    "p100": "Tesla P100-PCIE-16GB.csv",
}  # fmt: skip
FLOAT32 = {
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40", "NVIDIA A100 80GB PCIe": "a100-pcie-80", "NVIDIA L4": "l4",
    "NVIDIA H100 80GB HBM3": "h100-sxm", "Tesla V100-PCIE-32GB": "v100-pcie", "Tesla P100-PCIE-16GB": "p100",
    "Tesla T4": "t4", "Tesla P4": "p4",
}  # fmt: skip
LAYERS = {"a100": "a100-sxm-80", "a40": "a40", "h100": "h100-sxm"}


class Measured(NamedTuple):
    """One measured product, where it comes from (parquet, deepbench, framework, kernels), and whether it is fitted."""

    row: Measurement
    origin: str
    train: bool


Sets = dict[str, list[Measured]]


class Predicted(NamedTuple):
    """A product's measured time, its likely time as predicted, and the range of that; in ns."""

    time_ns: float
    ns: float
    low_ns: float
    high_ns: float


class Accuracy(NamedTuple):
    """Figures of products."""

    products: int
    error_pct: float  # mean absolute error
    long_pct: float  # that of those above 0.1 ms
    bias_pct: float  # mean error, above 0 where predictions are too slow
    median_pct: float  # of the absolute error
    near_pct: float  # share less than 25 % off
    in_range_pct: float  # share within the predicted range
    width: float  # median of that range's upper over its lower end


def accuracy(found: Sequence[Predicted]) -> Accuracy:
    """Return the figures of one product or more; 0 for those above 0.1 ms where there are none."""
    signed = [100 * (one.ns / one.time_ns - 1) for one in found]
    off = [abs(error) for error in signed]
    long = [error for error, one in zip(off, found, strict=True) if one.time_ns > LONG_NS]
    return Accuracy(
        len(found),
        statistics.fmean(off),
        statistics.fmean(long) if long else 0.0,
        statistics.fmean(signed),
        statistics.median(off),
        100 * sum(error <= 25 for error in off) / len(off),
        100 * sum(one.low_ns <= one.time_ns <= one.high_ns for one in found) / len(off),
        statistics.median(one.high_ns / one.low_ns for one in found),
    )


STEPS_OF = (10, 40)  # products of a drawn step
DRAWN = 100  # steps of each size


def sums(found: Sequence[Predicted], products: int, shared: float = SHARED) -> tuple[float, float]:
    """Return how many drawn steps take as long as predicted, in percent, and the median width of that range.

    A step is so many products of like length: of a window of twice as many of those ordered by their predicted time.
    """
    draw, ordered = random.Random(f"{SEED}:{products}"), sorted(found, key=lambda one: one.ns)
    steps = []
    for _ in range(DRAWN):
        start = draw.randint(0, max(0, len(ordered) - 2 * products))
        near = ordered[start : start + 2 * products]
        steps.append(draw.sample(near, min(products, len(near))))
    return held(steps, shared)


def held(steps: Sequence[Sequence[Predicted]], shared: float = SHARED) -> tuple[float, float]:
    """Return how many steps take as long as predicted, in percent, and the median width of that range."""
    totals = [pooled((Range(one.low_ns, one.ns, one.high_ns) for one in step), shared) for step in steps]
    times = [sum(one.time_ns for one in step) for step in steps]
    within = sum(total.low <= time <= total.high for total, time in zip(totals, times, strict=True))
    return 100 * within / len(steps), statistics.median(total.high / total.low for total in totals)


def in_train(shape: object, pct: int) -> bool:
    """Say whether a shape is fitted; the answer for a shape never changes."""
    return zlib.crc32(f"{SEED}:{shape}".encode()) % 100 < pct


def sizes_of(record: OpRecord) -> tuple[int | None, ...]:
    """Return m, n and k of a product."""
    (gemm,) = gemms_of(record)
    return gemm.m, gemm.n, gemm.k


def samples(folder: Path) -> list[Measured]:
    """Return all measured products in a folder; files may be absent."""
    return [*_parquet(folder), *_deepbench_gemm(folder), *_deepbench_conv(folder)]


def _parquet(folder: Path) -> Iterator[Measured]:
    if find_spec("pyarrow") is None:
        print("pyarrow is not installed: the parquet files are left out (pip install pyarrow)", file=sys.stderr)
        return
    import pandas as pd

    for gpu, name in PARQUET.items():
        if not (folder / name).is_file():
            continue
        table = pd.read_parquet(folder / name, columns=["kernel_source", "m", "n", "k", "latency"])
        for source, m, n, k, ms in table.itertuples(index=False):
            if source in DTYPES:
                dtype = "float8_e4m3fn" if DTYPES[source] == "fp8" else DTYPES[source]
                row = _linear(gpu, m, n, k, dtype, ms, SOURCES["parquet"])
                yield Measured(row, "parquet", in_train((m, n, k), TRAIN_PCT["parquet"]))


def _linear(gpu: str, m: int, n: int, k: int, dtype: str, ms: float, source: str) -> Measurement:
    """Return y = x[m, k] w[n, k]^T: torch.nn.functional.linear."""
    return Measurement(gpu, "cublas12", gemm_record(m, n, k, dtype, transpose_b=True), ms * 1e6, source)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _deepbench_rows(path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the rows that are read, with their dtypes."""
    yield from ((row, dtype) for row in _rows(path) if (dtype := DEEPBENCH_DTYPES.get(row["dtype"])) is not None)


def _deepbench(line: dict[str, str], record: OpRecord, column: str, shape: object) -> Measured:
    gpu, time_ns = DEEPBENCH[line["gpu"]], float(line[column]) * 1e6
    row = Measurement(gpu, "cublas10", record, time_ns, SOURCES["deepbench"])
    return Measured(row, "deepbench", in_train(shape, TRAIN_PCT["deepbench"]))


def _deepbench_gemm(folder: Path) -> Iterator[Measured]:
    for line, dtype in _deepbench_rows(folder / "deepbench_gemm.csv"):
        # column-major C[m, n] = A B is row-major C^T[n, m] = B^T A^T
        sizes = [int(line[name]) for name in ("n", "m", "k")]
        if dtype == "float16":
            sizes = [next_size(size, 8) for size in sizes]
        flips = {"transpose_a": line["b_trans"] == "T", "transpose_b": line["a_trans"] == "T"}
        yield _deepbench(line, gemm_record(*sizes, dtype, **flips), "time_ms", sizes)


def _deepbench_conv(folder: Path) -> Iterator[Measured]:
    for line, dtype in _deepbench_rows(folder / "deepbench_conv.csv"):
        get = {name: int(line[name]) for name in line if name not in ("gpu", "dtype", "fwd_algo") and "_ms" not in name}
        image = (get["n"], get["h"], get["w"], next_size(get["c"], 8) if dtype == "float16" else get["c"])
        kernel, stride = (get["r_filter_h"], get["s_filter_w"]), (get["stride_h"], get["stride_w"])
        padding = (get["pad_h"], get["pad_w"])
        for pass_, column in (("forward", "fwd_ms"), ("dgrad", "bwd_inputs_ms"), ("wgrad", "bwd_params_ms")):
            if line[column]:
                record = conv_record(pass_, dtype, image, get["k"], kernel, stride, padding)
                yield _deepbench(line, record, column, (image, get["k"], kernel, stride))


def others(folder: Path) -> Sets:
    """Return products of aiconfigurator by GPU, stack, version and dtype."""
    import pandas as pd

    found: Sets = {}
    for path in sorted(folder.glob("*/gemm/*/*/gemm_perf.parquet")):
        system, stack, version = path.parts[-5], path.parts[-3], path.parts[-2]
        if system not in SYSTEMS:
            continue
        table = pd.read_parquet(path, columns=["gemm_dtype", "m", "n", "k", "latency"])
        for name, dtype in OTHERS.items():
            lines = table[table["gemm_dtype"] == name][["m", "n", "k", "latency"]].itertuples(index=False)
            left = [line for line in lines if all(line) and not in_train(tuple(line[:3]), TRAIN_PCT["parquet"])]
            rows = [
                _linear(SYSTEMS[system], *line[:3], dtype, line[3], "aiconfigurator")
                for line in left[:: max(1, len(left) // MOST)]
            ]
            if rows:
                found[f"{SYSTEMS[system]} {stack} {version} {name}"] = [Measured(r, "parquet", False) for r in rows]
    return found


def timed(path: Path, choice: str, gpu: str) -> Iterator[Measurement]:
    """Yield each product timed in one way (extern_mm: cuBLAS, orig, pad), the median; parts of tensors are left out."""
    import pandas as pd

    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    columns = ["m", "n", "k", "mat1_dtype", *STRIDES, "using_tf32"]
    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".txt")):
            table = pd.read_csv(io.BytesIO(archive.read(name)), skiprows=1, low_memory=False)
            for line in table[table["choice"] == choice][[*columns, "feedback"]].to_numpy().tolist():
                times[tuple(str(value) for value in line[:-1])].append(float(line[-1]) * 1e6)
    for (m, n, k, name, *strides, tf32), found in times.items():
        dtype = TORCH.get(name) or ("tf32" if tf32 == "True" else "float32")
        record = _record(int(m), int(n), int(k), dtype, [int(s) for s in strides])
        if record is not None:
            yield Measurement(gpu, "cublas12", record, statistics.median(found), "autoheuristic-datasets")


def _record(m: int, n: int, k: int, dtype: str, strides: list[int]) -> OpRecord | None:
    """Return a product whose operands are contiguous; None if one is not."""
    flips = []
    for (rows, columns), (down, right) in (((m, k), strides[:2]), ((k, n), strides[2:])):
        if right == 1 and (down == columns or rows == 1):
            flips.append(False)
        elif down == 1 and (right == rows or columns == 1):
            flips.append(True)
        else:
            return None
    return gemm_record(m, n, k, dtype, transpose_a=flips[0], transpose_b=flips[1])


def unaligned(folder: Path) -> Sets:
    """Return unaligned products by class; float32 on CUDA cores beside them, which alignment does not slow down."""
    found: Sets = defaultdict(list)
    if (folder / PADDED).is_file():
        for row in timed(folder / PADDED, "orig", "a100-sxm-80"):
            for name in _classes(row.record):
                found[f"A100 PyTorch {name}"].append(Measured(row, "framework", False))
    for gpu, name in FRAMEWORK.items():
        if (folder / name).is_file():
            for row in timed(folder / name, "extern_mm", gpu):
                if row.record.dtype != "float32" and _level(row.record) is not None:
                    found[f"{gpu} PyTorch small unaligned"].append(Measured(row, "framework", False))
    return found


def _classes(record: OpRecord) -> Iterator[str]:
    """Yield the classes of a product of the set on padding."""
    least, level = min(size or 0 for size in sizes_of(record)), _level(record)
    if record.dtype == "float32":
        yield "float32"
    elif level is None:
        yield f"{'TF32' if record.dtype == 'tf32' else '16-bit'} aligned"
    elif record.dtype == "tf32":
        yield "TF32 unaligned"
    else:
        size = f">= {SMALL}" if least >= SMALL else f"{LEAST}-{SMALL - 1}" if least >= LEAST else f"< {LEAST}"
        yield f"16-bit unaligned, least {size}"
        if least >= LEAST:
            yield f"16-bit unaligned, {'NT' if is_nt(gemms_of(record)[0].contiguous) else 'other layouts'}, {level}"
            yield f"16-bit unaligned, all of {LEAST} and more"


def _level(record: OpRecord) -> str | None:
    return level_of([c.size for c in gemms_of(record)[0].contiguous], "tf32" if record.dtype == "tf32" else "tc16")


def paddings(folder: Path) -> list[tuple[Measurement, float]]:
    """Return unaligned 16-bit products of an A100, and how long each took padded, copies included."""
    if not (folder / PADDED).is_file():
        return []
    padded = {_key(row.record): row.time_ns for row in timed(folder / PADDED, "pad", "a100-sxm-80")}
    rows = (r for r in timed(folder / PADDED, "orig", "a100-sxm-80") if r.record.dtype not in ("float32", "tf32"))
    both = ((row, padded.get(_key(row.record))) for row in rows if _level(row.record) is not None)
    return [(row, time) for row, time in both if time is not None]  # a few were not timed padded


def _key(record: OpRecord) -> str:
    return repr((record.dtype, record.input_shapes, record.output_shape, record.attributes))


def convolutions(path: Path, gpu: str) -> Iterator[tuple[Measurement, bool]]:
    """Yield the forward passes of a GPU in NeuSight's file, and whether each is fitted."""
    for line in _rows(path):
        images, side, channels, filters, taps, stride, pad = (
            int(line[name])
            for name in ("B", "Input_Size", "Input_Channel", "Output_Channel", "Kernel_Szie", "Stride", "Padding")
        )
        image = (images, side, side, channels)
        record = conv_record("forward", "float32", image, filters, (taps, taps), (stride, stride), (pad, pad))
        row = Measurement(gpu, "cublas12", record, float(line["Latency"]) * 1e6, "NeuSight")
        yield row, in_train((images, side, channels, filters), TRAIN_PCT["convolutions"])


def float32(folder: Path) -> Iterator[tuple[str, Measurement, bool]]:
    """Yield the kind (linear, bmm), each of NeuSight's products above `LONG_NS`, and whether it is fitted."""
    for kind in ("linear", "bmm"):
        for path in (folder / "test" / f"{kind}.csv", *sorted(folder.glob(f"train/collect/{kind}/*/*.csv"))):
            for line in _rows(path):
                sizes = batch, m, n, k = tuple(int(line[name]) for name in "BMNK")
                time_ns = float(line["Latency"]) * 1e6
                if time_ns > LONG_NS and line["Device"] in FLOAT32:
                    record = gemm_record(m, n, k, "float32", batch, transpose_b=kind == "linear")
                    row = Measurement(FLOAT32[line["Device"]], "cublas12", record, time_ns, "NeuSight")
                    yield kind, row, in_train(sizes, TRAIN_PCT["float32"])


def products(folder: Path) -> Sets:
    """Return those of them that are not fitted, by GPU and kind, `MOST` of each."""
    found: Sets = defaultdict(list)
    for kind, row, fits in float32(folder):
        if not fits:
            found[f"{row.gpu} PyTorch {kind} float32"].append(Measured(row, "kernels", False))
    return {name: rows[:: max(1, len(rows) // MOST)] for name, rows in found.items()}


def layers(folder: Path) -> Sets:
    """Return the products of linear layers by GPU, about `MOST` of each."""
    found = {name: [row for step in steps for row in step] for name, steps in transformers(folder).items()}
    return {name: rows[:: max(1, len(rows) // MOST)] for name, rows in found.items()}


def transformers(folder: Path) -> dict[str, list[list[Measured]]]:
    """Return the four products of each timed layer of a language model, by GPU."""
    found: dict[str, list[list[Measured]]] = defaultdict(list)
    for path in sorted(folder.glob("*/*/*/mlp.csv")):
        gpu = LAYERS.get(path.parts[-4])
        for line in _rows(path) if gpu else ():
            times = ((float(line[f"time_stats.{name}.median"]), sizes) for name, sizes in _layers_of(line))
            rows = (_linear(gpu, *sizes, "float16", ms, "vidur") for ms, sizes in times)
            found[f"{gpu} PyTorch linear float16"].append([Measured(row, "kernels", False) for row in rows])
    return found


def _layers_of(line: dict[str, str]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield the products of a transformer's layer, a part of it on each GPU: name, and m, n, k."""
    heads, shared, wide, inner = (int(line[n]) for n in ("n_head", "n_kv_head", "n_embd", "n_expanded_embd"))
    tokens, parts = int(line["num_tokens"]), int(line["num_tensor_parallel_workers"])
    width = (heads // parts + 2 * max(shared // parts, 1)) * (wide // heads)
    gated = 2 if line["use_gated_mlp"] == "True" else 1
    yield "attn_pre_proj", (tokens, width, wide)
    yield "attn_post_proj", (tokens, wide, wide // parts)
    yield "mlp_up_proj", (tokens, gated * inner // parts, wide)
    yield "mlp_down_proj", (tokens, wide, inner // parts)


def recorded(path: Path) -> Sets:
    """Return the products of a file of `tcprobe calibrate` by dtype, alignment and pass; of replayed CUDA graphs."""
    found: Sets = defaultdict(list)
    for row in measurements_of(path.read_text(encoding="utf-8"), path):
        record = row.record
        if record.op_type.startswith("Conv2D"):
            name = f"conv {record.pass_}"
        else:
            aligned = record.dtype == "float32" or _level(record) is None
            name = f"gemm {'aligned' if aligned else 'unaligned'}"
        dtype = "16 bits" if record.dtype in ("float16", "bfloat16") else record.dtype
        found[f"{row.gpu} recorded {name} {dtype}"].append(Measured(row, "kernels", False))
    return found
