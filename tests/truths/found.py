"""What a run folder says of a run, in the terms of `truth`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Made:
    """The products that an op makes in a step.

    Attributes:
        layer: ``-`` for none.
        kind: pass.
        count: executions in a step; None where unknown.
        flops: of one execution; None where unknown.
        executes: yes, no, unknown.
        source, called_from: ``FILE:LINE``, empty where unknown.
    """

    layer: str
    kind: str
    count: float | None
    flops: int | None
    executes: str
    source: str
    called_from: str


class Said(NamedTuple):
    """A note: its code, its message, and whether it is a note, a warning or an error."""

    code: str
    message: str
    level: str


@dataclass(frozen=True, slots=True)
class Found:
    """What tcprobe says.

    Attributes:
        tensorflow, keras: versions.
        steps: number of steps; None where unknown.
        phases: steps of each phase; None where the run folder knows no phases.
        flops_of_phases: FLOPs of a step of each phase, as the report says.
        window: first and last step profiled.
        counted: steps that count, where the profile marks any.
        flops: of a step, or the least that they are.
        range: of the steps with least and with most, where that is said.
        bound: that figure is said to be a lower bound.
        made: products, those that do not execute left out.
        layers: names in the table of layers.
        notes: of the run and of the report.
        reasons: of figures that are not known.
    """

    tensorflow: str
    keras: str
    steps: int | None
    phases: tuple[int, ...] | None
    flops_of_phases: dict[int, int]
    window: tuple[int, int] | None
    flops: int | None
    bound: bool
    made: tuple[Made, ...]
    layers: frozenset[str]
    notes: tuple[Said, ...]
    reasons: tuple[str, ...]
    counted: tuple[int, ...] = ()
    range: tuple[float, float] | None = None


def read_found(folder: Path, notes: Iterable[Said] = ()) -> Found:
    """Read a run folder whose tables are written.

    Args:
        folder: the run folder.
        notes: what the report says beyond run.json.
    """
    run, probe = _json(folder / "run.json"), _json(folder / "probe/probe.json")
    summary = {row["metric"]: row for row in _rows(folder, "summary")}
    flops = summary.get("flops_per_step", {})
    window = probe.get("window")
    phases = _rows(folder, "phases")
    said = (Said(n["code"], n["message"], n["level"]) for n in [*run.get("notes", ()), *probe.get("notes", ())])
    return Found(
        tensorflow=str(probe.get("tensorflow") or run.get("tensorflow")),
        keras=str(probe.get("keras") or run.get("keras")),
        steps=probe.get("steps", {}).get("count"),
        phases=tuple(int(row["steps"]) for row in phases) or None,
        flops_of_phases={int(r["phase"]): round(float(f)) for r in phases if (f := _flops_of(r))},
        window=(window["first_step"], window["last_step"]) if window else None,
        flops=round(float(known)) if (known := flops.get("value") or flops.get("low")) else None,
        bound=_is_bound(folder, flops),
        made=tuple(_made(folder)),
        layers=frozenset(row["layer"] for row in _rows(folder, "layers")) - {"(no layer)"},
        notes=tuple(dict.fromkeys((*said, *notes))),
        reasons=tuple(row["reason"] for row in summary.values() if row["reason"]),
        counted=tuple(
            int(row["iteration"]) for row in _rows(folder, "iterations") if row["in_window"].lower() == "true"
        ),
        range=(float(flops["low"]), float(flops["high"])) if flops.get("low") and flops.get("high") else None,
    )


def _flops_of(row: Row) -> str:
    return row.get("flops_per_step") or row.get("flops") or ""


def _is_bound(folder: Path, flops: Row) -> bool:
    rows = (row for table in ("gemms", "graph_ops") for row in _rows(folder, table))
    marked = any(row.get("at_least") == "true" and row.get("executes") != "no" for row in rows)
    return marked or (bool(flops.get("low")) and not flops.get("value"))


def _made(folder: Path) -> Iterator[Made]:
    for rows in _ops(_rows(folder, "gemms")):
        row = rows[0]
        count = float(row["calls_per_step"]) if row["calls_per_step"] else None
        if row["executes"] == "no" or count == 0:
            continue
        flops = sum(int(float(r["flops"])) for r in rows) if all(r["flops"] for r in rows) else None
        yield Made(
            row["layer"] or "-", row["pass"], count, flops, row["executes"], row["source"], row["called_from"]
        )  # fmt: skip


def _ops(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each op: a stride makes several multiplications of the gradient of a convolution's input."""
    op: list[Row] = []
    for row in rows:
        same = bool(op) and all(row[key] == op[0][key] for key in ("op", "op_type", "layer", "pass"))
        if not (same and row["op_type"].endswith("BackpropInput") and row["k"] not in {r["k"] for r in op}):
            if op:
                yield op
            op = []
        op.append(row)
    if op:
        yield op


def _rows(folder: Path, table: str) -> list[Row]:
    path = folder / "tables" / f"{table}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
