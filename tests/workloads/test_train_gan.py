"""The GAN: its sizes, its presets, its log line, and a real run."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT
from workloads import train_gan

SCRIPT = ROOT / "workloads" / "train_gan.py"
LINE = re.compile(
    r"^[\d-]+ [\d:,]+ - INFO - \((\d+), (\d+)\), G Loss: [\d.]+, D Loss: [\d.]+, step_time: [\d.]+, "
    r"throughput: [\d.]+ img/s\.$",
    re.M,
)
LAYERS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
import train_gan as gan
models = {s: gan.build_generator(tf, gan.SIZES[s]) for s in ("good", "bad")}
models["discriminator"] = gan.build_discriminator(tf)
def size(layer):
    return getattr(layer, "units", None) or getattr(layer, "filters", None)
print(json.dumps({name: {"sizes": [size(l) for l in m.layers if size(l)], "output": list(m.output_shape),
                         "dtype": m(tf.zeros((1, *m.input_shape[1:]))).dtype.name} for name, m in models.items()}))
"""


class Bare:
    """A TensorFlow without a GPU."""

    class config:
        @staticmethod
        def list_physical_devices(kind: str) -> list[str]:
            return []


def run(*args: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, str(SCRIPT), *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("args", "has_gpu", "expected"),
    [
        ([], True, (4096, 4, 14, 56)),  # 60,000 images make 14 iterations an epoch, 56 in all
        (["--sizes", "bad"], True, (4090, 4, 14, 56)),
        (["--batch-size", "512", "--epochs", "1"], True, (512, 1, 117, 117)),
        (["--steps", "5"], True, (4096, 4, 14, 5)),
        (["--steps", "1000"], True, (4096, 4, 14, 56)),
        ([], False, (64, 4, 937, 30)),
        (["--sizes", "bad"], False, (60, 4, 1000, 30)),
        (["--precision", "mixed_float16"], False, (8, 4, 7500, 6)),
        (["--steps", "40"], False, (64, 4, 937, 40)),
    ],
)
def test_plan(args: list[str], has_gpu: bool, expected: tuple[int, ...]) -> None:
    assert train_gan.plan(train_gan.parse_args(args), has_gpu) == expected


@pytest.mark.parametrize(
    ("text", "precision", "expected"),
    [
        (None, "mixed_float16", "dynamic"),
        (None, "tf32", None),
        (None, "mixed_bfloat16", None),
        ("none", "mixed_float16", None),
        ("1024", "tf32", 1024.0),
        ("dynamic", "float32", "dynamic"),
    ],
)
def test_loss_scale(text: str | None, precision: str, expected: object) -> None:
    assert train_gan.loss_scale(text, precision) == expected


@pytest.mark.parametrize("text", ["much", "0", "-1", "inf", "nan"])
def test_a_loss_scale_that_is_none(text: str) -> None:
    done = run(f"--loss-scale={text}")
    assert done.returncode == 2
    assert "expected none, dynamic or a number above 0" in done.stderr


@pytest.mark.parametrize("args", [["--steps", "0"], ["--batch-size", "-3"], ["--sizes", "odd"], ["--precision", "fp8"]])
def test_bad_arguments(args: list[str]) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.tensorflow
def test_an_audited_run_has_the_sizes_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Planned(Exception):
        pass

    def plan(args: object, has_gpu: bool) -> None:
        raise Planned(has_gpu)

    monkeypatch.setattr(train_gan, "import_tensorflow", lambda args: Bare())
    monkeypatch.setattr(train_gan, "check_precision", lambda tf, precision: None)
    monkeypatch.setattr(train_gan, "plan", plan)
    for audited, big in (("1", True), ("0", False)):
        monkeypatch.setenv("TCPROBE_AUDIT", audited)
        with pytest.raises(Planned) as raised:
            train_gan.main(["--sizes", "bad"])
        assert raised.value.args == (big,)


def test_the_layers_are_those_of_the_tutorial() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    done = subprocess.run([warm.python(), "-c", LAYERS, str(SCRIPT.parent)], capture_output=True, text=True, check=True)
    models = json.loads(done.stdout.splitlines()[-1])
    assert models["good"]["sizes"] == [3136, 64, 32, 8, 1]
    assert models["bad"]["sizes"] == [3087, 63, 31, 7, 1]
    assert models["discriminator"]["sizes"] == [24, 64, 128, 1]
    assert models["good"]["output"] == models["bad"]["output"] == [None, 28, 28, 1]
    assert {m["dtype"] for m in models.values()} == {"float32"}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["--sizes", "bad"], marks=pytest.mark.long),
        ["--precision", "mixed_float16"],
        pytest.param(["--precision", "float32"], marks=pytest.mark.long),
    ],
)
def test_it_trains_and_logs_every_step(args: list[str]) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    done = run("--steps", "2", "--batch-size", "8", *args, python=warm.python())
    assert done.returncode == 0, done.stderr
    assert LINE.findall(done.stdout) == [("0", "0"), ("0", "1")]


@pytest.mark.tensorflow
@pytest.mark.long
def test_two_replicas_on_one_machine() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    done = run("--steps", "2", "--batch-size", "4", "--strategy", "mirrored", python=warm.python())
    assert done.returncode == 0, done.stderr
    assert LINE.findall(done.stdout) == [("0", "0"), ("0", "1")]


@pytest.mark.tensorflow
@pytest.mark.long
def test_two_workers_on_one_machine() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    command = [sys.executable, str(SCRIPT), "--steps", "2", "--batch-size", "4", "--strategy", "multiworker"]
    workers = []
    for index in (1, 0):
        told = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}})
        environment = {**os.environ, "TF_CONFIG": told}
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    losses = [LINE.findall(worker.communicate(timeout=300)[0]) for worker in workers]
    assert losses == [[("0", "0"), ("0", "1")]] * 2


def test_workers_without_their_addresses_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(SystemExit, match="needs TF_CONFIG"):
        train_gan.make_strategy(Bare, "multiworker")


@pytest.mark.tensorflow
def test_mnist_offline_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    done = run("--data", "mnist", "--steps", "1", "--batch-size", "8")
    assert done.returncode == 1
    assert "MNIST cannot be downloaded" in done.stderr
    assert "Traceback" not in done.stderr
