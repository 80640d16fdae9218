"""What stays of a count: a table of launches, and Nsight Compute's own CSV without what names the machine."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.gpu.counters.metrics import DURATION
from bench.gpu.counters.ranges import DOMAIN, MEASURE
from bench.gpu.tables import LAUNCHES, write_table
from tcprobe.errors import InputError
from tcprobe.readers.ncu.launches import CountedLaunch, read_launches

MOST_BYTES: Final = 2_000_000
PRIVATE: Final = ("Process ID", "Process Name", "Host Name")
OF_DEVICE: Final = re.compile(r"(?:device__attribute_(?!compute_capability)|nvlink|pcie_|c2clink|numa_)")
"""Columns that say more of the machine than of a launch; some name it."""
EVERYWHERE: Final = "Start/Stop_Range"
_CASE: Final = re.compile(rf'{DOMAIN}:([^:"]+):')


def counted_rows(path: Path) -> int:
    """Return the number of launches in a CSV of Nsight Compute's; 0 where it holds none."""
    try:
        return len(read_launches(path))
    except InputError:
        return 0


def save(folder: Path, exported: Sequence[Path], *, fake: bool) -> int:
    """Write `kernels.csv.gz` and `ncu.csv.gz`, and return the number of launches.

    Args:
        folder: of the unit.
        exported: the CSV with demangled names, and the one with mangled names where there is one.
        fake: no GPU counted; a column of the table says so.
    """
    launches = read_launches(exported[0])
    mangled = [launch.kernel for launch in read_launches(exported[1])] if len(exported) > 1 else []
    if len(mangled) != len(launches):
        mangled = [""] * len(launches)
    rows = list(csv.reader(io.StringIO(exported[0].read_text(encoding="utf-8", errors="replace"), newline="")))
    everywhere = _everywhere(rows, len(launches))
    names = {name for launch in launches for name in launch.metrics if not OF_DEVICE.match(name)}
    metrics = sorted(names - {DURATION})
    columns = (*LAUNCHES, *metrics, *(("fake",) if fake else ()))
    table = [
        {**_row(number, *of), **({"fake": 1} if fake else {})}
        for number, of in enumerate(zip(launches, mangled, everywhere, strict=True))
    ]
    write_table(folder / "kernels.csv.gz", columns, table)
    (folder / "ncu.csv.gz").write_bytes(_packed(rows))
    return len(launches)


def _row(number: int, launch: CountedLaunch, mangled: str, everywhere: str) -> dict[str, object]:
    metrics = {
        name: int(value) if value.is_integer() else value
        for name, (value, _) in launch.metrics.items()
        if not OF_DEVICE.match(name)
    }
    names = [name for domain, name in launch.ranges if domain == DOMAIN] or _CASE.findall(everywhere)
    case = next((name for name in reversed(names) if name != MEASURE), None)
    fixed = (
        case,
        number,
        launch.kernel,
        mangled,
        launch.grid,
        launch.block,
        launch.device,
        metrics.pop(DURATION, None),
    )
    return dict(zip(LAUNCHES, fixed, strict=True)) | metrics


def _everywhere(rows: Sequence[Sequence[str]], launches: int) -> list[str]:
    """Return by launch the ranges of all threads; empty texts where the file does not say."""
    header = next((row for row in rows if "Kernel Name" in row), [])
    place = next((at for at, name in enumerate(header) if EVERYWHERE in name), None)
    if place is None:
        return [""] * launches
    texts = [row[place] for row in rows if len(row) == len(header) and row is not header and row[0].isdigit()]
    return texts if len(texts) == launches else [""] * launches


def _packed(rows: Sequence[list[str]]) -> bytes:
    """Return rows as CSV in gzip without process and host; the last ones go where it would be too large."""
    kept = list(_anonymous(rows))
    while True:
        text = io.StringIO(newline="")
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(kept)
        packed = gzip.compress(text.getvalue().encode("utf-8"), mtime=0)
        if len(packed) <= MOST_BYTES:
            return packed
        kept = kept[: len(kept) // 2]


def _anonymous(rows: Sequence[list[str]]) -> Iterator[list[str]]:
    header: list[str] = []
    for row in rows:
        header = row if "Kernel Name" in row else header
        cells = zip(header, row, strict=False)
        if header and row:
            yield [
                "" if name in PRIVATE and row is not header else cell
                for name, cell in cells
                if not OF_DEVICE.match(name)
            ]
