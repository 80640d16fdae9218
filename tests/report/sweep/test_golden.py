"""Whole sweeps, compared with files that a person has read; what stands on the first screen; hostile names."""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.flows.write import write_tables
from tcprobe.report.document import ReportSpec
from tcprobe.report.sweep.document import SweepDocument
from tcprobe.report.sweep.words import answer, sparkline, times
from tcprobe.schema.comparison import Side
from tcprobe.schema.finding import Range
from tcprobe.schema.sweep import RunFigures, SweepResult
from tests.analysis.sweep.builders import around, figures, plan, result
from tests.report.builders import rendered
from tests.support import ROOT

Compare = Callable[[str, str], None]
FACTORS = {"precision": ("float32", "mixed_float16"), "sizes": ("bad", "good"), "xla": ("on",)}
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def of_gpu(ms: float, tc_pct: float, drift: float, losses: list[float]) -> RunFigures:
    return figures(
        *around(ms * drift, 12),
        rates=around(8192e3 / (ms * drift), 12),
        tc_pct=Side(tc_pct),
        busy_pct=Side(80.0 - tc_pct / 4),
        peak_bytes=4.0e9 if tc_pct < 30 else 2.5e9,
        flops=28e9,
        gpu_used=True,
        gpus=("NVIDIA A100-SXM4-40GB",),
        logged={"g_loss": losses, "d_loss": [1 - 0.01 * n for n in range(12)], "val_acc": {}},
    )


def measured() -> SweepResult:
    """Four combinations, three runs each; one failed, one ends as NaN; the two changes do more together."""
    runs: list[RunFigures | None] = []
    for turn, drift in enumerate((1.0, 1.02, 0.99)):
        for number, (ms, tc) in enumerate(((150.0, 0.0), (120.0, 0.0), (130.0, 28.0), (68.4, 44.4))):
            losses = [1.0 / (1 + step) + 0.01 * number for step in range(12)]
            if (turn, number) == (2, 2):
                losses[7:] = [math.nan] * 5
            runs.append(of_gpu(ms, tc, drift * (1.0 + 0.004 * ((turn + number) % 3)), losses))
    runs[5] = None
    return result(plan(FACTORS, repeat=3, workload="train_gan"), runs)


def on_the_cpu() -> SweepResult:
    likely = Range(22e6, 73e6, 141e6)
    more = {"gpu_used": False, "predicted": likely, "target": "A100 SXM4 40GB", "batch": 4096}
    runs = [
        figures(*around(194, 4), rates=around(660, 4), flops=28e9, **more),
        figures(*around(120, 4), rates=around(80, 4), flops=3.6e9, **more),
    ]
    return result(plan({"precision": ("float32", "mixed_float16")}, workload="train_gan"), runs)


def document(made: SweepResult, **spec: object) -> SweepDocument:
    return SweepDocument(made, ReportSpec(**spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(("format_", "ending"), [("text", "txt"), ("markdown", "md"), ("csv", "csv")])
def test_a_measured_sweep(format_: str, ending: str, golden: Compare) -> None:
    text = rendered(format_, document(measured()))
    golden(f"sweep_measured.{ending}", text)


def test_json_has_the_tables_and_the_verdict() -> None:
    given = json.loads(rendered("json", document(measured())))
    assert (given["fastest"], given["measure"], given["gpus"]) == ([4], "step_time", ["NVIDIA A100-SXM4-40GB"])
    assert given["verdict"][0].startswith("mixed_float16 with sizes=good is fastest: 2.19 times")
    (fourth,) = (row for row in given["combinations"] if row["fastest"])
    assert (fourth["setting.sizes"], fourth["tc_kernel_time_pct"], fourth["difference"]) == ("good", 44.4, "faster")
    assert fourth["times_low"] < fourth["times_as_fast"] < fourth["times_high"]
    assert given["combinations"][2]["last.g_loss"] == "nan"
    assert [row["kind"] for row in given["changes"]].count("beside") == 4
    odd = next(one for one in given["losses"] if (one["name"], one["run"]) == ("g_loss", "c03-r3"))
    assert (odd["steps"], odd["values"][6:8]) == (list(range(12)), [1 / 7 + 0.02, "nan"])
    assert given["plan"]["runs"][0] == {"folder": "c01-r1", "combination": 1, "repeat": 1}


def test_a_terminal_gets_the_first_screen_alone(golden: Compare) -> None:
    for name, made in (("measured", measured()), ("cpu", on_the_cpu())):
        text = rendered("text", document(made, brief=True, width=80), 80)
        golden(f"sweep_{name}_screen.txt", text)
        assert len(text.splitlines()) <= 22 and max(map(len, text.splitlines())) <= 80


def test_the_page_shows_what_is_printed() -> None:
    page = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")
    assert rendered("text", document(measured(), brief=True, width=80), 80) in page


def test_a_sweep_on_the_cpu_measures_no_tensor_cores() -> None:
    text = rendered("text", document(on_the_cpu()))
    assert "TC share" not in text and "GPU busy" not in text and " 0.0 %" not in text
    assert "step time (CPU)" in text and "73 ms (22-141 ms)" in text and "predicted for A100 SXM4 40GB" in text
    assert answer(on_the_cpu())[-3:] == [
        "Steps do other work, so throughput is compared, not their length.",
        "Each ran once: a machine that drifts makes differences too, which --repeat 3 tells apart.",
        "No GPU ran: these times are of a CPU, and say nothing of one.",
    ]
    (first, _) = json.loads(rendered("json", document(on_the_cpu())))["combinations"]
    reason = "no GPU: its time was not measured"
    assert (first["tc_kernel_time_pct"], first["tc_kernel_time_pct_reason"]) == (None, reason)


def test_every_table_has_as_many_fields_as_columns(tmp_path: Path) -> None:
    for made in (measured(), on_the_cpu(), result(plan(FACTORS), [None] * 4)):
        for table in document(made).tables():
            assert {len(tuple(row)) for row in table.rows()} <= {len(table.columns)}, table.name
    files = write_tables(document(measured()), tmp_path / "tables")
    rows = {path.stem: list(csv.DictReader(io.StringIO(path.read_text()))) for path in files}
    assert [row["setting.sizes"] for row in rows["combinations"]] == ["bad", "good", "bad", "good"]
    assert rows["combinations"][2]["last.g_loss"] == "nan"
    assert {row["kind"] for row in rows["changes"]} == {"alone", "beside", "mean", "pair"}
    assert [row["state"] for row in rows["runs"]].count("failed") == 1
    assert [(row["run"], row["name"], row["step"]) for row in rows["strays"]] == [("c03-r3", "g_loss", "7")]


NOTHING = "Nothing was measured: no run is whole, or none has steps."


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        ((100, 50), "b is fastest: 2 times a (95 %: "),
        ((50, 100), "a is fastest, the baseline."),
        ((100, 100.05), "a looks fastest; noise hides whether b is slower."),
        ((100, None), "a alone was measured: there is nothing to hold it against."),
        ((None, None), NOTHING),
    ],
)
def test_the_verdict_in_a_sentence(ms: tuple[float | None, ...], said: str) -> None:
    runs = [None if one is None else figures(*around(one, 20)) for one in ms]
    made = result(plan({"precision": ("a", "b")}), runs)
    assert answer(made)[0].startswith(said)


def test_many_combinations_stay_on_one_screen() -> None:
    factors = {name: tuple("abc") for name in ("one", "two", "three")}
    made = result(plan(factors), [figures(*around(100 + n)) for n in range(27)])
    lines = rendered("text", document(made, brief=True, width=80), 80).splitlines()
    assert len(lines) <= 22 and any(line.endswith("more; --top 0 shows all)") for line in lines)
    assert "27 combinations of one, two and three" in lines[0]


def test_no_name_steers_a_terminal() -> None:
    nasty = "\x1b[2J\u202e\r\b"
    made, logged = measured(), {f"loss{nasty}": {0: 1.0, 1: 2.0}}
    runs = [replace(run, why=nasty, figures=run.figures and replace(run.figures, logged=logged)) for run in made.runs]
    factors = {f"precision{nasty}": (f"a{nasty}", "b"), "sizes": ("bad", "good"), "xla": ("on",)}
    hostile = result(plan(factors, repeat=3, workload=nasty), [run.figures for run in runs])
    hostile = replace(hostile, folder=nasty, runs=tuple(runs))
    for format_ in ("text", "markdown"):
        for width in (None, 80):
            text = rendered(format_, document(hostile), width)
            assert not {unicodedata.category(c) for c in text if c != "\n"} & HIDDEN


def test_curves_and_ratios_as_text() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 0, 7, 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0] * 3, 5, 5, 8) == "▅▅▅"
    assert sparkline([0, math.nan, 4, math.inf], 0, 4, 4) == "▁!█!"
    assert len(sparkline(list(range(1000)), 0, 1000, 12)) == 12
    assert [times(x) for x in (None, 1.0, 1.004, 2.2, 2.249, 12.3, 0.8, 0.0123)] == [
        "-", "1", "1.004", "2.2", "2.25", "12", "0.8", "0.012",
    ]  # fmt: skip
