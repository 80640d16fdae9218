"""What keeps a folder of results from standing among bench/gpu/results: a problem each, with what it was found in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench.gpu.day import LOG
from bench.gpu.summary.section import Data
from bench.gpu.summary.whole import DATA, FAILED, PAGE, SECTIONS, key, page, summarise
from bench.gpu.tables import FAKE, missing
from tcprobe.jsonfile import read_object

Kind = Literal[
    "provenance", "rehearsal", "name", "size", "leftover", "private", "table", "contradiction", "precision", "summary"
]
MOST_BYTES: Final = 8 << 20
MOST_TRACE_BYTES: Final = 2 << 20
FOREIGN: Final = frozenset({"ncu.csv.gz", "steps.csv.gz"})
"""Tables as Nsight Compute and run folders have them."""
OURS: Final = (".csv.gz", ".json", ".md")
"""Endings of what is no raw trace."""
_HOMES: Final = r"home|root|Users|mnt|data|scratch|work|workspace|content|srv|nfs|lustre|gpfs|export|media|tmp|var"
_PATH: Final = re.compile(rf"(?<![\w.)\]/-])/(?:{_HOMES})/[\w.-]+|(?<![A-Za-z])[A-Z]:\\+Users\\+\w+")
_PATH_IN_BYTES: Final = re.compile(rf"/(?:{_HOMES})/[\w.-]+/[\w.-]+")  # a length, which may be a letter, stands before
_IDENTITY: Final = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-")


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a folder cannot stand among the results.

    Attributes:
        kind: what it is about.
        text: what was found, where, and what is expected.
    """

    kind: Kind
    text: str


def place_of(folder: Path) -> str | None:
    """Return the name under which a folder stands among the results, GPU-DATE; None where it does not tell it."""
    told = read_object(folder / "provenance.json")
    return f"{told['gpu']}-{told['date']}" if told.get("gpu") and told.get("date") else None


def problems(folder: Path, own: Iterable[str] = ()) -> Iterator[Problem]:
    """Yield what keeps a folder from being committed; nothing if it may be.

    Args:
        folder: of results.
        own: words that only the machine knows to be private: its name, its user's.
    """
    yield from _provenance(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    yield from _sizes(folder, files)
    private = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in own) or r"(?!)")
    for path in files:
        yield from _file(path, str(path.relative_to(folder)), private)
    yield from _summary(folder)


def _provenance(folder: Path) -> Iterator[Problem]:
    told = read_object(folder / "provenance.json")
    if not told:
        yield Problem("provenance", "provenance.json is missing or damaged")
        return
    if told.get("dry_run") is not False:
        yield Problem("rehearsal", "it is a rehearsal: provenance.json says dry_run")
    if (expected := place_of(folder)) is None:
        yield Problem(
            "provenance", f"no GPU of gpus.csv: nvidia-smi calls it {told.get('nvidia_smi', {}).get('name')!r}"
        )
    elif (name := folder.resolve().name) != expected:
        yield Problem("name", f"the folder's name is {name}, not {expected}")


def _sizes(folder: Path, files: list[Path]) -> Iterator[Problem]:
    total = sum(path.stat().st_size for path in files)
    if total > MOST_BYTES:
        yield Problem("size", f"{total / 2**20:.1f} MB in all, more than {MOST_BYTES >> 20}")
    for path in files:
        if not path.name.endswith(OURS) and (size := path.stat().st_size) > MOST_TRACE_BYTES:
            where = path.relative_to(folder)
            yield Problem("size", f"{where}: {size / 2**20:.1f} MB, more than {MOST_TRACE_BYTES >> 20}")


def _file(path: Path, where: str, private: re.Pattern[str]) -> Iterator[Problem]:
    parts = Path(where).parts
    if parts[0] == "killed" or path.name == LOG or any(part.startswith(".") for part in parts):
        yield Problem("leftover", f"{where}: cut off, or a log; it is no result")
        return
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.name.endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        yield Problem("table", f"{where}: {error}")
        return
    yield from _private(data, where, private)
    yield from _columns(data, path.name, where)


def _private(data: bytes, where: str, private: re.Pattern[str]) -> Iterator[Problem]:
    text = data.decode("utf-8", errors="replace")
    for pattern in (_PATH_IN_BYTES if b"\0" in data else _PATH, _IDENTITY, private):
        if found := pattern.search(text):
            yield Problem("private", f"{where}: {found[0]!r}")


def _columns(data: bytes, name: str, where: str) -> Iterator[Problem]:
    if name.endswith(".csv.gz") and name not in FOREIGN:
        header = next(csv.reader(io.StringIO(data.decode("utf-8", errors="replace"))), [])
        if FAKE in header:
            yield Problem("rehearsal", f"{where}: fake counters")
        lacks = missing(name, header)
        if lacks is None:
            yield Problem("table", f"{where}: bench/gpu/tables.py does not describe {name}")
        elif lacks:
            yield Problem("table", f"{where}: no {', '.join(sorted(lacks))}")
    elif name.endswith((".json", ".json.gz")):
        try:
            json.loads(data)
        except ValueError as error:
            yield Problem("table", f"{where}: {error}")


def _summary(folder: Path) -> Iterator[Problem]:
    data = summarise(folder)
    for section in SECTIONS:
        if why := data[key(section)].get(FAILED):
            yield Problem("summary", f"{section.TITLE}: {why}")
    yield from _contradictions(data["classification"])
    written = folder / PAGE
    if not written.exists() or written.read_text(encoding="utf-8") != page(data) or read_object(folder / DATA) != data:
        yield Problem("summary", "summary.md or summary.json is stale: python -m bench.gpu.summary DIR makes them anew")


def _contradictions(found: Data) -> Iterator[Problem]:
    for one in found.get("damaged", []):
        yield Problem("table", f"{one['source']}: {one['reason']}")
    for kernel in found.get("contradictions", []):
        name, counted = kernel["by_name"], kernel["counted"]
        says = f"{name['uses_tc']} ({name['evidence']}), counters {counted['uses_tc']} ({counted['evidence']})"
        yield Problem("contradiction", f"{kernel['source']} {kernel['case']}: {kernel['kernel']}: its name says {says}")
    for kernel in found.get("precision_contradictions", []):
        says = f"its name says {kernel['by_name']['precision']}, it multiplies {kernel['expected']}"
        yield Problem("precision", f"{kernel['source']} {kernel['case']}: {kernel['kernel']}: {says}")
