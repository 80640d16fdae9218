"""Runs of several ranks: two under real Open MPI with TensorFlow, and what `--ranks` means."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.more_runs import parse_ranks
from tcprobe.flows.profile import ProfileOptions, profile

WORK = """
import os, sys, time
import tensorflow as tf
w = tf.Variable(tf.ones((64, 64)))
@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(x, w))
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss
for i in range(8):
    train_step(tf.ones((32, 64)))
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("text", "ranks"), [(None, None), ("0,7", (0, 7)), ("4-6, 1", (1, 4, 5, 6)), ("3", (3,)), ("2-2,2", (2,))]
)
def test_which_ranks(text: str | None, ranks: tuple[int, ...] | None) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "0-9999999"])
def test_what_is_no_list_of_ranks(text: str) -> None:
    with pytest.raises(UsageError, match="is no rank and no range of ranks"):
        parse_ranks(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": (0,)}, "no --launcher starts one"),
        ({"ranks": (0,), "launcher": ("mpirun",), "precision": "mixed_float16"}, "lets other ranks run plain"),
    ],
)
def test_what_ranks_cannot_have(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        profile(ProfileOptions(("train_gan",), **options))  # type: ignore[arg-type]


def test_two_ranks_under_open_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun (openmpi-bin) here to start two ranks with")
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    script = tmp_path / "work.py"
    script.write_text(WORK)
    launcher = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2")
    made = profile(ProfileOptions((str(script),), launcher=launcher, output=tmp_path / "run"))
    assert made.failure is None and made.exit_code == 0 and made.report is not None
    assert [(r["rank"], r["state"]) for r in made.report.require("ranks").rows()] == [(0, "read"), (1, "read")]
    for rank in (0, 1):
        place = tmp_path / "run" / "ranks" / f"rank-{rank}"
        record = json.loads((place / "run.json").read_text())
        assert (record["rank"], record["exit_code"], record["partial"]) == (rank, 0, False)
        assert len(list(place.glob("raw/**/*.xplane.pb"))) == 1
    assert {r["op_type"] for r in made.report.require("gemms").rows()} == {"MatMul"}
    assert not (tmp_path / "run/probe/probe.json").exists()
    assert "CUDA_VISIBLE_DEVICES" not in record["environment"], "which GPU is whose is not tcprobe's to say"
