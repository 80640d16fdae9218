"""Every workload but the GAN: what its options do, its log lines, and a few real steps in one process."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Final

import pytest

from tests import warm
from tests.support import ROOT
from workloads import train_mnist

FOLDER: Final = ROOT / "workloads"
DRIVER: Final = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
for name, *args in json.loads(sys.argv[2]):
    print("==", name, *args, flush=True)
    tf.keras.mixed_precision.set_global_policy("float32")
    importlib.import_module(name).main(args)
"""
HALF: Final = ("--precision", "mixed_float16")
NUMBER: Final = r"[-+.e\d]+|nan"
STEP: Final = re.compile(
    rf"^[\d-]+ [\d:,]+ - INFO - \((\d+), (\d+)\), Loss: (?P<loss>{NUMBER}), step_time: [\d.]+, "
    r"throughput: [\d.e+]+ (?:img|tokens)/s\.$",
    re.M,
)
EPOCH: Final = re.compile(
    rf"^[\d-]+ [\d:,]+ - INFO - \((\d+), (\d+)\), (?:accuracy: [\d.]+, )?loss: (?P<loss>{NUMBER}), "
    r"(?:val_\w+: [\d.]+, )*step_time: [\d.]+, throughput: [\d.e+]+ (?:img|tokens)/s\.$",
    re.M,
)
LINES: Final = {"train_mnist": STEP, "lstm": STEP}  # of every step; the others log each epoch
RUNS: Final[tuple[tuple[str, ...], ...]] = (
    ("train_mnist", "--steps", "2", "--batch-size", "4"),
    ("train_mnist", "--steps", "3", *HALF, "--loss-scale", "1e6"),
    ("train_mnist", "--steps", "3", *HALF, "--loss-scale", "1e38"),
    ("train_mnist", "--steps", "2", *HALF, "--loss-scale", "1024", "--hard-coded-float32", "--batch-size", "2"),
    ("train_mnist", "--steps", "2", *HALF, "--batch-size", "2"),
    ("mixed_dense", "--steps", "2", "--units", "16", "--batch-size", "8"),
    ("transformer", "--steps", "2", "--vocabulary", "500", *HALF),
    ("lstm", "--steps", "2", "--vocabulary", "500", *HALF, "--loss-scale", "none", "--fallback", "activation"),
)
LONG: Final = ("transfer_learning", "--steps", "2")
"""Its backbone takes half as long as all the others."""


def losses(runs: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    """Run workloads one after the other in one process; return the losses that each logged."""
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    command = [warm.python(), "-c", DRIVER, str(FOLDER), json.dumps(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    _, *parts = done.stdout.split("== ")
    return [[m["loss"] for m in LINES.get(part.split()[0], EPOCH).finditer(part)] for part in parts]


@pytest.mark.tensorflow
def test_they_train_and_log_every_step() -> None:
    found = losses(RUNS)
    assert [len(one) for one in found] == [2, 3, 3, 2, 2, 1, 1, 2]
    # Too large a scale: the first loss is a number, and its update makes the weights none.
    assert [[loss == "nan" for loss in one] for one in found[1:3]] == [[False, True, True]] * 2
    assert not [loss for one in (found[0], *found[3:]) for loss in one if not 1.0 < float(loss) < 7.0]


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_backbone_is_fine_tuned() -> None:
    (found,) = losses((LONG,))
    assert len(found) == 2


@pytest.mark.parametrize("args", [["--loss-scale", "much"], ["--loss-scale", "-1"], ["--steps", "0"], ["--data", "x"]])
def test_what_train_mnist_refuses(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        train_mnist.parse_args(args)
    assert ended.value.code == 2
    assert f"argument {args[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "scale"),
    [([], None), (HALF, "dynamic"), ((*HALF, "--loss-scale", "none"), None), (("--loss-scale", "1e38"), 1e38)],
)
def test_the_loss_scale(args: tuple[str, ...], scale: object) -> None:
    assert train_mnist.parse_args(list(args)).loss_scale == scale


@pytest.mark.parametrize(
    ("args", "has_gpu", "expected"),
    [
        ([], True, (1024, 58, 232)),
        ([], False, (64, 937, 30)),
        (HALF, False, (8, 7500, 8)),
        (["--steps", "40", "--batch-size", "100"], False, (100, 600, 40)),
    ],
)
def test_the_plan_of_train_mnist(args: list[str], has_gpu: bool, expected: tuple[int, ...]) -> None:
    assert train_mnist.plan(train_mnist.parse_args(list(args)), has_gpu) == expected


@pytest.mark.parametrize(
    ("name", "args", "serious"),
    [
        ("mixed_dense", (), {("TC201", None)}),  # of 1,024 samples a size is a note, of the batch of 8192 an error
        ("mixed_dense", ("--units", "4096", "--softmax", "right"), set()),
        ("transformer", (), {("TC105", 30522)}),
        ("transformer", ("--vocabulary", "30528"), set()),
        ("lstm", ("--fallback", "recurrent_dropout"), {("TC107", None)}),
        ("lstm", (), set()),
    ],
)
def test_what_an_audit_finds_without_running(name: str, args: tuple[str, ...], serious: set[object]) -> None:
    given = ("--run", FOLDER / f"{name}.py", "--", *args)
    done = warm.run_tcprobe("audit-shapes", "--mode", "source", "--batch-size", "1024", "--format", "json", *given)
    (audited,) = json.loads(done.stdout)["audited"]
    found = {(one["code"], one["size"]) for one in audited["findings"] if one["severity"] in ("error", "warning")}
    assert found == serious


@pytest.mark.tensorflow
def test_the_traced_audit_of_mixed_dense() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    given = ("--python", warm.python(), "--format", "json", "--run", FOLDER / "mixed_dense.py")
    (audited,) = json.loads(warm.run_tcprobe("audit-shapes", *given).stdout)["audited"]
    serious = [one for one in audited["findings"] if one["severity"] in ("error", "warning")]
    assert sorted((one["code"], one["size"]) for one in serious if one["code"] == "TC101") == [("TC101", 4090)] * 2
    assert [one["code"] for one in serious if one["code"] != "TC101"] == ["TC201"]
    assert all(one["saving_ns"]["high"] > 0 for one in serious if one["code"] == "TC101")


@pytest.mark.parametrize(("args", "codes"), [(("--hard-coded-float32",), ["TC204"]), ((), [])])
def test_the_layer_hard_coded_to_float32_is_read_with_its_line(args: tuple[str, ...], codes: list[str]) -> None:
    script = FOLDER / "train_mnist.py"
    done = warm.run_tcprobe(
        *("audit-shapes", "--mode", "source", "--format", "json", "--run", script, "--", *HALF, *args)
    )
    (audited,) = json.loads(done.stdout)["audited"]
    serious = [one for one in audited["findings"] if one["severity"] in ("error", "warning")]
    assert [one["code"] for one in serious] == codes
    assert done.returncode == len(codes)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert all("layers.Dense(128" in lines[one["place"]["line"] - 1] for one in serious)
