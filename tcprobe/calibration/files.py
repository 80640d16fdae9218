"""The files of calibrations: raw CSVs of measured products, and constants, one file for each GPU of the user's.

A raw CSV is checked line by line. Constants lie in the user's configuration folder.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.calibration.check import Score
from tcprobe.calibration.plan import CPU
from tcprobe.cost.constants import Constants, calibration_folder, load_constants
from tcprobe.cost.measured import LIBRARIES, MEASUREMENT_COLUMNS, Measurement, measurements_of
from tcprobe.errors import EmptyInput, OutputError, UnreadableInput, UsageError, WrongFormat
from tcprobe.foreign import read_text
from tcprobe.gemm.conv import CONV_PASSES
from tcprobe.hardware import Gpu, find_gpu, lookup_gpu
from tcprobe.jsonfile import read_object

MOST_BYTES: Final = 256 << 20  # some million products; a calibration measures hundreds
LEAST_NS: Final = 1.0
MOST_NS: Final = 1e15  # of a product; ratios of others may be past what a number holds


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
    for column, fitting in {**_ANY, **(_CONV if line["op"] == "conv" else _GEMM)}.items():
        value = line[column]
        if not isinstance(value, str):
            return column, "is missing: the line ends before it"
        if not (re.fullmatch(fitting, value) if isinstance(fitting, str) else fitting(value)):
            return column, f"is {value!r}"
    return None


def _is_gpu(text: str) -> bool:
    return text == CPU or lookup_gpu(text) is not None


def _is_time(text: str) -> bool:
    try:
        return LEAST_NS <= float(text) <= MOST_NS
    except ValueError:
        return False


_SIZE: Final = "0*[1-9][0-9]{0,17}"
_ANY: Final[Mapping[str, str | Callable[[str], bool]]] = {
    "gpu": _is_gpu,
    "dtype": bool,
    "library": "|".join(LIBRARIES),
    "op": "gemm|conv",
    "pass": "|".join(CONV_PASSES.values()),
    "time_ns": _is_time,
    "source": "(?s:.*)",
}
"""What the columns of each row hold: a regular expression, or what says whether a text fits."""
_GEMM: Final = dict.fromkeys(("m", "n", "k", "batch"), _SIZE)
_CONV: Final = {
    **dict.fromkeys(("images", "height", "width", "channels", "filters"), _SIZE),
    **dict.fromkeys(("kernel", "stride"), f"{_SIZE}x{_SIZE}"),
    "padding": "SAME|VALID|[0-9]{1,18}x[0-9]{1,18}",
}


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
