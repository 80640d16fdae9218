"""What two places of a report show of one thing is the same: headline, summary, tables and their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tcprobe.flows.report import make_report
from tcprobe.report.run import findings, tables, views
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile
from tests.fixtures.gpu_run import variants
from tests.fixtures.gpu_run.make import RUN, load
from tests.fixtures.xplane.jax import jax_step
from tests.support import ROOT, SHARED, shared

FIXTURES = [
    *(ROOT / f"tests/fixtures/xplane/{n}.xplane.pb" for n in ("cpu_graph", "cpu_xla", "old_schema", "two_gpus", "xla")),
    *(ROOT / "tests/fixtures/dlprof" / n for n in ("pytorch_1.7", "tf1_0.13", "tf2_1.8")),
    RUN,
]  # fmt: skip
SAMPLES = sorted(
    path.relative_to(SHARED).as_posix()
    for pattern in ("xplane/*.xplane.pb", "dlprof/*.csv", "dlprof/pytorch_1.8", "dlprof/simple_0.16_json/*.json")
    for path in (SHARED / "samples").glob(pattern)
)
VARIANTS = (
    variants.second_gpu, variants.v100, variants.gtx1650, variants.tf32_off, variants.tail_lost, variants.cut_off,
    variants.xla, variants.xla_alone, variants.without_launches,
)  # fmt: skip
MADE: dict[str, Callable[[Path], Path]] = {
    "steps": jax_step,
    "one step": partial(jax_step, steps=1),
    "no step": partial(jax_step, steps=0),
    "stray": partial(jax_step, steps=1, stray=True),
    "loop of unknown length": partial(jax_step, trips=None),
}


class Shown:
    """The tables of an analysed profile, and their sums."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.summary = {str(row["metric"]): row for row in profile.require("summary").rows()}

    def rows(self, table: str, **wanted: object) -> list[Row]:
        return [r for r in self.profile.require(table).rows() if all(r[k] == v for k, v in wanted.items())]

    def sum(self, table: str, column: str, **wanted: object) -> float | None:
        known = [float(r[column]) for r in self.rows(table, **wanted) if r[column] is not None]  # type: ignore[arg-type]
        return sum(known) if known else None

    def value(self, metric: str) -> float | None:
        found = self.summary.get(metric, {}).get("value")
        return None if found is None else float(found)

    def range(self, metric: str) -> tuple[float, float]:
        row = self.summary[metric]
        low, high = (row["value"] if row[c] is None else row[c] for c in ("low", "high"))
        return float(low or 0), math.inf if high is None else float(high)


def disagreements(profile: Profile) -> list[tuple[object, ...]]:
    """Return (what, where it is one figure, where it is another) for all that differs."""
    shown = Shown(profile)
    pairs = [*_times(shown), *_products(shown), *_sizes(shown)]
    return [p for p in pairs if None not in p and not math.isclose(p[1], p[2], rel_tol=1e-9)]  # type: ignore[arg-type]


def _times(shown: Shown) -> Iterator[tuple[str, float | None, float | None]]:
    """Every table that is summed over the kernels of the window sums up to the same."""
    for metric, column in (("kernel_time_ns", "sum_ns"), ("kernels", "launches")):
        for table in ("kernels", "ops", "layers", "devices"):
            own = "calls" if (table, column) == ("kernels", "launches") else column
            yield f"{metric} in {table}", shown.value(metric), shown.sum(table, own)
        if shown.profile.metadata.window.first is not None:  # else the window is no steps
            yield f"{metric} in iterations", shown.value(metric), shown.sum("iterations", column, in_window=True)
    spent = {kind: shown.sum("kernels", "sum_ns", uses_tc=kind) or 0.0 for kind in ("yes", "unknown")}
    kernels = bool(shown.rows("kernels"))
    yield "Tensor Core time in kernels", shown.value("tc_time_ns"), spent["yes"] if kernels else None
    for table in ("ops", "layers", "devices"):
        yield f"Tensor Core time in {table}", shown.value("tc_time_ns"), shown.sum(table, "tc_ns")
        yield f"unknown time in {table}", spent["unknown"] if kernels else None, shown.sum(table, "unknown_ns")
    if shown.summary["memory_time_ns"]["reason"] is None and shown.profile.metadata.window.first is not None:
        copies = shown.sum("iterations", "memory_ns", in_window=True)
        yield "time of copies", shown.value("memory_time_ns"), copies
    yield "capable ops", shown.sum("ops", "sum_ns", tc_capable="yes"), shown.sum("layers", "capable_ns")


def _products(shown: Shown) -> Iterator[tuple[str, float | None, float | None]]:
    """A layer's GEMMs are its rows of gemms; its FLOPs are theirs, and all of them those of the summary."""
    layers = shown.rows("layers")
    for layer in layers:
        name = None if layer["layer"] == "(no layer)" else layer["layer"]
        sure = shown.rows("gemms", layer=name, executes="yes")
        yield f"GEMMs of {name}", float(layer["gemms"] or 0), float(len(sure))
        if layer["flops"] is not None:
            flops = sum(float(g["flops"] or 0) * float(g["calls_per_step"] or 0) for g in sure)
            yield f"FLOPs of {name}", float(layer["flops"]), flops
    own = [row for row in layers if row["layer"] != "(no layer)"]
    low, high = shown.range("gemm_layers")
    if layers:
        yield "layers that surely multiply", low, float(len([row for row in own if row["gemms"]]))
        running = {g["layer"] for g in shown.rows("gemms") if g["executes"] != "no"} - {None}
        yield "layers that may", high, float(len(running)) if shown.value("gemm_layers") is not None else None
    least, most = shown.range("flops_per_step")
    flops = shown.sum("layers", "flops")
    if flops is not None and shown.summary["flops_per_step"]["reason_kind"] != "no_step":
        yield "FLOPs of all layers", max(least, flops), least  # NA layers make it less
        yield "FLOPs of all layers", min(most, flops), flops


def _sizes(shown: Shown) -> Iterator[tuple[str, float | None, float | None]]:
    listed = float(len(shown.rows("bad_sizes")))
    yield "bad sizes", shown.value("bad_size_count"), listed
    section = findings.bad_size_table(shown.profile, None)
    yield "rows of bad sizes shown", listed, float(len(section.cells)) if section else 0.0
    for view in views.BY.values():
        table = tables.view_section(shown.profile, view, None)
        yield (
            f"rows of {view.table} shown",
            float(len(shown.rows(view.table))),
            float(len(table.cells)) if table else 0.0,
        )
        short = tables.view_section(shown.profile, view, 2)
        if table is not None and short is not None:
            told = sum(int(n.split()[0][1:].replace(",", "")) for n in short.notes)
            yield f"{view.table} shown and left out", float(len(table.cells)), float(len(short.cells) + told)


def says_a_step(profile: Profile) -> list[str]:
    """Return the headings and sentences that speak of a step."""
    found = [s for view in (*views.BY.values(), views.GEMM_VIEW) if (s := tables.view_section(profile, view, 5))]
    if profile.off is not None:
        found += [findings.blockers(profile, profile.off, 5), findings.costliest(profile, profile.off, 5)]
    if (sizes := findings.bad_size_table(profile, 5)) is not None:
        found.append(sizes)
    texts = [
        t for s in found if s.title.partition(" ")[0] != "Iterations" for t in (s.title, *(h.text for h in s.headings))
    ]
    return [t for t in texts if "step" in t]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.name)
def test_a_fixture_agrees_with_itself(path: Path) -> None:
    assert disagreements(make_report(path)) == []


@pytest.mark.parametrize("sample", SAMPLES or ["samples/xplane"])
def test_a_sample_agrees_with_itself(sample: str) -> None:
    assert disagreements(make_report(shared(sample))) == []


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
def test_a_changed_run_agrees_with_itself(change: Callable[..., object], tmp_path: Path) -> None:
    run = load()
    change(run)
    assert disagreements(make_report(run.write(tmp_path / "run"))) == []


@pytest.mark.parametrize("made", MADE)
def test_a_step_of_jax_agrees_with_itself(made: str, tmp_path: Path) -> None:
    assert disagreements(make_report(MADE[made](tmp_path))) == []


def test_a_step_is_named_only_where_one_is_known(tmp_path: Path) -> None:
    none, one = (make_report(jax_step(tmp_path, steps=n)) for n in (0, 1))
    assert says_a_step(none) == []
    assert "FLOP/step" in says_a_step(one)
    assert "Layers (5; kernel time of 1 step)" in says_a_step(one)
    stray = make_report(jax_step(tmp_path, steps=1, stray=True))
    assert [said for said in says_a_step(stray) if "kernel time of" in said] == []
    assert stray.metadata.window.first is None


def test_one_name_of_many_instructions(tmp_path: Path) -> None:
    """A layer is no equation; a fusion beside a dot has none of its FLOPs; one with two dots has those of both."""
    shown = Shown(make_report(jax_step(tmp_path)))
    once = 2 * 64 * 128 * 32
    layers = {row["layer"]: (row["gemms"], row["flops"]) for row in shown.rows("layers")}
    assert layers == {
        "Net/attention": (2, 2 * once), "Net/mlp": (2, 2 * once), "Net/block": (1, 12 * once),
        "Net/expert": (None, None), "(no layer)": (1, once),
    }  # fmt: skip
    mlp = {row["op_type"]: (row["tc_capable"], row["flops"]) for row in shown.rows("ops", layer="Net/mlp")}
    assert mlp == {"dot": ("yes", 2 * once), "fusion": ("unknown", None), "transpose": ("no", None)}
    assert shown.range("flops_per_step") == (17 * once, 18 * once)
    assert shown.range("gemm_layers") == (3, 4)
    unknown = Shown(make_report(jax_step(tmp_path, trips=None)))
    assert unknown.range("flops_per_step") == (5 * once, math.inf)
