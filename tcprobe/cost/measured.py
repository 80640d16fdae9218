"""Measured times of products, one row each: `tcprobe calibrate` writes these CSV files and the fit reads them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.cost.alignment import Library
from tcprobe.errors import WrongFormat
from tcprobe.gemm.conv import CONV_PASSES
from tcprobe.schema.op import OpRecord, known_size

MEASUREMENT_COLUMNS: Final = (
    "gpu", "library", "op", "pass", "dtype", "m", "n", "k", "batch", "transpose_a", "transpose_b",
    "images", "height", "width", "channels", "filters", "kernel", "stride", "padding", "time_ns", "source",
)  # fmt: skip
LIBRARIES: Final[dict[str, Library]] = {"cublas10": "cublas10", "cublas11": "cublas11", "cublas12": "cublas12"}
_TYPES: Final = {"forward": "Conv2D", "dgrad": "Conv2DBackpropInput", "wgrad": "Conv2DBackpropFilter"}
_GEMM: Final = ("m", "n", "k", "batch")
_CONV: Final = ("images", "height", "width", "channels", "filters")


class Measurement(Struct, frozen=True):
    """One measured product."""

    gpu: str  # id of the GPU
    library: Library  # version of cuBLAS, and the cuDNN that came with it
    record: OpRecord  # the op as TensorFlow would record it; convolutions are channels-last
    time_ns: float  # time of one execution
    source: str = ""  # who measured it


def gemm_record(
    m: int, n: int, k: int, dtype: str, batch: int = 1, transpose_a: bool = False, transpose_b: bool = False
) -> OpRecord:
    """Return `batch` products C[m, n] = A[m, k] B[k, n] as an op; sizes are 1 or more."""
    a, b = ((k, m) if transpose_a else (m, k)), ((n, k) if transpose_b else (k, n))
    if batch == 1:
        return OpRecord("MatMul", (a, b), (m, n), {"transpose_a": transpose_a, "transpose_b": transpose_b}, dtype)
    shapes = ((batch, *a), (batch, *b))
    return OpRecord("BatchMatMulV2", shapes, (batch, m, n), {"adj_x": transpose_a, "adj_y": transpose_b}, dtype)


def conv_record(
    pass_: str,
    dtype: str,
    image: tuple[int, int, int, int],
    filters: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: str | tuple[int, int] = "SAME",
) -> OpRecord:
    """Return one pass of a 2D convolution as an op.

    Args:
        pass_: forward, dgrad or wgrad.
        dtype: dtype of image and filters.
        image: images, height, width, channels.
        filters: output channels.
        kernel: height, width of the filter.
        stride: per axis.
        padding: SAME, VALID, or the number of rows and columns added on each side.
    """
    images, channels = image[0], image[3]
    size = zip(image[1:3], kernel, stride, padding if isinstance(padding, tuple) else (None, None), strict=True)
    out = tuple(_out(*axis, padding) for axis in size)
    result, taps = (images, *out, filters), (*kernel, channels, filters)
    name = padding if isinstance(padding, str) else "EXPLICIT"
    attributes = {"data_format": "NHWC", "strides": [1, *stride, 1], "padding": name}
    inputs, output = {
        "forward": ((image, taps), result),
        "dgrad": (((4,), taps, result), image),
        "wgrad": ((image, (4,), result), taps),
    }[pass_]
    return OpRecord(_TYPES[pass_], inputs, output, attributes, dtype, pass_)


def measurements_of(text: str, path: Path) -> list[Measurement]:
    """Return the measurements that the text of a CSV holds; errors name `path`.

    Raises:
        WrongFormat: a column is missing or a row is damaged; the message gives its line.
    """
    reader = csv.DictReader(io.StringIO(text))
    if missing := [c for c in MEASUREMENT_COLUMNS if c not in (reader.fieldnames or ())]:
        raise WrongFormat(path, f"no column {missing[0]!r}: not a CSV of measured products")
    rows = []
    for number, line in enumerate(reader, 2):
        try:
            rows.append(_row(line))
        except (ValueError, KeyError, TypeError) as error:
            raise WrongFormat(path, f"line {number}: {error}") from None
    return rows


def csv_of(rows: Iterable[dict[str, object]]) -> str:
    """Return rows as CSV text; a column that a row lacks is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, MEASUREMENT_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(line: dict[str, str]) -> Measurement:
    time_ns = float(line["time_ns"])
    if not math.isfinite(time_ns) or time_ns <= 0:
        raise ValueError(f"time_ns is {line['time_ns']!r}")
    record = {"gemm": _gemm, "conv": _conv}[line["op"]](line)
    return Measurement(line["gpu"], LIBRARIES[line["library"]], record, time_ns, line["source"])


def _gemm(line: dict[str, str]) -> OpRecord:
    m, n, k, batch = (_size(line, name) for name in _GEMM)
    return gemm_record(m, n, k, line["dtype"], batch, line["transpose_a"] == "1", line["transpose_b"] == "1")


def _conv(line: dict[str, str]) -> OpRecord:
    if line["pass"] not in CONV_PASSES.values():
        raise ValueError(f"pass is {line['pass']!r}")
    images, height, width, channels, filters = (_size(line, name) for name in _CONV)
    padding = line["padding"]
    known = padding if padding in ("SAME", "VALID") else _pair(line, "padding", least=0)
    kernel, stride = _pair(line, "kernel"), _pair(line, "stride")
    return conv_record(line["pass"], line["dtype"], (images, height, width, channels), filters, kernel, stride, known)


def _size(line: dict[str, str], name: str) -> int:
    return _whole(name, line[name])


def _pair(line: dict[str, str], name: str, least: int = 1) -> tuple[int, int]:
    first, _, second = line[name].partition("x")
    return _whole(name, first, least), _whole(name, second, least)


def _whole(name: str, text: str, least: int = 1) -> int:
    size = known_size(int(text), least)
    if size is None:
        raise ValueError(f"{name} is {text}: from {least} to 2**40 are taken")
    return size


def _out(size: int, kernel: int, stride: int, pad: int | None, padding: object) -> int:
    if padding == "SAME":
        return -(-size // stride)
    return (size + 2 * (pad or 0) - kernel) // stride + 1
