"""The files of calibrations: raw CSVs of measured products, and constants, one file for each GPU of the user's.

A raw CSV is checked line by line. Constants lie in the user's configuration folder.

Check calibrated constants: their error on measurements that were not fitted, against the shipped constants.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.constants import Constants, calibration_folder, load_constants
from tcprobe.cost.measured import CPU, Measurement, measurements_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.works import task_of
from tcprobe.errors import EmptyInput, OutputError, UnreadableInput, UsageError, WrongFormat
from tcprobe.foreign import read_text
from tcprobe.hardware import Gpu, find_gpu, lookup_gpu
from tcprobe.jsonfile import read_object

ALL: Final = "all"
HELD_OUT: Final = 4  # one row in this many is not fitted
FASTER: Final = 1.25  # clocks exceed the boost clock behind a peak by 8 % on an H100, more on boards of other makers


class Score(Struct, frozen=True):
    """The error of constants for one kind of product."""

    kind: str  # ``aligned GEMMs`` and the like, or ``all``
    rows: int  # number of predicted products
    error_pct: float  # mean absolute error of the calibrated constants, in percent of the measured time
    shipped_pct: float  # the same for the shipped constants


def split_rows(rows: Iterable[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Split rows into those to fit and a quarter to test on; a given product is always in the same part."""
    parts: tuple[list[Measurement], list[Measurement]] = ([], [])
    for row in rows:
        record = row.record
        key = repr((record.op_type, record.dtype, record.input_shapes, record.output_shape, record.attributes))
        parts[zlib.crc32(key.encode()) % HELD_OUT == 0].append(row)
    return parts


def scores(rows: Sequence[Measurement], gpu: Gpu, constants: Constants) -> list[Score]:
    """Return the errors by kind of product, ``all`` last; empty if no row can be predicted.

    Kinds count float32 as CUDA cores and tf32 as Tensor Cores.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        target = Target(gpu, row.library, tf32=False, channels_last=True, constants=constants)
        own, shipped = (op_cost(row.record, one) for one in (target, replace(target, constants=None)))
        if own is None or shipped is None:
            continue
        # with the launch that shows in what was measured: none where a CUDA graph is replayed
        off = abs(own.timed_ns / row.time_ns - 1), abs((shipped.ns + own.launch_ns) / row.time_ns - 1)
        found[kind_of_row(row, gpu)].append(off)
        found[ALL].append(off)
    ordered = [*sorted(kind for kind in found if kind != ALL), *([ALL] if found else [])]
    return [_score(kind, found[kind]) for kind in ordered]


def too_fast(rows: Iterable[Measurement], gpu: Gpu) -> list[Measurement]:
    """Return the GEMMs that beat the GPU's peak by more than clocks can explain: their times are not this GPU's.

    Convolutions are left out: Winograd's method multiplies less than their shapes imply.
    """
    tasks = ((row, task_of(row.record, gpu)) for row in rows)
    gemms = ((row, task) for row, task in tasks if task is not None and task.arithmetic == "gemm")
    return [row for row, task in gemms if task.flops > FASTER * task.units.flop_per_s * row.time_ns * 1e-9]


def kind_of_row(row: Measurement, gpu: Gpu) -> str:
    """Return the kind of a row: aligned or unaligned, GEMM or convolution."""
    task = task_of(row.record, gpu)
    if task is None:
        return "others"
    name = "convolutions" if task.arithmetic == "conv" else "GEMMs"
    return f"{'aligned' if task.level is None else 'unaligned'} {name}"


def _score(kind: str, off: Sequence[tuple[float, float]]) -> Score:
    own, shipped = (100 * math.fsum(values) / len(off) for values in zip(*off, strict=True))
    return Score(kind, len(off), own, shipped)


MOST_BYTES: Final = 256 << 20  # some million products; a calibration measures hundreds


def read_raw(path: Path) -> list[Measurement]:
    """Return the products of a raw CSV; there is at least one.

    Raises:
        MissingInput, UnreadableInput, EmptyInput: there is no such file, or it is empty.
        WrongFormat: it is no regular file or no raw CSV; the message names the missing column, or where the damage is.
    """
    try:
        text = read_text(path, MOST_BYTES)
    except UnicodeDecodeError:
        raise WrongFormat(path, "not a text file") from None
    if not text.strip():
        raise EmptyInput(path, "it is empty")
    rows = measurements_of(text, path)
    if not rows:
        raise EmptyInput(path, "it holds no measured products")
    return rows


def gpu_of(rows: list[Measurement], path: Path, target: str | None) -> Gpu:
    """Return the GPU whose rows to fit: the only one in the file, or the one asked for.

    Raises:
        UsageError: there are several GPUs and none was asked for, or no row is of the one asked for.
        WrongFormat: the rows are of a CPU.
    """
    ids = sorted({row.gpu for row in rows} - {CPU})
    if not ids:
        raise WrongFormat(path, "times of a CPU, of a dry run: no GPU's constants follow from them")
    if target is None:
        if len(ids) > 1:
            raise UsageError(f"{path}: measurements of {', '.join(ids)}", "--target-gpu names the one to fit")
        return find_gpu(ids[0])
    gpu = find_gpu(target)
    if gpu.id not in ids:
        raise UsageError(f"{path}: measurements of {', '.join(ids)}, none of {gpu.id}", "leave --target-gpu out")
    return gpu


KEY: Final = "calibration"
"""Key in a file for facts besides the constants; the cost model ignores it."""


class Calibration(Struct, frozen=True):
    """The content of a calibration file; None for facts that it does not give."""

    path: Path  # the file
    constants: Constants  # its constants
    date: str | None = None  # year-month-day of the fit
    # error_pct, shipped_pct: mean absolute error on products not fitted: with these and with the shipped constants.
    error_pct: float | None = None
    shipped_pct: float | None = None
    rows: int | None = None  # number of products fitted


def file_of(gpu_id: str) -> Path:
    """Return the path of a GPU's constants.

    Raises:
        OutputError: this user has no home folder.
    """
    folder = calibration_folder()
    if folder is None:
        raise OutputError("this user has no home folder to keep constants in", "set HOME or XDG_CONFIG_HOME")
    return folder / f"{gpu_id}.json"


def text_of(constants: Constants, total: Score, date: str, rows: int) -> str:
    """Return the text of a calibration file: the constants, and where they come from."""
    body = json.loads(constants.to_json())
    body[KEY] = {
        "date": date,
        "error_pct": round(total.error_pct, 2),
        "shipped_pct": round(total.shipped_pct, 2),
        "tested": total.rows,
        "rows": rows,
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def calibrations() -> list[Calibration]:
    """Return all calibration files of the user, by GPU.

    Raises:
        InputError: a file is damaged or cannot be read.
    """
    folder = calibration_folder()
    try:
        paths = sorted(folder.glob("*.json")) if folder is not None else []
    except OSError as error:
        raise UnreadableInput(str(folder), error.strerror or str(error)) from None
    return [found for path in paths if (found := _read(path)) is not None]


def _read(path: Path) -> Calibration | None:
    """Read a file; None if it is not named after a GPU, so that tcprobe did not write it."""
    gpu = lookup_gpu(path.stem)
    constants = load_constants(gpu, path.parent) if gpu is not None and gpu.id == path.stem else None
    if constants is None:
        return None
    facts = read_object(path).get(KEY)
    facts = facts if isinstance(facts, dict) else {}
    rows = facts.get("rows")
    return Calibration(
        path,
        constants,
        date if re.fullmatch(r"\d{4}-\d\d-\d\d", date := str(facts.get("date"))) else None,
        _number(facts.get("error_pct")),
        _number(facts.get("shipped_pct")),
        rows if isinstance(rows, int) and not isinstance(rows, bool) else None,
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
