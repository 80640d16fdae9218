"""Read Nsight Compute's own report (``*.ncu-rep``) by NVIDIA's package ncu-report, in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from tcprobe.errors import EmptyInput, ToolError, WrongFormat
from tcprobe.foreign import opened, read_text, real_path
from tcprobe.readers.ncu.lines import base_unit
from tcprobe.readers.ncu.sheet import GPU_NAME, WHO, Metric, Sheet
from tcprobe.schema.columns import Names

MOST_BYTES: Final = 2 << 30
MOST_TEXT: Final = 4 << 30
LONGEST_S: Final = 600.0
_DEVICE: Final = "launch__device_id"
_UNPACK: Final = Path(__file__).with_name("unpack.py")


def reads_reports() -> bool:
    """Whether NVIDIA's package is there (extra ``ncu``)."""
    return find_spec("ncu_report") is not None


def read_report(path: Path) -> Sheet:
    """Read a report as a sheet; each value as page raw has it.

    Raises:
        InputError: the file cannot be read, is damaged, or holds no launch.
    """
    from tcprobe.bypath import run_to_end, scratch_folder

    with opened(path, MOST_BYTES):
        pass
    with scratch_folder("tcprobe-ncu-") as folder:
        out, log = folder / "launches", folder / "log"
        command = (sys.executable, str(_UNPACK), str(real_path(path)), str(out))
        try:
            status = run_to_end(command, os.environ, log, log, LONGEST_S)
        except ToolError as error:
            raise WrongFormat(path, f"is not read by ncu-report: {error.message}", _export(path)) from error
        if status != 0:
            said = read_text(log, MOST_BYTES).strip().rpartition("\n")[2][:200] or f"it ended with {status}"
            raise WrongFormat(path, f"is not read by ncu-report: {said}", _export(path))
        launches = [json.loads(line) for line in read_text(out, MOST_TEXT).splitlines()]
    if not launches:
        raise EmptyInput(
            path, "holds no launch that ncu-report reads: it is damaged, or none was profiled", _export(path)
        )
    return _sheet(launches)


def _export(path: Path) -> str:
    return f"record again, or export it: ncu --import {path.name} --csv --page raw > {path.stem}.csv"


def _sheet(launches: list[Any]) -> Sheet:
    texts = [{**who, "Device": _ordinal(metrics)} for who, metrics in launches]
    who = {name: Names.of([one.get(name) for one in texts]) for name in (*WHO, GPU_NAME)}
    metrics: dict[str, Metric] = {}
    for name in dict.fromkeys(name for _, found in launches for name in found):
        units = [found[name][1] for _, found in launches if name in found]
        factor, unit = base_unit(units[0])
        values = [found[name][0] if name in found and found[name][1] == units[0] else np.nan for _, found in launches]
        metrics[name] = Metric(np.array(values, np.float64) * factor, unit)
    return Sheet(who, metrics, (), len(launches))


def _ordinal(metrics: dict[str, Any]) -> str | None:
    return str(int(metrics[_DEVICE][0])) if _DEVICE in metrics else None
