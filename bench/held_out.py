"""Read measured products that no constant was fitted to, for `cost_model.py`: unaligned ones, other versions, others'.

- `unaligned`: `pad_mm_a100_data.zip`, `a100_mm.zip` and `h100_mm.zip` of github.com/AlnisM/autoheuristic-datasets (no
  licence: read where they are, never copied): PyTorch's cuBLAS, called between two events. Of these products only the
  rates in `tcprobe.cost.alignment` were taken; `fit_framework.py` fits aligned ones of the last two, left out here.
- `others`: folders of systems in `aic-core/src/aiconfigurator_core/systems/data` of github.com/ai-dynamo/aiconfigurator
  (Apache-2.0): all versions and serving stacks, of each about `MOST` products. A fitted shape is left out in all.
- `convolutions`: NeuSight's timings (see `fit_winograd.py`), the shapes that were not fitted.
"""

from __future__ import annotations

import csv
import io
import statistics
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fit_winograd
from fit_cost import TRAIN_PCT, Measured, in_train

from tcprobe.cost.alignment import SMALL, is_nt, level_of
from tcprobe.cost.measured import Measurement, conv_record, gemm_record
from tcprobe.gemm.ops import gemms_of
from tcprobe.schema.op import OpRecord

MOST = 2000  # products of one set; more take long and change nothing
LEAST = 1024  # smallest dimension of a large product
PADDED = "pad_mm_a100_data.zip"
TIMED = {"a100-sxm-80": "a100_mm.zip", "h100-sxm-96": "h100_mm.zip"}
DTYPES = {"torch.float16": "float16", "torch.bfloat16": "bfloat16"}
SYSTEMS = {
    "a100_sxm": "a100-sxm-80", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200", "b300_sxm": "b300",
    "gb200": "gb200", "gb300": "gb300", "l40s": "l40s", "rtx_pro_6000_server": "rtxpro6000bw-server",
}  # fmt: skip
OTHERS = {"bfloat16": "bfloat16", "fp8": "float8_e4m3fn"}
STRIDES = ("mat1_stride_0", "mat1_stride_1", "mat2_stride_0", "mat2_stride_1")
Lines = dict[str, list[Measured]]


def unaligned(folder: Path) -> Lines:
    """Return unaligned products by class; float32 on CUDA cores beside them, which alignment does not slow down."""
    found: Lines = defaultdict(list)
    if (folder / PADDED).is_file():
        for row in _timed(folder / PADDED, "orig", "a100-sxm-80"):
            for name in _classes(row.record):
                found[f"A100 PyTorch {name}"].append(Measured(row, "framework", False))
    for gpu, name in TIMED.items():
        if (folder / name).is_file():
            for row in _timed(folder / name, "extern_mm", gpu):
                if row.record.dtype != "float32" and _level(row.record) is not None:
                    found[f"{gpu} PyTorch small unaligned"].append(Measured(row, "framework", False))
    return found


def paddings(folder: Path) -> list[tuple[Measurement, float]]:
    """Return unaligned 16-bit products of an A100, and how long each took padded, copies included."""
    if not (folder / PADDED).is_file():
        return []
    padded = {_key(row.record): row.time_ns for row in _timed(folder / PADDED, "pad", "a100-sxm-80")}
    rows = (row for row in _timed(folder / PADDED, "orig", "a100-sxm-80") if _family(row.record) == "tc16")
    both = ((row, padded.get(_key(row.record))) for row in rows if _level(row.record) is not None)
    return [(row, time) for row, time in both if time is not None]  # a few were not timed padded


def others(folder: Path) -> Lines:
    """Return products of aiconfigurator by GPU, stack, version and dtype."""
    import pandas as pd

    found: Lines = {}
    for path in sorted(folder.glob("*/gemm/*/*/gemm_perf.parquet")):
        system, stack, version = path.parts[-5], path.parts[-3], path.parts[-2]
        if system not in SYSTEMS:
            continue
        table = pd.read_parquet(path, columns=["gemm_dtype", "m", "n", "k", "latency"])
        for name, dtype in OTHERS.items():
            lines = table[table["gemm_dtype"] == name][["m", "n", "k", "latency"]].itertuples(index=False)
            left = [line for line in lines if all(line) and not in_train(tuple(line[:3]), TRAIN_PCT["parquet"])]
            some = left[:: max(1, len(left) // MOST)]
            if some:
                rows = [
                    Measured(_linear(SYSTEMS[system], *line[:3], dtype, line[3]), "parquet", False) for line in some
                ]
                found[f"{SYSTEMS[system]} {stack} {version} {dtype}"] = rows
    return found


def convolutions(folder: Path) -> Lines:
    """Return float32 convolutions of 3x3 by GPU."""
    found: Lines = defaultdict(list)
    for gpu, name in fit_winograd.FILES.items():
        if not (folder / name).is_file():
            continue
        with (folder / name).open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                images, side, channels, filters = (
                    int(line[column]) for column in ("B", "Input_Size", "Input_Channel", "Output_Channel")
                )
                if in_train((images, side, channels, filters), fit_winograd.TRAIN_PCT):
                    continue
                record = conv_record(
                    "forward", "float32", (images, side, side, channels), filters, (3, 3), (1, 1), (1, 1)
                )
                row = Measurement(gpu, "cublas12", record, float(line["Latency"]) * 1e6, "NeuSight")
                found[f"{gpu} conv 3x3 float32"].append(Measured(row, "kernels", False))
    return found


def _linear(gpu: str, m: int, n: int, k: int, dtype: str, ms: float) -> Measurement:
    return Measurement(gpu, "cublas12", gemm_record(m, n, k, dtype, transpose_b=True), ms * 1e6, "aiconfigurator")


def _timed(path: Path, choice: str, gpu: str) -> Iterator[Measurement]:
    """Yield each product timed in one way, the median of its timings; parts of larger tensors are left out."""
    import pandas as pd

    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    columns = ["m", "n", "k", "mat1_dtype", *STRIDES, "using_tf32"]
    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".txt")):
            table = pd.read_csv(io.BytesIO(archive.read(name)), skiprows=1, low_memory=False)
            chosen = table[table["choice"] == choice]
            for line in chosen[[*columns, "feedback"]].to_numpy().tolist():
                times[tuple(str(value) for value in line[:-1])].append(float(line[-1]) * 1e6)
    for (m, n, k, dtype, *strides, tf32), found in times.items():
        record = _record(int(m), int(n), int(k), _dtype(dtype, tf32), [int(s) for s in strides])
        if record is not None:
            yield Measurement(gpu, "cublas12", record, statistics.median(found), "autoheuristic-datasets")


def _dtype(dtype: str, tf32: str) -> str:
    return DTYPES.get(dtype) or ("tf32" if tf32 == "True" else "float32")


def _record(m: int, n: int, k: int, dtype: str, strides: list[int]) -> OpRecord | None:
    """Return a product whose operands are contiguous; None if one is not."""
    first, second = ((strides[0], strides[1]), (k, m)), ((strides[2], strides[3]), (n, k))
    flips = []
    for (down, right), (columns, rows) in (first, second):
        if (down, right) == (columns, 1):
            flips.append(False)
        elif (down, right) == (1, rows):
            flips.append(True)
        else:
            return None
    return gemm_record(m, n, k, dtype, transpose_a=flips[0], transpose_b=flips[1])


def _key(record: OpRecord) -> str:
    return repr((record.dtype, record.input_shapes, record.output_shape, record.attributes))


def _family(record: OpRecord) -> str:
    return {"float32": "fp32", "tf32": "tf32"}.get(record.dtype or "", "tc16")


def _level(record: OpRecord) -> str | None:
    family = "tf32" if _family(record) == "tf32" else "tc16"
    return level_of([c.size for c in gemms_of(record)[0].contiguous], family)  # type: ignore[arg-type]


def _classes(record: OpRecord) -> Iterator[str]:
    """Yield the classes of a product of the set on padding."""
    (gemm,) = gemms_of(record)
    least, level = min(gemm.m or 0, gemm.n or 0, gemm.k or 0), _level(record)
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
            yield f"16-bit unaligned, {'NT' if is_nt(gemm.contiguous) else 'other layouts'}, {level}"
            yield f"16-bit unaligned, all of {LEAST} and more"
