"""`tcprobe report` on the run folder of a GPU, and on what other GPUs and other endings would leave.

`pytest tests/report tests/test_gpu_run.py --update-golden` writes the golden report anew, for a person to review.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tcprobe.schema.tables import TABLES
from tests import warm
from tests.fixtures.gpu_run import catalogue, variants
from tests.fixtures.gpu_run.make import RUN, Run, load
from tests.support import ROOT

GOLDEN = RUN.parent / "report.txt"
LINE = "/home/user/project/workloads/train_gan.py:168"  # layers.Conv2D(1, 5, padding="same"), as recorded
DIRECT = "wgrad2d_grouped_direct_kernel"
LAST_CONV = "generator/conv2d_3"
Change = Callable[[Run], Any]


def tcprobe(*args: str | Path, calibration: Path = ROOT / "no calibration") -> subprocess.CompletedProcess[str]:
    command = [warm.tcprobe(), "-m", "tcprobe", "report", *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(calibration)}
    folder = RUN.parent
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=120, cwd=folder
    )


def shown(*args: str | Path) -> str:
    done = tcprobe(*args)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def first_steps(text: str) -> list[str]:
    """Return the lines under "What to do, in full"."""
    return text.split("What to do, in full\n")[1].split("\n\n")[0].splitlines()


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


class Report:
    """The JSON report of a folder."""

    def __init__(self, folder: Path) -> None:
        self.all = json.loads(shown(folder, "--format", "json"), parse_constant=no_constant)
        self.summary = {row["metric"]: row for row in self.all["summary"]}
        self.notes = {note["code"]: note for note in self.all["notes"]}

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        """Return the rows of a table whose columns have these values."""
        rows: list[dict[str, Any]] = self.all["tables"][table]
        return [row for row in rows if all(row[key] == value for key, value in wanted.items())]

    def off_tensor_cores(self) -> list[dict[str, Any]]:
        """Return the capable ops that do not use Tensor Cores, costliest first."""
        capable = [op for op in self.rows("ops", tc_capable="yes") if op["tc_blocker"] not in (None, "none")]
        return sorted(capable, key=lambda op: -op["sum_ns"])


@pytest.fixture(scope="module")
def run() -> Report:
    return Report(RUN)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Change], Path]:
    """Return what writes the run folder with something changed."""

    def write(change: Change) -> Path:
        made = load()
        change(made)
        return made.write(tmp_path / "run")

    return write


def test_the_fixture_is_small_and_names_no_machine() -> None:
    files = [path.read_bytes() for path in RUN.rglob("*") if path.is_file()]
    assert sum(map(len, files)) < 300_000
    folders = {found for text in files for found in re.findall(rb"\"(/\w+/\w+)", text)}
    assert folders == {b"/home/user"}
    assert not [text for text in files if b".partial-" in text]


def test_headline(run: Report) -> None:
    share = run.summary["tc_kernel_time_pct"]
    assert (round(share["low"], 1), round(share["high"], 1), share["basis"]) == (28.9, 31.2, "name")
    assert round(run.summary["tc_capable_time_pct"]["value"], 1) == 36.8
    assert round(run.summary["coverage_pct"]["value"], 1) == 97.8
    assert 50 < run.summary["gpu_busy_pct"]["value"] < 60


def test_the_window_leaves_out_the_slow_step(run: Report) -> None:
    counted = {row["iteration"]: row["in_window"] for row in run.rows("iterations")}
    assert counted == {1: False, 2: False, 3: True, 4: True, 5: True}
    (slow,) = run.rows("iterations", iteration=1)
    assert slow["duration_ns"] > 30 * run.rows("iterations", iteration=3)[0]["duration_ns"]
    assert not [k for k in run.rows("kernels") if k["kernel"] in {tried.name for tried in catalogue.AUTOTUNED}]


def test_without_the_probe_the_slow_step_is_found() -> None:
    report = Report(RUN / "raw")
    assert report.all["metadata"]["window"]["basis"] == "detected"
    assert [row["in_window"] for row in report.rows("iterations")] == [False, True, True, True, True]


def test_the_costliest_op_off_the_tensor_cores(run: Report) -> None:
    first = run.off_tensor_cores()[0]
    assert (first["layer"], first["pass"], first["op_type"]) == (LAST_CONV, "wgrad", "Conv2DBackpropFilter")
    assert first["source"] == LINE
    assert DIRECT in first["tc_blocker"]
    assert first["sum_ns"] / run.summary["kernel_time_ns"]["value"] == pytest.approx(0.42, abs=0.001)


def test_bad_sizes_have_measured_times(run: Report) -> None:
    sizes = {(r["layer"], r["dimension"]): r for r in run.rows("bad_sizes")}
    expected = {
        ("generator/dense", "units"): (3087, 3088),
        ("generator/conv2d", "filters"): (63, 64),
        ("generator/conv2d_1", "filters"): (31, 32),
        ("generator/conv2d_2", "filters"): (7, 8),
        (LAST_CONV, "filters"): (1, 8),
    }
    assert {key: (sizes[key]["size"], sizes[key]["next_size"]) for key in expected} == expected
    assert all(row["kernel_ns"] > 0 for row in sizes.values())
    (direct,) = [k for k in run.rows("kernels") if DIRECT in k["kernel"]]
    assert sizes[LAST_CONV, "filters"]["kernel_ns"] > direct["sum_ns"]
    assert not [r for r in sizes.values() if r["dimension"] == "batch"]


def test_bad_sizes_say_what_their_next_sizes_save(run: Report) -> None:
    sizes = {(r["layer"], r["dimension"]): r for r in run.rows("bad_sizes")}
    direct = sizes[LAST_CONV, "filters"]
    assert direct["saving_basis"] == "measured x predicted"
    # 42 % of the kernel time is the weight gradient of one filter, which eight need not have
    assert 25 < direct["saving_pct"] < direct["share_pct"]
    assert direct["saving_low_ns"] < direct["saving_ns"] < direct["saving_high_ns"] < direct["kernel_ns"] / 3
    left = [r for r in sizes.values() if r["advice"].startswith("nothing")]
    assert left
    assert {r["saving_ns"] for r in left} == {None}
    assert {r["constants_gpu"] for r in left} == {None}
    assert (direct["predicted_for"], direct["constants_gpu"]) == ("a100-sxm-40", "a100-sxm-80")
    assert (direct["constants_stack"], direct["constants_borrowed"]) == (
        "PyTorch",
        "gpu: a100-sxm-80; convolution: v100-sxm2",
    )


def test_the_predicted_steps(run: Report, tmp_path: Path) -> None:
    """Of 2.62 ms of kernels in a step of 4.12 ms: the convolution with one filter, and with all sizes changed."""
    rows = run.rows("what_ifs")
    assert [(row["change"], row["layer"], row["source"]) for row in rows] == [
        ("slice_filters", LAST_CONV, LINE), ("together", None, None),
    ]  # fmt: skip
    for row in rows:
        assert 0 <= row["gain_low_ns"] <= row["gain_ns"] <= row["gain_high_ns"] <= row["spent_ns"] <= 2_620_000
        assert row["new_step_ns"] == pytest.approx(row["step_ns"] - row["gain_ns"])
        assert row["new_throughput"] == pytest.approx(row["throughput"] * row["step_ns"] / row["new_step_ns"])
    (sliced,) = run.rows("bad_sizes", layer=LAST_CONV, dimension="filters")
    assert rows[0]["gain_ns"] <= sliced["saving_ns"]  # under the profiler a step's kernels take longer
    written = tcprobe(RUN, "--format", "csv", "-o", tmp_path / "out")
    assert (written.returncode, written.stdout) == (0, "")
    table = pd.read_csv(tmp_path / "out" / "what_ifs.csv")
    assert list(table["change"]) == ["slice_filters", "together"]


def test_with_tf32_off_nothing_is_predicted_to_gain_at_so_few_images(changed: Callable[[Change], Path]) -> None:
    """At 8 images a step products take as long in TF32, and 16 bits lose in the last convolution what they gain."""
    found = Report(changed(variants.tf32_off)).all
    assert "what_ifs" not in found["tables"]
    assert found["absent"]["what_ifs"] == "no change that can be predicted gains 1 % of a step"


def test_lost_events_predict_nothing(changed: Callable[[Change], Path]) -> None:
    assert "lost events" in Report(changed(variants.tail_lost)).all["absent"]["what_ifs"]


def test_a_calibration_of_the_users_is_taken(tmp_path: Path) -> None:
    from tcprobe.cost.constants import Constants, shipped

    folder = tmp_path / "tcprobe" / "calibration"
    folder.mkdir(parents=True)
    theirs = shipped()["a100-sxm-80"]
    own = Constants("a100-sxm-40", "measured here", "calibrated", theirs.rates, theirs.conv, theirs.multipliers)
    (folder / "a100-sxm-40.json").write_text(own.to_json(), encoding="utf-8")
    done = tcprobe(RUN, "--format", "json", calibration=tmp_path)
    rows = json.loads(done.stdout)["tables"]["bad_sizes"]
    assert {row["saving_basis"] for row in rows} == {"measured x calibrated", None}
    (folder / "a100-sxm-40.json").write_text("{}", encoding="utf-8")
    done = tcprobe(RUN, calibration=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a100-sxm-40.json" in done.stderr


def test_the_text_names_kernel_layer_line_and_pass(request: pytest.FixtureRequest) -> None:
    text = shown("run", "--width", "0", "--top", "5")
    blockers = text[text.index("\nCostliest ops off") : text.index("\nBadly sized")]
    for said in (DIRECT, f"{LAST_CONV} (wgrad)", LINE):
        assert said in blockers
    if request.config.getoption("--update-golden", default=False):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_csv_tables_are_for_pandas(tmp_path: Path) -> None:
    assert tcprobe(RUN, "-o", tmp_path / "tables").returncode == 0
    found = {path.stem: pd.read_csv(path) for path in (tmp_path / "tables").glob("*.csv")}
    assert {"summary", "kernels", "ops", "layers", "iterations", "devices", "gemms", "bad_sizes"} <= set(found)
    for name, frame in found.items():
        assert list(frame.columns) == [c.name for c in TABLES[name].columns]
        assert len(frame)
    assert found["kernels"]["sum_ns"].sum() == found["summary"].set_index("metric").value["kernel_time_ns"]


def test_an_empty_gpu_plane_is_a_failed_measurement(changed: Callable[[Change], Path]) -> None:
    done = tcprobe(changed(variants.no_kernels))
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert "the GPU was used and no kernel was recorded" in error
    assert hint.startswith("hint: check that the steps ran on the GPU")


def test_a_refused_cupti_is_said_with_its_remedy(changed: Callable[[Change], Path]) -> None:
    done = tcprobe(changed(variants.refused))
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert variants.REFUSED in error
    assert "NVreg_RestrictProfilingToAdminUsers=0" in hint


def test_lost_events_are_a_warning(changed: Callable[[Change], Path]) -> None:
    report = Report(changed(variants.dropped))
    assert report.notes["events-lost"]["level"] == "warning"
    assert variants.DROPPED in report.notes["events-lost"]["message"]
    assert report.notes["events-lost"]["remedy"]


def test_an_idle_gpu_changes_no_figure(changed: Callable[[Change], Path], run: Report) -> None:
    report = Report(changed(variants.second_gpu))
    states = {row["device"]: row["state"] for row in report.rows("devices")}
    assert states == {0: "active", 1: "idle"}
    assert "idle-devices" in report.notes
    assert report.summary == run.summary
    (idle,) = report.rows("devices", device=1)
    assert idle["tc_kernel_time_pct"] is None


def test_v100(changed: Callable[[Change], Path], run: Report) -> None:
    report = Report(changed(variants.v100))
    (device,) = report.rows("devices")
    assert (device["compute_capability"], device["tensor_cores"]) == ("7.0", "yes")
    share = "tc_kernel_time_pct"
    assert (report.summary[share]["low"], report.summary[share]["high"]) == (
        run.summary[share]["low"],
        run.summary[share]["high"],
    )
    verdicts = {k["uses_tc"] for k in report.rows("kernels") if "s884" in k["kernel"]}
    assert verdicts == {"yes"}
    rates = [r.summary["achieved_tflop_per_s"]["value"] / r.summary["peak_pct"]["value"] for r in (report, run)]
    assert rates == pytest.approx([1.25, 3.12])  # 125 and 312 dense float16 TFLOP/s, by NVIDIA's data sheets


def test_a_gpu_without_tensor_cores_has_no_share(changed: Callable[[Change], Path]) -> None:
    folder = changed(variants.gtx1650)
    report = Report(folder)
    for metric in ("tc_kernel_time_pct", "tc_capable_time_pct", "tc_time_ns"):
        row = report.summary.get(metric, {"value": None, "low": None, "high": None})
        assert (row["value"], row["low"], row["high"]) == (None, None, None)
    assert "not applicable" in report.summary["tc_kernel_time_pct"]["reason"]
    assert {op["tc_blocker"] for op in report.off_tensor_cores()} == {"GPU has no Tensor Cores"}
    text = shown(folder)
    assert "Tensor Cores: NOT APPLICABLE. NVIDIA GeForce GTX 1650 has none." in text
    assert first_steps(text)[0].startswith("1. A GPU with Tensor Cores: Volta")


def test_tf32_off_is_the_blocker(changed: Callable[[Change], Path]) -> None:
    folder = changed(variants.tf32_off)
    report = Report(folder)
    assert report.summary["tc_kernel_time_pct"]["low"] == 0
    assert report.summary["tc_capable_time_pct"]["value"] == 0
    assert {op["tc_blocker"] for op in report.off_tensor_cores()} == {"TF32 off"}
    peak = report.summary["achieved_tflop_per_s"]["value"] / report.summary["peak_pct"]["value"]
    assert peak == pytest.approx(0.195)  # the CUDA cores' float32 peak of an A100, 19.5 TFLOP/s
    told = shown(folder).split("What to do, in full\n1. ")[1].partition("\nFigures")[0]
    assert told.startswith("TF32: ")
    assert "by peak rates at most" in told


def test_xla_brings_shapes_from_the_module(changed: Callable[[Change], Path]) -> None:
    report = Report(changed(variants.xla_alone))
    ops = {op["op"]: op for op in report.rows("ops")}
    direct = ops["gradient_tape/generator_1/conv2d_3_1/convolution/Conv2DBackpropFilter"]
    assert (direct["pass"], direct["dtype"], direct["tc_capable"]) == ("wgrad", "float16", "yes")
    assert direct["shapes"] == "[[8, 28, 28, 7], [8, 28, 28, 1]] -> [5, 5, 7, 1]"
    assert direct["flops"] == 2 * 8 * 28 * 28 * 25 * 7
    # XLA names no channels of a gradient: the layer's forward pass does
    assert (direct["cause"], direct["cause_dimension"], direct["cause_size"]) == ("channels", "filters", 1)
    assert ops["generator_1/dense_1/MatMul"]["tc_ns"] > 0
    assert ops["discriminator_3/dense_1_1/MatMul"]["unknown_ns"] > 0
    sizes = {(r["layer"], r["size"]) for r in report.rows("bad_sizes")}
    assert {("generator_1/dense_1", 3087), ("generator_1/conv2d_3_1", 1), ("generator_1/conv2d_3_1", 7)} <= sizes


def test_a_step_that_xla_compiled_is_not_told_to_use_xla(changed: Callable[[Change], Path]) -> None:
    waits, first, *_ = first_steps(shown(changed(variants.xla_alone), "--width", "0"))
    assert "the GPU waits 2.62 ms of a step of 4.12 ms" in waits
    assert first.startswith("2. filters 1 -> 8, keep the first: conv2d_3_1 (generator_1/conv2d_3_1")
    assert "1.13 ms of kernel time in a step, " in first  # of catalogue.py
    assert ": at most 1.11 ms of a step of 4.12 ms, 26.9 %" in first  # of the steps outside: its row of the bar
    # the sizes of generator_1/dense_1 concern 28 us, less than 1 % of the step


def test_xla_joins_the_graph_of_the_probe(changed: Callable[[Change], Path]) -> None:
    report = Report(changed(variants.xla))
    first = report.off_tensor_cores()[0]
    assert (first["layer"], first["pass"], first["source"]) == (LAST_CONV, "wgrad", LINE)
    assert DIRECT in first["tc_blocker"]
    (filters,) = report.rows("bad_sizes", layer=LAST_CONV, dimension="filters")
    (layer,) = report.rows("layers", layer=LAST_CONV)
    assert filters["kernel_ns"] == layer["sum_ns"] > first["sum_ns"]
    assert report.rows("layers", layer="generator/dense")[0]["tc_ns"] > 0


def test_a_step_that_lost_its_kernels_shows(changed: Callable[[Change], Path]) -> None:
    report = Report(changed(variants.tail_lost))
    whole, cut = (report.rows("iterations", iteration=n)[0]["launches"] for n in (4, 5))
    assert 0 < cut < whole / 4
    assert report.all["metadata"]["window"]["last"] == 4
    assert "5 (" in report.notes["incomplete-steps"]["message"]
    for metric in ("achieved_tflop_per_s", "peak_pct"):
        assert report.summary[metric]["value"] is None
        assert "lost events" in report.summary[metric]["reason"]
    assert report.notes["events-lost"]["level"] == "warning"


def test_kernels_of_unknown_steps_are_counted_whole(changed: Callable[[Change], Path], run: Report) -> None:
    report = Report(changed(variants.without_launches))
    assert report.all["metadata"]["window"]["basis"] == "whole capture"
    assert report.notes["steps-without-kernels"]["level"] == "warning"
    assert report.summary["kernel_time_ns"]["value"] > 5 * run.summary["kernel_time_ns"]["value"]
    for metric in ("achieved_tflop_per_s", "peak_pct"):
        assert report.summary[metric]["value"] is None
        assert "warm-up" in report.summary[metric]["reason"]
    assert {(r["launches"], r["sum_ns"], r["union_ns"]) for r in report.rows("iterations")} == {(None, None, None)}
    assert "--iter-start" not in report.notes["steps-without-kernels"]["remedy"]


def test_a_run_that_was_killed_is_partial(changed: Callable[[Change], Path], run: Report) -> None:
    report = Report(changed(variants.cut_off))
    assert report.all["metadata"]["partial"] is True
    assert report.notes["partial-run"]["level"] == "warning"
    assert report.all["metadata"]["window"] == run.all["metadata"]["window"]
    share = "tc_kernel_time_pct"
    assert report.summary[share]["low"] == pytest.approx(run.summary[share]["low"])


def test_a_run_that_was_killed_before_the_profile_was_written(changed: Callable[[Change], Path]) -> None:
    folder = changed(variants.cut_off)
    next((folder / "raw").rglob("*.xplane.pb")).unlink()
    done = tcprobe(folder)
    assert done.returncode == 2
    assert "no kernel was recorded" in done.stderr


@pytest.mark.parametrize("pct", [0.07, 5, 20, 60])
def test_a_gpu_that_waits_is_busy_as_made(changed: Callable[[Change], Path], pct: float) -> None:
    report = Report(changed(lambda run: variants.busy(run, pct)))
    assert report.summary["gpu_busy_pct"]["value"] == pytest.approx(pct, rel=1e-4)
    assert report.summary["kernel_time_ns"]["value"] == Report(RUN).summary["kernel_time_ns"]["value"]


def test_the_longest_gaps_say_what_the_host_did(changed: Callable[[Change], Path]) -> None:
    folder = changed(lambda run: variants.busy(run, 5))
    assert "the input pipeline" in shown(folder, "--by", "gap")
    page = shown(folder)
    assert page.index("\nLongest gaps (3") < page.index("\nCostliest ops off")
    head, first, *_ = shown(folder, "--by", "gap", "--format", "csv").splitlines()
    assert head.split(",") == [column.name for column in TABLES["gaps"].columns]
    assert first.split(",")[-3:-1] == ["input", "IteratorGetNextOp::DoCompute"]
    report = Report(folder)
    assert len(report.rows("gaps", host_work="input", before="MemcpyH2D 25088 B")) == 3
    assert report.all["waiting"]["idle_pct"] == pytest.approx(95.23, abs=0.01)  # 5 % with the step before
    assert report.all["tuning"] is None
    assert "Longest gaps" not in shown(changed(lambda run: variants.busy(run, 20)), "--by", "op")
