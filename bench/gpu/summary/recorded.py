"""What was recorded and what was not, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.gpu.parts import PARTS
from bench.gpu.summary.markdown import table
from bench.gpu.summary.section import About, Data
from tcprobe.jsonfile import read_object

TITLE = "Recorded"


def make(about: About) -> Data:
    """Return the units of each part, and provenance."""
    units = [_unit(part.NAME, place) for part in PARTS for place in _places(about, part.NAME)]
    killed = sorted(place.name for place in about.folder.glob("killed/*"))
    return {"provenance": dict(about.provenance), "units": units, "killed": killed}


def _places(about: About, part: str) -> list[Any]:
    return sorted(p for p in about.folder.glob(f"{part}/*") if p.is_dir() and not p.name.startswith("."))


def _unit(part: str, place: Any) -> Data:
    told = read_object(place / "unit.json")
    if not isinstance(told.get("status"), str):
        told = {"status": "failed", "reason": "its unit.json is missing or damaged"}
    return {"part": part, "unit": place.name, **told}


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield provenance, a line for each part, and what was not recorded with its remedy."""
    yield from _provenance(data["provenance"])
    yield ""
    rows = []
    for part in PARTS:
        units = [u for u in data["units"] if u["part"] == part.NAME]
        done = [u for u in units if u["status"] == "done"]
        took = sum(u.get("seconds") or 0.0 for u in units)
        rows.append((part.NAME, part.WHAT, len(done), len(units) - len(done), f"{took:.0f}"))
    yield from table(("part", "what", "#recorded", "#not recorded", "#s"), rows)
    yield from table(("not recorded", "", "", "why", "remedy"), _not_done(data["units"]))
    if data["killed"]:
        yield f"Cut off, kept apart in `killed/` and not counted: {', '.join(data['killed'])}."


def _not_done(units: list[Data]) -> Iterator[tuple[object, ...]]:
    """Yield part, units, status, reason and remedy; units of one reason together."""
    found: dict[tuple[object, ...], list[str]] = {}
    for unit in units:
        if unit["status"] != "done":
            why = (unit["part"], unit["status"], unit.get("reason"), unit.get("remedy"))
            found.setdefault(why, []).append(unit["unit"])
    for (part, *reasons), names in found.items():
        yield part, ", ".join(names), *reasons


def _provenance(told: Data) -> Iterator[str]:
    if not told:
        yield "Where this comes from is not known: provenance.json is missing or damaged."
        return
    smi = told.get("nvidia_smi", {})
    board = ", ".join(
        f"{word} {smi[field]}"
        for field, word in (("driver_version", "driver"), ("compute_cap", "compute capability"), ("power.limit", ""))
        if smi.get(field)
    )
    known = f" (`{told['gpu']}`)" if told.get("gpu") else ""
    more = f"; {told['gpus']} GPUs in all" if told.get("gpus", 0) > 1 else ""
    yield f"- GPU: {smi.get('name', 'none')}{known}{', ' + board if board else ''}{more}"
    for name, found in told.get("frameworks", {}).items():
        libraries = ", ".join(f"{n} {v}" for n, v in found["libraries"].items())
        yield f"- {name} {found['version']}, Python {found['python']}{': ' + libraries if libraries else ''}"
    yield f"- Nsight Compute {told.get('ncu') or 'none'}, Nsight Systems {told.get('nsys') or 'none'}"
    changed = ", changed since" if told.get("changed") else ""
    yield f"- tcprobe {told.get('tcprobe')}, commit {told.get('commit')}{changed}"
    yield f"- {told.get('date')}, calls: {len(told.get('calls', []))}; {told.get('cpu')}, {told.get('system')}"
