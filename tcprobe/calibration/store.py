"""Files of calibrated constants: one per GPU, in the user's configuration folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcprobe.calibration.check import Score
from tcprobe.cost.constants import Constants, calibration_folder, load_constants
from tcprobe.errors import OutputError, UnreadableInput
from tcprobe.hardware import lookup_gpu
from tcprobe.jsonfile import read_object

KEY: Final = "calibration"
"""Key in a file for facts besides the constants; the cost model ignores it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The content of a calibration file; None for facts that it does not give.

    Attributes:
        path: the file.
        constants: its constants.
        date: year-month-day of the fit.
        error_pct, shipped_pct: mean absolute error on products not fitted: with these and with the shipped constants.
        rows: number of products fitted.
    """

    path: Path
    constants: Constants
    date: str | None = None
    error_pct: float | None = None
    shipped_pct: float | None = None
    rows: int | None = None


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
