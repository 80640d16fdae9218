"""Clocks, power, temperature and throttling of GPU 0, once a second, as `nvidia-smi` says them; nothing is set."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.gpu.day import Day, beside
from bench.gpu.tables import CLOCKS, write_table

FIELDS: Final = ("clocks.current.sm", "clocks.current.memory", "power.draw", "temperature.gpu")
"""What `nvidia-smi` is asked, for the columns between the first and the last."""
THROTTLE: Final = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The same field of newer and of older drivers; one that has neither is sampled without."""
REASONS: Final = {
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}  # fmt: skip
"""Bits of it: NVIDIA Management Library, nvmlClocksEventReasons."""
EVERY_MS: Final = 1000
ANSWER_S: Final = 30.0
STAMP: Final = "%Y/%m/%d %H:%M:%S.%f"


@contextmanager
def sampled(day: Day, folder: Path) -> Iterator[None]:
    """Write ``clocks.csv.gz`` to a folder, of the time that the body takes; none where no GPU is measured."""
    fields = () if day.dry else _fields()
    if not fields:
        yield
        return
    began, said = datetime.now(), folder / "clocks.txt"
    try:
        by_line = (
            ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
        )  # what it has printed is not lost when it is ended
        with beside([*by_line, *_query(fields), "-lms", str(EVERY_MS)], said):
            yield
    finally:
        if rows := rows_of(said.read_text(encoding="utf-8", errors="replace"), fields, began):
            write_table(folder / "clocks.csv.gz", CLOCKS, rows)
        said.unlink()


def rows_of(text: str, fields: Sequence[str], began: datetime) -> list[dict[str, object]]:
    """Return the samples in what `nvidia-smi` printed; what it does not know is missing, a line cut off is left out."""
    rows = []
    for line in text.splitlines():
        values = dict(zip(fields, (value.strip() for value in line.split(",")), strict=False))
        if len(values) < len(fields):
            continue
        try:
            second = (datetime.strptime(values["timestamp"], STAMP) - began).total_seconds()
        except ValueError:
            continue
        row: dict[str, object] = {"second": f"{second:.1f}"}
        row |= {column: _number(values[field]) for field, column in zip(FIELDS, CLOCKS[1:-1], strict=True)}
        rows.append({**row, "throttle": _reasons(values[fields[-1]]) if fields[-1] in THROTTLE else None})
    return rows


def _fields() -> tuple[str, ...]:
    """Return the fields that this driver knows; empty without one."""
    if shutil.which("nvidia-smi") is None:
        return ()
    for last in ([THROTTLE[0]], [THROTTLE[1]], []):
        fields = ("timestamp", *FIELDS, *last)
        try:
            done = subprocess.run(_query(fields), capture_output=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return ()
        if done.returncode == 0:
            return fields
    return ()


def _query(fields: Sequence[str]) -> list[str]:
    return ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]


def _number(text: str) -> str | None:
    return text if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _reasons(text: str) -> str | None:
    """Return the names of the bits that are set, ``none`` without any; None if it is no number."""
    if not re.fullmatch(r"0x[0-9a-fA-F]+", text):
        return None
    bits = int(text, 16)
    named = [name for bit, name in REASONS.items() if bits & bit]
    other = bits & ~sum(REASONS)
    return " ".join([*named, *([hex(other)] if other else [])]) or "none"
