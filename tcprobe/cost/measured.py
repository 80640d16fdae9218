"""Measured times of products, one row each: `tcprobe calibrate` writes these CSV files and the fit reads them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.cost.alignment import Library
from tcprobe.errors import WrongFormat
from tcprobe.hardware import lookup_gpu
from tcprobe.schema.op import OpRecord, known_size

MEASUREMENT_COLUMNS: Final = (
    "gpu", "library", "op", "pass", "dtype", "m", "n", "k", "batch", "transpose_a", "transpose_b",
    "images", "height", "width", "channels", "filters", "kernel", "stride", "padding", "time_ns", "source",
)  # fmt: skip
LIBRARIES: Final[dict[str, Library]] = {"cublas10": "cublas10", "cublas11": "cublas11", "cublas12": "cublas12"}
CPU: Final = "cpu"  # GPU id in the rows of a dry run
LEAST_NS: Final = 1.0
MOST_NS: Final = 1e15  # of a product; ratios of others may be past what a number holds
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


def record_of(row: Mapping[str, object]) -> OpRecord:
    """Return the op that the columns of a row describe."""
    texts = {name: str(value) for name, value in row.items()}
    if texts["op"] == "gemm":
        m, n, k, batch = (int(texts[name]) for name in _GEMM)
        return gemm_record(m, n, k, texts["dtype"], batch, texts["transpose_a"] == "1", texts["transpose_b"] == "1")
    images, height, width, channels, filters = (int(texts[name]) for name in _CONV)
    kernel, stride = _pair(texts["kernel"]), _pair(texts["stride"])
    padding = texts["padding"] if texts["padding"] in ("SAME", "VALID") else _pair(texts["padding"])
    image = images, height, width, channels
    return conv_record(texts["pass"], texts["dtype"], image, filters, kernel, stride, padding)


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition("x")
    return int(first), int(second)


def measurements_of(text: str, path: Path) -> list[Measurement]:
    """Return the measurements that the text of a CSV holds; errors name `path`.

    Raises:
        WrongFormat: a column is missing or a row is damaged; the message gives its line and column.
    """
    reader = csv.DictReader(io.StringIO(text))
    rows = []
    try:
        if missing := [c for c in MEASUREMENT_COLUMNS if c not in (reader.fieldnames or ())]:
            raise WrongFormat(path, f"line 1: no column {missing[0]!r}: not a CSV of measured products")
        for line in reader:
            if damage := _damage(line):
                raise WrongFormat(path, f"line {reader.line_num}: column {damage}")
            library = LIBRARIES[line["library"]]
            rows.append(Measurement(line["gpu"], library, record_of(line), float(line["time_ns"]), line["source"]))
    except csv.Error as error:
        raise WrongFormat(path, f"line {reader.line_num + 1}: {error}") from None
    return rows


def csv_of(rows: Iterable[dict[str, object]]) -> str:
    """Return rows as CSV text; a column that a row lacks is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, MEASUREMENT_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _damage(line: Mapping[str | None, object]) -> str | None:
    """Return the first damaged column of a row and what is wrong with it."""
    if None in line:
        return f"{MEASUREMENT_COLUMNS[-1]!r} is followed by more values than there are columns"
    for column, fits in {**_ANY, **(_OF_CONV if line["op"] == "conv" else _OF_GEMM)}.items():
        value = line[column]
        if not isinstance(value, str):
            return f"{column!r} is missing: the line ends before it"
        if not fits(value):
            return f"{column!r} is {value!r}"
    return None


def _is_time(text: str) -> bool:
    try:
        return LEAST_NS <= float(text) <= MOST_NS
    except ValueError:
        return False


def _is_size(text: str, least: int = 1) -> bool:
    return re.fullmatch("[0-9]{1,18}", text) is not None and known_size(int(text), least) is not None


def _is_pair(text: str, least: int = 1) -> bool:
    sizes = text.split("x")
    return len(sizes) == 2 and all(_is_size(size, least) for size in sizes)


_ANY: Final[Mapping[str, Callable[[str], bool]]] = {
    "gpu": lambda text: text == CPU or lookup_gpu(text) is not None,
    "dtype": bool,
    "library": LIBRARIES.__contains__,
    "op": ("gemm", "conv").__contains__,
    "pass": _TYPES.__contains__,
    "time_ns": _is_time,
    "source": lambda _: True,
}
"""What the columns of each row hold."""
_OF_GEMM: Final = dict.fromkeys(_GEMM, _is_size)
_OF_CONV: Final[Mapping[str, Callable[[str], bool]]] = {
    **dict.fromkeys(_CONV, _is_size),
    **dict.fromkeys(("kernel", "stride"), _is_pair),
    "padding": lambda text: text in ("SAME", "VALID") or _is_pair(text, 0),
}


def _out(size: int, kernel: int, stride: int, pad: int | None, padding: object) -> int:
    if padding == "SAME":
        return -(-size // stride)
    return (size + 2 * (pad or 0) - kernel) // stride + 1
