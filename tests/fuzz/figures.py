"""What fuzzing has tried so far: `figures.json`, and its table for the documentation."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any, Final

from tcprobe import __version__
from tests.fuzz.runner import Tally
from tests.fuzz.targets import TARGETS

FILE: Final = Path(__file__).parent / "figures.json"


def read() -> dict[str, Any]:
    """Return the figures of each target that has some."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.exists() else {}


def record(target: str, tally: Tally, engine: str) -> None:
    """Add a series of inputs to the figures of a target: counters grow, slowest input and peak are the largest."""
    every = read()
    old: dict[str, Any] = every.get(target, {})
    every[target] = {
        "inputs": old.get("inputs", 0) + tally.inputs,
        "cpu_s": round(old.get("cpu_s", 0) + tally.seconds),
        "classes": sorted({*old.get("classes", ()), *(f.kind for f in tally.findings)}),
        "slowest_s": round(max(old.get("slowest_s", 0), tally.slowest_s), 2),
        "peak_mb": max(old.get("peak_mb", 0), round(tally.peak_bytes / 1e6)),
        "engines": {**old.get("engines", {}), engine: old.get("engines", {}).get(engine, 0) + tally.inputs},
        "last": {"engine": engine, "inputs": tally.inputs, "findings": len({f.kind for f in tally.findings})},
        "tcprobe": __version__,
        "date": str(date.today()),
    }
    FILE.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def section() -> str:
    """Return the table of docs/reliability.md."""
    every = read()
    lines = [
        "| target | inputs | CPU time | classes of findings | slowest input | most memory | last |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, target in TARGETS.items():
        if (f := every.get(name)) is not None:
            last = (
                f"{f['last']['inputs']:,} by {f['last']['engine']}, {f['last']['findings']} found"
                if "last" in f
                else ""
            )
            taken, found = f"{f['cpu_s'] / 60:.0f} min", len(f["classes"])
            lines.append(
                f"| {target.what} (`{name}`) | {f['inputs']:,} | {taken} | {found} | {f['slowest_s']:.1f} s | "
                f"{f['peak_mb']:,} MB | {f['tcprobe']}, {f['date']}{last and ': ' + last} |"
            )
    return "\n".join(lines) + "\n"
