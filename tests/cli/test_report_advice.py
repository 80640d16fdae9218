"""What `tcprobe report` says to do first, on public profiles and on made runs whose GPU waits."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcprobe.flows.report import make_report
from tcprobe.report.run.advice import as_json
from tests import warm
from tests.fixtures.gpu_run import variants
from tests.fixtures.gpu_run.make import RUN, load
from tests.support import ROOT, shared

XPLANE = "samples/xplane/{}.xplane.pb"
SIMPLE = "samples/dlprof/simple_0.16_json/{}.json"
SAMPLES = {
    XPLANE.format("tf24_v100_idle_0.07pct"): ["TC301", "TC313"],
    XPLANE.format("tf25_turing_idle"): ["TC313", "TC301", "TC310", "TC303"],
    XPLANE.format("tf25_turing_chess_fp32"): ["TC301", "TC303", "TC313"],
    XPLANE.format("tf25_turing_busy_88pct"): ["TC303", "TC311", "TC301", "TC301", "TC313"],
    XPLANE.format("tf24_t4_alexnet_fp32"): ["TC303", "TC301", "TC318", "TC313"],
    XPLANE.format("tf24_v100_alexnet_fp32"): ["TC301", "TC303", "TC318", "TC313"],
    XPLANE.format("tf24_p100_alexnet_fp32"): ["TC305", "TC301", "TC301", "TC318", "TC313"],
    XPLANE.format("tf24_t4_autotuning_step"): ["TC302", "TC301", "TC303"],
    XPLANE.format("tf22_8xv100_bert_step0"): ["TC301"],
    XPLANE.format("jax08_mi300_gemm"): ["TC301", "TC301", "TC313"],
    XPLANE.format("jax08_mi300_attention"): ["TC301", "TC313"],
    "samples/nsys_stats/new_cuda_gpu_trace.csv": ["TC302"],
    "samples/dlprof/a100x4_pytorch_1.7_summary.csv": ["TC301"],
    "samples/dlprof/pytorch_1.8": ["TC302"],
    "samples/dlprof/v100_tf1_0.13_detailed.csv": ["TC310"],
    SIMPLE.format("a100-40gb-400w_distilroberta-base_128-128"): ["TC313", "TC301", "TC309"],
    SIMPLE.format("a100-40gb-400w_roberta-large_128-8"): ["TC313", "TC301", "TC309"],
    SIMPLE.format("v100-16gb-300w_roberta-large_128-8"): ["TC313", "TC301", "TC309"],
}
Changed = Callable[[Callable[[Any], Any]], Path]


def shown(*args: str | Path) -> str:
    done = warm.run_tcprobe(*args, XDG_CONFIG_HOME=str(ROOT / "no calibration"))
    assert (done.returncode, done.stderr if "-o" not in args else "") == (0, "")
    return done.stdout


def advice(path: Path) -> list[dict[str, Any]]:
    """Return the items as JSON has them, without a process of their own; one test holds the two together."""
    return [as_json(item) for item in make_report(path).advice]


def saves(item: dict[str, Any]) -> float | None:
    likely: float | None = item["saving_ns"]
    return item["at_most_ns"] if likely is None else likely


def holds(items: list[dict[str, Any]]) -> None:
    """Assert that the items are ordered by what they save of the step, and that none promises more than it has."""
    known = [ns for item in items if (ns := saves(item)) is not None]
    assert known == sorted(known, reverse=True)
    for item in items:
        assert all(ns is None or ns <= item["step_ns"] for ns in (item["at_most_ns"], item["saving_high_ns"]))
        assert item["step_pct"] is None or item["step_pct"] >= 1


@pytest.mark.parametrize("path", SAMPLES)
def test_the_first_item_saves_most_of_the_step(path: str) -> None:
    items = advice(shared(path))
    assert [item["code"] for item in items] == SAMPLES[path]
    holds(items)


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    def write(change: Callable[[Any], Any]) -> Path:
        run = load()
        change(run)
        return run.write(tmp_path / "run")

    return write


@pytest.mark.parametrize(
    ("pct", "work", "said", "more"),
    [
        (0.07, "input", "prefetch(AUTOTUNE)", []),
        (5, "copy_call", "pageable memory", ["TC307", "TC315"]),
        (5, "compile", "Profile after warm-up", ["TC307", "TC315"]),
        (20, "python", "tf.function", ["TC310", "TC307", "TC315"]),
        (20, "launch", "jit_compile=True", ["TC307", "TC315"]),
    ],
)
def test_a_made_run_is_told_what_its_gpu_waits_for(
    changed: Changed, pct: float, work: Any, said: str, more: list[str]
) -> None:
    items = advice(changed(lambda run: variants.busy(run, pct, work)))
    assert [item["code"] for item in items] == ["TC301", *more]
    (busy, waited), part = ((items[0][name] for name in ("busy_ns", "idle_ns")), items[0]["work_pct"])
    # `pct` counts all that runs in the window, 4 % of it kernels of the step before, which are not of a typical step.
    assert (items[0]["work"], 100 * busy / (busy + waited)) == (work, pytest.approx(pct, abs=0.5, rel=0.05))
    assert items[0]["at_most_ns"] == pytest.approx(waited * part / 100)
    assert said in items[0]["text"]
    holds(items)


def test_a_run_that_is_busy_for_60_pct_waits_for_more_than_its_layer_may_save(changed: Changed) -> None:
    """Of the waiting, little is the input pipeline's: most stood in the recorded run, whose kernels were queued."""
    idle, tiny, filters, *_ = advice(changed(lambda run: variants.busy(run, 60)))
    assert (tiny["code"], tiny["bound"]) == ("TC310", "launches")
    assert (idle["code"], idle["work"], filters["code"]) == ("TC301", "queued", "TC307")
    assert idle["step_pct"] == pytest.approx(40 + 0.04 * 60, abs=1)  # kernels of the step before are not of the step
    holds([idle, tiny, filters])


def test_a_busy_run_is_told_of_its_kernels_too() -> None:
    items = advice(RUN)
    assert [item["code"] for item in items] == ["TC301", "TC310", "TC307", "TC315"]
    holds(items)


def test_the_headline_says_what_the_first_item_says() -> None:
    text = shown("report", shared(XPLANE.format("tf24_v100_idle_0.07pct")), "--width", "0")
    assert "The GPU is WAITING >99 % of the step for the input pipeline." in text
    first = text.split("\nWhat to do, in full\n")[1]
    assert first.startswith("1. Prepare batches ahead")
    assert "the GPU waits 62.1 s of a step of 62.2 s" in first.splitlines()[0]
    assert "mixed precision" not in first.split("\n\n")[0]


def test_amd_is_not_told_of_cuda_or_tensor_cores_in_its_advice() -> None:
    text = shown("report", shared(XPLANE.format("jax08_mi300_gemm")))
    assert "CUDA_VISIBLE_DEVICES" not in text
    assert "set ROCR_VISIBLE_DEVICES to those in use" in text
    assert "Tensor Core" not in text.split("What to do, in full")[1].split("Figures")[0]


def test_advice_is_a_table_in_every_format(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("report", RUN, "--by", "advice", "--format", "csv"))))
    assert [(row["rank"], row["code"], row["kind"]) for row in rows] == [
        ("1", "TC301", "feed_gpu"), ("2", "TC310", "fuse_kernels"), ("3", "TC307", "slice_filters"),
        ("4", "TC315", "larger_batch"),
    ]  # fmt: skip
    items = json.loads(shown("report", RUN, "--format", "json"))["advice"]
    assert items == json.loads(json.dumps(advice(RUN)))
    assert [row["text"] for row in rows] == [item["text"] for item in items]
    assert (
        len(list(csv.DictReader(io.StringIO(shown("report", RUN, "--by", "advice", "--format", "csv", "--top", "1")))))
        == 1
    )
    assert len(json.loads(shown("report", RUN, "--format", "json", "--top", "1"))["advice"]) == 1
    page = shown("report", RUN, "--by", "advice", "--format", "markdown")
    assert "## What to do (4)" in page
    assert "| 1 | TC301 |" in page
    assert "What to do (4)\n" in shown("report", RUN, "--by", "advice")
    shown("report", RUN, "-o", tmp_path / "all")
    assert (tmp_path / "all" / "advice.csv").read_text(encoding="utf-8").count("\n") == 5


@pytest.mark.parametrize("word", ["TC301", "waiting-gpu"])
def test_advice_is_explained(word: str) -> None:
    text = shown("explain", word)
    assert text.startswith("TC301 waiting-gpu\n\n")
    assert "Weight: " in text
    assert "--fix" not in text
    assert "--ignore" not in text


def test_a_share_of_one_digit_is_not_told_as_a_time() -> None:
    """DLProf says that the GPU was busy for 0.1 % of a step of 233 ms: that is 116 to 350 us."""
    text = " ".join(shown("report", shared("samples/dlprof/a100x4_pytorch_1.7_summary.csv"), "--top", "1").split())
    assert "Why: sums alone were recorded; Nsight Systems has the times" in text
    assert "the GPU waits 233 ms of a step of 233 ms, 99.9 %. " in text
