"""Keep of a run folder what is small and says nothing of where it was recorded."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import LOG, ROOT, NotRecorded
from bench.gpu.private import cleaned_trace
from bench.gpu.runs.clean import Cleaner, cleaned, cleaned_report, cleaner, without_names
from bench.gpu.tables import write_table

TRACE_BYTES: Final = 2_000_000
GRAPH_BYTES: Final = 200_000
LONGEST: Final = 300  # characters of a line


def keep_run(scratch: Path, place: Path, prefix: Path, raw: bool = False) -> dict[str, Any]:
    """Keep report, run.json, steps and graph of ``scratch/run``; with `raw` its trace too, where it is small.

    Args:
        scratch: holds the run folder and report.json.
        place: where to keep them.
        prefix: of the interpreter's installation.

    Returns:
        run.json.

    Raises:
        NotRecorded: nothing was started.
    """
    folder, clean = scratch / "run", cleaner(scratch, prefix)
    try:
        record: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except OSError:
        raise NotRecorded(f"tcprobe profile left no run folder: {why(place / LOG)}") from None
    written = json.dumps(cleaned(record, without_names(clean)), indent=1)
    (place / "run.json").write_text(written + "\n", encoding="utf-8")
    if (report := scratch / "report.json").exists():
        told = cleaned_report(json.loads(report.read_text(encoding="utf-8")), clean)
        _pack(place / "report.json.gz", json.dumps(told, separators=(",", ":")).encode())
    _keep_probe(folder / "probe", place, clean)
    if raw:
        _keep_trace(folder / "raw", place, scratch, prefix)
    return record


def _keep_probe(probe: Path, place: Path, clean: Cleaner) -> None:
    if (steps := probe / "steps.csv").exists():
        with steps.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            write_table(place / "steps.csv.gz", tuple(rows.fieldnames or ()), rows)
    if (graph := probe / "graph.json").exists():
        told = cleaned(json.loads(graph.read_text(encoding="utf-8")), clean)
        _pack(place / "graph.json.gz", json.dumps(told, separators=(",", ":")).encode(), GRAPH_BYTES)


def _keep_trace(raw: Path, place: Path, *places: Path) -> None:
    """Keep the only trace of a run; of several none is the run's."""
    found = list(raw.rglob("*.xplane.pb"))
    if len(found) == 1:
        _pack(place / "trace.xplane.pb.gz", cleaned_trace(found[0].read_bytes(), ROOT, *places), TRACE_BYTES)


def _pack(path: Path, content: bytes, most: int | None = None) -> None:
    """Write `content` in gzip, unless it takes more than `most` bytes there."""
    packed = gzip.compress(content, mtime=0)
    if most is None or len(packed) <= most:
        path.write_bytes(packed)


def complaints(log: Path) -> list[str]:
    """Return what tcprobe says went wrong, and what to do; without paths."""
    return _lines(log, lambda line: line.startswith(("tcprobe: error:", "hint:")))


def why(log: Path) -> str:
    """Return what tcprobe says went wrong, else the last line of the workload's; without paths."""
    own = _lines(log, lambda line: bool(line.strip()) and not line.startswith("tcprobe: "))
    return " ".join(complaints(log) or own[-1:]) or "it does not say why"


def _lines(log: Path, wanted: Callable[[str], bool]) -> list[str]:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    clean = without_names(cleaner())
    return [clean(line.strip())[:LONGEST] for line in lines if wanted(line)]
