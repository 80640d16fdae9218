"""Predicted times against measured ones: products by class, the worst of them, resize pairs; and the GPU's clocks."""

from __future__ import annotations

import gzip
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.gpu.summary.clocks import clocks, shown
from bench.gpu.summary.markdown import micro, number, table
from bench.gpu.summary.section import About, Data
from tcprobe.cost.measured import Measurement, measurements_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.hardware import find_gpu

TITLE = "Costs: predicted against measured"
WORST: Final = 10
BASES: Final = ("shipped", "calibrated")


def make(about: About) -> Data:
    """Return products and pairs by framework, predicted with shipped constants and with those fitted to them."""
    return {
        "products": [_products(path, about.gpu) for path in sorted(about.folder.glob("costs/*/raw.csv.gz"))],
        "pairs": [_pairs(path.parent, about.gpu) for path in sorted(about.folder.glob("costs/*/pairs.csv.gz"))],
        "clocks": clocks(about),
    }


def _products(path: Path, gpu: str | None) -> Data:
    from bench.gpu.costs.predicted import constants_of, products

    measured = measurements_of(gzip.decompress(path.read_bytes()).decode("utf-8"), path)
    found: Data = {"unit": path.parent.name, "measured": len(measured), "shipped": [], "calibrated": [], "worst": []}
    if gpu is None:
        return found
    own = constants_of(path.parent)
    found["shipped"] = products(path, gpu, None)
    found["calibrated"] = products(path, gpu, own) if own is not None and own.gpu == gpu else []
    found["worst"] = _worst([row for row in measured if row.gpu == gpu])
    return found


def _worst(rows: Iterable[Measurement]) -> list[Data]:
    """Return the products whose time the shipped constants miss by the largest factors."""
    found = []
    for row in rows:
        cost = op_cost(row.record, Target(find_gpu(row.gpu), row.library, tf32=False))
        if cost is not None:
            ends = [ns + cost.launch_ns for ns in (cost.low_ns, cost.ns, cost.high_ns)]
            told = {"op": row.record.op_type, "pass": row.record.pass_, "dtype": row.record.dtype, "shape": _shape(row)}
            figures = {"time_ns": row.time_ns, "low_ns": ends[0], "ns": ends[1], "high_ns": ends[2]}
            found.append((abs(math.log(ends[1] / row.time_ns)), {**told, **figures}))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])[:WORST]]


def _shape(row: Measurement) -> str:
    record = row.record
    inputs = " ".join("x".join(map(str, shape)) for shape in record.input_shapes if shape and len(shape) > 1)
    turned = [name for name, value in record.attributes.items() if value is True]
    return " ".join((inputs, "->", "x".join(map(str, record.output_shape or ())), *turned))


def _pairs(folder: Path, gpu: str | None) -> Data:
    from bench.gpu.costs.predicted import pairs

    rows = pairs(folder, gpu)
    return {"unit": folder.name, "rows": [{**row, **{base: _inside(row, base) for base in BASES}} for row in rows]}


def _inside(row: Data, base: str) -> Data | None:
    """Return a predicted range, and whether the measured ratio lies in it; None where nothing was predicted."""
    low, likely, high = (row[name] for name in (f"{base}_low", base, f"{base}_high"))
    if low is None:
        return None
    return {"low": low, "likely": likely, "high": high, "inside": low <= row["ratio"] <= high}


def by_kind(rows: Iterable[Data]) -> dict[tuple[str, str], Data]:
    """Sum rows of products up by kind and dtype, the parts of each together."""
    groups: dict[tuple[str, str], list[Data]] = defaultdict(list)
    for row in rows:
        groups[row["kind"], row["dtype"]].append(row)
    return {
        key: {
            "products": (total := sum(row["products"] for row in group)),
            **{f: sum(row[f] * row["products"] for row in group) / total for f in ("error_pct", "in_range_pct")},
        }
        for key, group in groups.items()
    }


def inside(rows: Iterable[Data], base: str) -> tuple[int, int]:
    """Return how many pairs lie in their predicted range, and how many were predicted."""
    found = [row[base]["inside"] for row in rows if row[base] is not None]
    return sum(found), len(found)


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield errors by class of product, the worst products, pairs outside their range, and clocks."""
    if not data["products"] and not data["pairs"]:
        yield "No times of products were recorded."
    for one in data["products"]:
        yield from _shown_products(one)
    for one in data["pairs"]:
        yield from _shown_pairs(one)
    yield from shown(data["clocks"])


def _shown_products(one: Data) -> Iterator[str]:
    yield f"### {one['unit']}: {one['measured']} products"
    if not one["shipped"]:
        yield "Nothing is predicted: no GPU of gpus.csv was measured."
        return
    yield "Shipped constants on all products, calibrated ones on the quarter that was not fitted; mean absolute errors."
    yield ""
    own = {(row["kind"], row["part"], row["dtype"]): row for row in one["calibrated"]}
    head = (
        *("class", "layout or pass", "dtype", "#products", "#shipped: error %", "#bias %", "#in the range %"),
        *("#calibrated: products", "#error %", "#bias %", "#in the range %"),
    )
    yield from table(
        head, [_line(row, own.get((row["kind"], row["part"], row["dtype"]), {})) for row in one["shipped"]]
    )
    yield f"The worst {len(one['worst'])} with shipped constants:\n"
    yield from table(
        ("op", "dtype", "shape", "#measured us", "#predicted us", "#at least", "#at most", "#predicted/measured"),
        [
            (
                *(w[k] for k in ("op", "dtype", "shape")),
                *(micro(w[k]) for k in ("time_ns", "ns", "low_ns", "high_ns")),
                w["ns"] / w["time_ns"],
            )
            for w in one["worst"]
        ],
    )


def _line(row: Data, own: Data) -> tuple[Any, ...]:
    figures = ("products", "error_pct", "bias_pct", "in_range_pct")
    cells = [_figure(of.get(f)) for of in (row, own) for f in figures]
    return (row["kind"], row["part"], row["dtype"], *cells)


def _figure(found: float | None) -> str | None:
    return f"{found:.1f}" if isinstance(found, float) else None if found is None else str(found)


def _shown_pairs(one: Data) -> Iterator[str]:
    rows = one["rows"]
    told = [f"{base} {n} of {of}" for base in BASES for n, of in [inside(rows, base)] if of]
    yield f"### {one['unit']}: {len(rows)} resize pairs"
    yield f"Ratios in the predicted range: {', '.join(told)}." if told else "Nothing is predicted."
    yield ""
    yield from table(
        ("outside", "pass", "dtype", "from", "to", "#measured ratio", "#± %", *(f"#{base}" for base in BASES)),
        [
            (
                *(row[k] for k in ("pair", "pass", "dtype", "shape_from", "shape_to")),
                *(number(row[k]) for k in ("ratio", "spread_pct")),
                *(_range(row[base]) for base in BASES),
            )
            for row in rows
            if any(row[base] is not None and not row[base]["inside"] for base in BASES)
        ],
    )


def _range(found: Data | None) -> str | None:
    if found is None:
        return None
    return f"{found['low']:.3g}-{found['high']:.3g}{'' if found['inside'] else ' (outside)'}"
