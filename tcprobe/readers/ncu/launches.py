"""The launches in Nsight Compute's CSV, one by one: kernel, configuration, NVTX ranges and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from tcprobe.readers.ncu.refusals import no_launches
from tcprobe.readers.ncu.sheet import PUSH_POP, read_sheet
from tcprobe.schema.columns import Names

Ranges: TypeAlias = tuple[tuple[str, str], ...]
"""Domain and name of NVTX ranges, outermost first."""

Made = TypeVar("Made")
_END: Final = re.compile(r'"(?:\s|$)')
_LAST_FIELDS: Final = 6  # PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg


@dataclass(frozen=True, slots=True)
class CountedLaunch:
    """One launch as profiled.

    Attributes:
        kernel: as the file has it.
        grid, block: x,y,z; empty where the file does not say.
        device: CUDA ordinal.
        capability: compute capability.
        ranges: push/pop ranges of NVTX around the launch, outermost first.
        metrics: by name, value and unit, in base units (ns, byte, hz, %, inst); what is no number is left out.
    """

    kernel: str
    grid: str
    block: str
    device: int | None
    capability: tuple[int, int] | None
    ranges: Ranges
    metrics: Mapping[str, tuple[float, str]]


def read_launches(path: Path) -> list[CountedLaunch]:
    """Read the launches in what `ncu --csv` printed, in the order of the file.

    Reads page raw and page details, of versions since 2019, with or without units scaled, in plain text or gzip, with
    lines of ``==PROF==`` and of the program between.

    Raises:
        InputError: the file cannot be read, is damaged, or holds no launch.
    """
    sheet = read_sheet(path)
    if not sheet.rows:
        raise no_launches(path, sheet.said)
    found: list[dict[str, tuple[float, str]]] = [{} for _ in range(sheet.rows)]
    for name, metric in sheet.metrics.items():
        for row, value in zip(found, metric.values.tolist(), strict=True):
            if value == value:
                row[name] = (value, metric.unit)
    launches = zip(
        sheet.texts("Kernel Name").tolist(),
        sheet.sizes("grid").tolist(),
        sheet.sizes("block").tolist(),
        sheet.devices().tolist(),
        _by_text(sheet.capabilities(), _capability),
        _by_text(sheet.texts(PUSH_POP), _ranges),
        found,
        strict=True,
    )
    return [
        CountedLaunch(
            kernel or "", grid or "", block or "", None if device != device else int(device), able, around or (), values
        )
        for kernel, grid, block, device, able, around, values in launches
    ]


def _by_text(texts: Names, convert: Callable[[str], Made]) -> list[Made | None]:
    """Convert each distinct text once; None where there is none."""
    made = [*map(convert, texts.names), None]
    return [made[at] for at in texts.ids.tolist()]


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _ranges(text: str) -> Ranges:
    """Read ``4711  "domain:name:none:...:none"  "domain:name:..."``; a name may hold colons and quotes."""
    fields = (part.partition('"')[2].partition(":") for part in _END.split(text))
    named = ((domain, rest.rsplit(":", _LAST_FIELDS)) for domain, _, rest in fields)
    return tuple((domain, parts[0]) for domain, parts in named if len(parts) > _LAST_FIELDS)
