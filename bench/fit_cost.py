"""Fit the constants of the cost model to public measurements, and print them as the file that tcprobe ships.

Usage: python bench/fit_cost.py [SAMPLES] > tcprobe/cost/rates.json

SAMPLES is the folder of measured products, `../shared/samples/gemm` beside the checkout by default: NVIDIA
aiconfigurator's parquet files (Apache-2.0; A100, H100, H200, L40S through vLLM) and Baidu DeepBench's CSV files
(Apache-2.0; V100, T4, P100; dimensions of float16 zero-padded to 8 by the benchmark itself). A seeded quarter of the
shapes of the former, and half of the far smaller latter, is fitted; `cost_model.py` tests on the rest. With these files
of aiconfigurator's beside them, Blackwell's GPUs too (`LIMITS_OF`); named as in `PARQUET`, they are its
`systems/data/<system>/gemm/vllm/<version>/gemm_perf.parquet`.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from tcprobe.calibration.store import KEY
from tcprobe.cost.constants import FORMAT, VERSION, Constants, Rate
from tcprobe.cost.fit import START, fit, fit_limits
from tcprobe.cost.measured import Measurement, conv_record, gemm_record
from tcprobe.gemm.alignment import next_size
from tcprobe.hardware import find_gpu
from tcprobe.schema.provenance import Stack, StackKind

DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "samples" / "gemm"
SHIPPED = Path(__file__).resolve().parent.parent / "tcprobe" / "cost" / "rates.json"
SEED = 20261121
TRAIN_PCT = {"parquet": 25, "deepbench": 50}
MOST = 3000  # rows fitted per family: more take long and change nothing
PARQUET = {
    "a100-sxm-80": "a100_sxm__vllm__0.14.0.parquet",
    "h100-sxm": "h100_sxm__vllm__0.24.0.parquet",
    "h200-sxm": "h200_sxm__vllm__0.24.0.parquet",
    "l40s": "l40s__vllm__0.24.0.parquet",
    "b200": "b200_sxm__vllm__0.24.0.parquet",
    "b300": "b300_sxm__vllm__0.24.0.parquet",
    "gb200": "gb200__vllm__0.24.0.parquet",
    "gb300": "gb300__vllm__0.24.0.parquet",
    "rtxpro6000bw-server": "rtx_pro_6000_server__vllm__0.24.0.parquet",
}
LIMITS_OF = {
    **dict.fromkeys(("b200", "b300", "gb200", "gb300"), "h200-sxm"),
    "rtxpro6000bw-server": "l40s",
}
"""Whose constants a GPU takes with one factor per limit fitted; without its file the shipped entry stays."""
DTYPES = {"torch.nn.functional.linear": "bfloat16", "vllm_default": "bfloat16", "CutlassFP8ScaledMMLinearKernel": "fp8"}
DEEPBENCH = {"V100": "v100-sxm2", "T4": "t4", "P100": "p100"}
DEEPBENCH_DTYPES = {"fp32": "float32", "fp16_mixed": "float16"}
ABOUT = "constants of the cost model, each GPU's as a calibration file: printed by bench/fit_cost.py"
SOURCES = {"parquet": "NVIDIA aiconfigurator, vLLM", "deepbench": "Baidu DeepBench, cuDNN 7.6"}
STACKS = {"parquet": Stack("serving", "vLLM"), "deepbench": Stack("benchmark", "DeepBench")}


@dataclass(frozen=True)
class Measured:
    """One measured product, and whether it is fitted or tested."""

    row: Measurement
    origin: str  # parquet, deepbench
    train: bool


def in_train(shape: object, pct: int) -> bool:
    """Say whether a shape is fitted; the answer for a shape never changes."""
    return zlib.crc32(f"{SEED}:{shape}".encode()) % 100 < pct


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
                # y = x[m, k] w[n, k]^T: torch.nn.functional.linear
                record = gemm_record(m, n, k, dtype, transpose_b=True)
                row = Measurement(gpu, "cublas12", record, ms * 1e6, SOURCES["parquet"])
                yield Measured(row, "parquet", in_train((m, n, k), TRAIN_PCT["parquet"]))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            yield from (line for line in csv.DictReader(file) if line["dtype"] in DEEPBENCH_DTYPES)


def _deepbench_gemm(folder: Path) -> Iterator[Measured]:
    for line in _rows(folder / "deepbench_gemm.csv"):
        dtype = DEEPBENCH_DTYPES[line["dtype"]]
        # column-major C[m, n] = A B is row-major C^T[n, m] = B^T A^T
        sizes = [int(line[name]) for name in ("n", "m", "k")]
        if dtype == "float16":
            sizes = [next_size(size, 8) for size in sizes]
        flips = {"transpose_a": line["b_trans"] == "T", "transpose_b": line["a_trans"] == "T"}
        record = gemm_record(*sizes, dtype, **flips)
        row = Measurement(
            DEEPBENCH[line["gpu"]], "cublas10", record, float(line["time_ms"]) * 1e6, SOURCES["deepbench"]
        )
        yield Measured(row, "deepbench", in_train(sizes, TRAIN_PCT["deepbench"]))


def _deepbench_conv(folder: Path) -> Iterator[Measured]:
    for line in _rows(folder / "deepbench_conv.csv"):
        dtype = DEEPBENCH_DTYPES[line["dtype"]]
        get = {name: int(line[name]) for name in line if name not in ("gpu", "dtype", "fwd_algo") and "_ms" not in name}
        channels = next_size(get["c"], 8) if dtype == "float16" else get["c"]
        for pass_, column in (("forward", "fwd_ms"), ("dgrad", "bwd_inputs_ms"), ("wgrad", "bwd_params_ms")):
            if not line[column]:
                continue
            image = (get["n"], get["h"], get["w"], channels)
            kernel, stride = (get["r_filter_h"], get["s_filter_w"]), (get["stride_h"], get["stride_w"])
            padding = (get["pad_h"], get["pad_w"])
            record = conv_record(pass_, dtype, image, get["k"], kernel, stride, padding)
            row = Measurement(
                DEEPBENCH[line["gpu"]], "cublas10", record, float(line[column]) * 1e6, SOURCES["deepbench"]
            )
            yield Measured(row, "deepbench", in_train((image, get["k"], kernel, stride), TRAIN_PCT["deepbench"]))


def thinned(rows: list[Measurement]) -> list[Measurement]:
    """Return at most `MOST` rows of each dtype, spread evenly over a seeded order."""
    order = sorted(rows, key=lambda row: zlib.crc32(repr((SEED, row.record.dtype, row.record.input_shapes)).encode()))
    kept: dict[str | None, int] = {}
    found = []
    for row in order:
        kept[row.record.dtype] = kept.get(row.record.dtype, 0) + 1
        if kept[row.record.dtype] <= MOST:
            found.append(row)
    return found


def rounded(constants: Constants) -> Constants:
    """Return constants rounded to the digits in the file."""
    rates = {family: _rounded(rate) for family, rate in constants.rates.items()}
    conv = {key: tuple(round(v, 3) for v in spread) for key, spread in constants.conv.items()}
    return replace(constants, rates=rates, conv=conv)


def _rounded(rate: Rate) -> Rate:
    names = ("emax", "bwf", "l2_speed", "l2_share", "quantised", "sharp")
    digits = {name: round(getattr(rate, name), 3) for name in names}
    tiles = tuple((rows, columns, round(e, 3)) for rows, columns, e in rate.tiles)
    whole = {name: round(getattr(rate, name)) for name in ("t0_ns", "split_ns", "fill_k", "launch_ns")}
    return replace(rate, **digits, **whole, tiles=tiles, spread=tuple(round(v, 3) for v in rate.spread))


def body_of(constants: Constants, rows: int) -> dict[str, object]:
    """Return constants as an entry of tcprobe/cost/rates.json: a calibration file, and the number of fitted rows."""
    return {"format": FORMAT, "version": VERSION, **asdict(constants), KEY: {"rows": rows}}


def text_of(gpus: list[dict[str, object]]) -> str:
    """Return the text of tcprobe/cost/rates.json, with one innermost list per line."""
    text = json.dumps({"about": ABOUT, "gpus": gpus}, indent=1)
    return re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def shipped_entries(*kinds: StackKind) -> list[dict[str, object]]:
    """Return the entries of tcprobe/cost/rates.json whose stacks are of these kinds."""
    body = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return [gpu for gpu in body["gpus"] if gpu["stack"]["kind"] in kinds]


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    found = samples(folder)
    if not found:
        print(f"no measured products in {folder}: nothing fitted", file=sys.stderr)
        return 2
    fitted: dict[str, Constants] = {}
    gpus = []
    for gpu in (*PARQUET, *DEEPBENCH.values()):
        rows = thinned([m.row for m in found if m.row.gpu == gpu and m.train])
        constants = fitted_to(rows, gpu, fitted)
        if constants is not None:
            fitted[gpu] = rounded(constants)
            gpus.append(body_of(fitted[gpu], len(rows)))
        elif gpu in LIMITS_OF:
            gpus += [entry for entry in shipped_entries("serving") if entry["gpu"] == gpu]
        said = "too few products" if constants is None else f"{len(rows)} products fitted"
        print(f"{gpu}: {said}", file=sys.stderr, flush=True)
    print(text_of([*gpus, *shipped_entries("framework")]), end="")
    return 0


def fitted_to(rows: list[Measurement], gpu: str, fitted: dict[str, Constants]) -> Constants | None:
    """Return constants fitted to a GPU's rows; None with too few. `fitted` are those of the GPUs before."""
    origin = "parquet" if gpu in PARQUET else "deepbench"
    of = fitted.get(LIMITS_OF.get(gpu, ""))
    if gpu in LIMITS_OF:
        source = f"{SOURCES[origin]}; one factor per limit on {LIMITS_OF[gpu]}"
        return fit_limits(rows, find_gpu(gpu), source, of) if of and rows else None
    return fit(rows, find_gpu(gpu), SOURCES[origin], "predicted", start=START, stack=STACKS[origin])


if __name__ == "__main__":
    sys.exit(main())
