"""What is kept names no path, machine or user."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from bench.gpu.day import LOG, ROOT, NotRecorded
from bench.gpu.runs.clean import cleaned, cleaned_report, cleaner, without_names
from bench.gpu.runs.keep import complaints, keep_run, why
from bench.gpu.tables import read_table

SCRATCH = Path("/data/ann/day/scratch")
CLEAN = without_names(cleaner(SCRATCH, Path("/opt/tf")), {"node7", "ann"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ROOT}/workloads/train_gan.py:182", "workloads/train_gan.py:182"),
        ("/opt/tf/lib/python3.11/site-packages/keras/layers.py:5", "lib/python3.11/site-packages/keras/layers.py:5"),
        (f"see {SCRATCH}/run/raw/a.pb", "see run/raw/a.pb"),
        ("--xla_gpu_cuda_data_dir=/home/ann/cuda-12", "--xla_gpu_cuda_data_dir=cuda-12"),
        ("/usr/lib/x:/usr/lib/y", "x:y"),
        ("'/home/ann/it.py'", "'it.py'"),
        ("/home/ann/", ""),
        ("written by ann on node7", "written by *** on ***"),
        ("scan node70 planning", "scan node70 planning"),
        ("as root", "as root"),
        ("GPU-1a2b3c4d-0000-1111-2222-333344445555,1", "***,1"),
        ("GPU-accelerated", "GPU-accelerated"),
        ("gradient_tape/generator/conv2d/Conv2D", "gradient_tape/generator/conv2d/Conv2D"),
        ("/job:localhost/replica:0/task:0/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0"),
        ("https://www.tensorflow.org/guide/keras", "https://www.tensorflow.org/guide/keras"),
        ("52.1 img/s", "52.1 img/s"),
    ],
)
def test_a_text_keeps_all_but_where_it_was_recorded(text: str, told: str) -> None:
    assert CLEAN(text) == told


def test_a_record_loses_host_and_place() -> None:
    record = {"host": "node7", "cwd": "/data", "command": [f"{ROOT}/workloads/a.py", 3], "rank": None}
    assert cleaned({**record, "in": [{"paths": ["/x"]}]}, CLEAN) == {
        "command": ["workloads/a.py", 3],
        "rank": None,
        "in": [{}],
    }


def test_tables_of_a_report_keep_names_that_chance_to_be_the_machines() -> None:
    host = platform.node() or "here"
    report = {
        "metadata": {"host": host, "framework": f"on {host}"},
        "tables": {"ops": [{"op": host, "source": "/a/b/c.py:1"}]},
    }
    told = cleaned_report(report, cleaner())
    assert told == {"metadata": {"framework": "on ***"}, "tables": {"ops": [{"op": host, "source": "c.py:1"}]}}


def run_folder(scratch: Path) -> None:
    (scratch / "run/probe").mkdir(parents=True)
    record = {"host": platform.node(), "cwd": str(scratch), "command": [str(scratch / "a.py")], "exit_code": 0}
    (scratch / "run/run.json").write_text(json.dumps(record), encoding="utf-8")
    (scratch / "run/probe/steps.csv").write_text("step,start_ns,kind\n0,5,warm-up\n", encoding="utf-8")


def test_a_run_is_kept_without_its_report_too(tmp_path: Path) -> None:
    run_folder(tmp_path / "scratch")
    record = keep_run(tmp_path / "scratch", tmp_path, Path("/opt/tf"), raw=True)
    assert record["exit_code"] == 0
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == {"command": ["a.py"], "exit_code": 0}
    assert read_table(tmp_path / "steps.csv.gz") == [{"step": "0", "start_ns": "5", "kind": "warm-up"}]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.json", "scratch", "steps.csv.gz"]


def test_what_was_not_started_says_why(tmp_path: Path) -> None:
    printed = f"W0000 noise\ntcprobe: running a\ntcprobe: error: {ROOT}/x: is missing\nhint: make it\n"
    (tmp_path / LOG).write_text(printed, encoding="utf-8")
    assert complaints(tmp_path / LOG) == ["tcprobe: error: x: is missing", "hint: make it"]
    with pytest.raises(NotRecorded, match="no run folder: tcprobe: error: x: is missing hint: make it"):
        keep_run(tmp_path, tmp_path, Path("/opt/tf"))
    (tmp_path / LOG).write_text("ResourceExhaustedError: no memory\n\ntcprobe: run folder kept: y\n", encoding="utf-8")
    assert why(tmp_path / LOG) == "ResourceExhaustedError: no memory"
    assert why(tmp_path / "none") == "it does not say why"
