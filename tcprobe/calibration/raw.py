"""Read raw CSVs of measured products: check them line by line, and find the GPU whose rows they hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tcprobe.calibration.plan import CPU
from tcprobe.cost.measured import LIBRARIES, MEASUREMENT_COLUMNS, Measurement, measurements_of
from tcprobe.errors import EmptyInput, UsageError, WrongFormat
from tcprobe.foreign import read_text
from tcprobe.gemm.conv import CONV_PASSES
from tcprobe.hardware import Gpu, find_gpu, lookup_gpu
from tcprobe.jsonfile import whole

MOST_BYTES: Final = 256 << 20  # some million products; a calibration measures hundreds
LEAST_NS: Final = 1.0
MOST_NS: Final = 1e15  # of a product; ratios of others may be past what a number holds
_GEMM: Final = ("m", "n", "k", "batch")
_CONV: Final = ("images", "height", "width", "channels", "filters", "kernel", "stride", "padding")


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
    _check(path, text)
    rows = measurements_of(text, path)
    if not rows:
        raise EmptyInput(path, "it holds no measured products")
    return rows


def _check(path: Path, text: str) -> None:
    reader = csv.DictReader(io.StringIO(text))
    try:
        for column in MEASUREMENT_COLUMNS:
            if column not in (reader.fieldnames or ()):
                raise WrongFormat(path, f"line 1: no column {column!r}: not a CSV of measured products")
        for line in reader:
            found = _damage(line)
            if found is not None:
                column, what = found
                raise WrongFormat(path, f"line {reader.line_num}: column {column!r} {what}")
    except csv.Error as error:
        raise WrongFormat(path, f"line {reader.line_num + 1}: {error}") from None


def _damage(line: Mapping[str | None, object]) -> tuple[str, str] | None:
    """Return the first damaged column of a row and its text."""
    if None in line:
        return MEASUREMENT_COLUMNS[-1], "is followed by more values than there are columns"
    columns = ["gpu", "dtype", "library", "op", "pass", "time_ns", "source"]
    columns += _CONV if line["op"] == "conv" else _GEMM
    for column in columns:
        value = line[column]
        if not isinstance(value, str):
            return column, "is missing: the line ends before it"
        if not _fits(column, value):
            return column, f"is {value!r}"
    return None


def _fits(column: str, value: str) -> bool:
    known: Mapping[str, Callable[[str], bool]] = {
        "gpu": lambda text: text == CPU or lookup_gpu(text) is not None,
        "dtype": bool,
        "source": lambda _: True,
        "library": lambda text: text in LIBRARIES,
        "op": lambda text: text in ("gemm", "conv"),
        "pass": lambda text: text in CONV_PASSES.values(),
        "time_ns": _is_time,
        "kernel": lambda text: _is_pair(text, 1),
        "stride": lambda text: _is_pair(text, 1),
        "padding": lambda text: text in ("SAME", "VALID") or _is_pair(text, 0),
    }
    fits = known.get(column)
    return _is_whole(value, 1) if fits is None else fits(value)


def _is_whole(text: str, least: int) -> bool:
    return (number := whole(text)) is not None and number >= least


def _is_pair(text: str, least: int) -> bool:
    first, _, second = text.partition("x")
    return _is_whole(first, least) and _is_whole(second, least)


def _is_time(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return LEAST_NS <= value <= MOST_NS


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
