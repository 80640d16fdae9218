"""NaN and infinity that a workload logs are values on the whole way: its files, tables, reports, comparisons."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

import tcprobe
from tests import warm
from tests.faults.running import Tcprobe

PLAIN = """
import tcprobe, time
for step in range(24):
    with tcprobe.step():
        time.sleep(0.002)
        loss = "nan" if step >= 17 else "%.1f" % (3 - step / 10)
        gain = {20: "-Infinity", 21: "inf"}.get(step, "1.5")
        print("Loss: %s, gain_acc: %s, throughput: %s img/s" % (loss, gain, "nan" if step == 9 else "12.5"), flush=True)
"""
FINITE = PLAIN.replace('"nan" if step >= 17 else ', "")
TRAINED = """
import tensorflow as tf
weight = tf.Variable(tf.ones((8, 8)))

@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight) ** 2)
    weight.assign_sub(1e25 * tape.gradient(loss, weight))
    return loss

for step in range(8):
    print("loss:", train(tf.ones((4, 8))).numpy(), flush=True)
"""


def profiled(work: Path, code: str) -> Path:
    """Return the run folder of a script, with its tables in `tables`."""
    done = Tcprobe(work, code, "--output", "run", "-o", "tables")
    assert done.wait() == 0, done.printed
    return work / "run"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profiled(tmp_path_factory.mktemp("plain"), PLAIN)


@pytest.fixture(scope="module")
def finite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profiled(tmp_path_factory.mktemp("finite"), FINITE)


def logged(path: Path, name: str) -> list[str]:
    with path.open() as file:
        return [row["value"] for row in csv.DictReader(file) if row["name"] == name]


def test_files_keep_them(plain: Path) -> None:
    for path in (plain / "probe/metrics.csv", plain / "tables/metrics.csv", plain.parent / "tables/metrics.csv"):
        assert logged(path, "loss")[16:] == ["1.4", *["nan"] * 7]
        assert logged(path, "gain_acc")[19:] == ["1.5", "-inf", "inf", "1.5", "1.5"]


def test_reports_show_them(plain: Path) -> None:
    text = warm.run_tcprobe("report", plain).stdout
    rows = [line.split() for line in text.partition("Logged by the workload")[2].splitlines()[2:5]]
    assert rows == [
        ["loss", "nan", "since", "step", "17", "-", "7", "of", "24"],
        ["gain_acc", "1.5", "-", "2", "of", "24"],
        ["throughput", "12.5", "img/s", "1", "of", "24"],
    ]
    assert "no finite number any more: loss nan since step 17\n" in text
    assert (
        "| loss | nan since step 17 | - | 7 of 24 |" in warm.run_tcprobe("report", plain, "--format", "markdown").stdout
    )


def test_json_says_which(plain: Path) -> None:
    document = json.loads(warm.run_tcprobe("report", plain, "--format", "json").stdout)
    values = {
        name: [r["value"] for r in document["tables"]["metrics"] if r["name"] == name] for name in ("loss", "gain_acc")
    }
    assert values["loss"][16:] == [1.4, *["nan"] * 7]
    assert values["gain_acc"][19:] == [1.5, "-inf", "inf", 1.5, 1.5]
    throughput = next(row for row in document["summary"] if row["metric"] == "throughput")
    assert throughput["value"] == 12.5
    assert throughput["reason"] == "1 of 22 are left out: no finite numbers"


def test_comparisons_hold_them(plain: Path, finite: Path) -> None:
    text = warm.run_tcprobe("compare", finite, plain).stdout
    row = next(line.split() for line in text.splitlines() if line.startswith("loss"))
    assert row == ["loss", "23", "0.7", "nan", "0.7", "nan", "since", "step", "17"]
    assert "any more: loss nan since step 17" in text
    document = json.loads(warm.run_tcprobe("compare", finite, plain, "--format", "json").stdout)
    loss = next(one for one in document["losses"] if one["name"] == "loss")
    assert (loss["last"], loss["since"], loss["values"][1][16:18]) == ([0.7, "nan"], [None, 17], [1.4, "nan"])
    lines = warm.run_tcprobe("compare", finite, plain, "--by", "loss", "--format", "csv").stdout.splitlines()
    assert [line.rpartition(",")[2] for line in lines if line.startswith("loss,23,")] == ["0.7", "nan"]
    judged = warm.run_tcprobe("compare", finite, plain, "--fail-if", "logged.loss>+5%")
    assert judged.returncode == 2
    assert "cannot tell" in judged.stderr
    assert "the last value logged is nan" in judged.stderr


def test_the_python_api_tells_nan_from_na(plain: Path, finite: Path) -> None:
    run = tcprobe.read(plain)
    mine = run.metrics[run.metrics["name"] == "loss"]["value"]
    assert not mine.isna().any()
    assert math.isnan(mine.iloc[-1])
    losses = tcprobe.compare(finite, run).losses
    last = losses[(losses["name"] == "loss") & (losses["step"] == 23)]["value"]
    assert str(last.dtype) == "Float64"
    assert not last.isna().any()
    assert (last.iloc[0], math.isnan(last.iloc[1])) == (0.7, True)


def test_a_training_that_diverges(tmp_path: Path) -> None:
    folder = profiled(tmp_path, TRAINED)
    values = logged(folder / "probe/metrics.csv", "loss")
    assert values[0] == "64.0"
    assert values[-1] == "nan"
    since = next(step for step, value in enumerate(values) if values[step:] == ["nan"] * len(values[step:]))
    assert f"loss nan since step {since}\n" in warm.run_tcprobe("report", folder).stdout
