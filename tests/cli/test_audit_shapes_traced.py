"""`tcprobe audit-shapes` in traced mode, with real TensorFlow, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.test_audit_shapes import BAD, HALF, audit, refused
from tests.support import needs_tensorflow

pytestmark = [
    pytest.mark.tensorflow,
    needs_tensorflow,
]


def findings(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    document = json.loads(done.stdout)
    return [f for audited in document["audited"] for f in audited["findings"]]


def audit_warm(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Audit with an interpreter that has TensorFlow imported already."""
    return audit("--python", warm.python(), *args, cwd=cwd)


def test_a_factory_with_arguments(tmp_path: Path) -> None:
    layers = "keras.Input((512,)), keras.layers.Dense(units), keras.layers.Dense(512)"
    text = f"import keras\ndef make(units):\n    return keras.Sequential([{layers}])\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    done = audit_warm("m.py:make", "--arg", "units=4090", *HALF, "--format", "json", cwd=tmp_path)
    (found,) = [f for f in findings(done) if f["code"] == "TC101"]
    assert (found["dimension"], found["size"], found["suggested"]) == ("units", 4090, 4096)
    assert "units" in refused("m.py:make", "--python", warm.python(), cwd=tmp_path)


def test_a_module_that_the_file_imports_is_audited_with_its_comments(tmp_path: Path) -> None:
    blocks = "from keras import layers\ndef block():\n    return layers.Dense(4090)  # tcprobe: ignore[TC1]\n"
    (tmp_path / "blocks.py").write_text(blocks, encoding="utf-8")
    text = "import keras\nfrom blocks import block\nmodel = keras.Sequential([keras.Input((512,)), block()])\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    done = audit_warm("m.py", *HALF, "--verbose", cwd=tmp_path)
    assert done.returncode == 0
    assert "blocks.py:3:" in done.stdout
    assert "suppressed: TC1" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("while True: pass\n", "within 2 s"),
        ("import keras\nraise RuntimeError('no such data')\n", "no such data"),
        ("import keras\nx = 1\n", "model"),
    ],
)
def test_what_cannot_be_traced_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    python = warm.python() if "x = 1" in text else sys.executable
    seconds = "2" if "while" in text else "60"
    assert said in refused("m.py", "--mode", "traced", "--timeout", seconds, "--python", python, cwd=tmp_path)


def test_a_file_that_raises_is_read_however_it_was_to_be_traced(tmp_path: Path) -> None:
    guarded = "".join("    " + line + "\n" for line in BAD.splitlines())
    text = f"import a_package_that_nobody_has as data\ndef main():\n{guarded}    model.fit(data.load())\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    for asked in ([], ["--mode", "traced"], ["--run"]):
        done = audit_warm("m.py", *asked, *HALF, "--format", "json", cwd=tmp_path)
        assert done.returncode == 1
        assert [(f["code"], f["size"]) for f in findings(done) if f["severity"] != "note"] == [("TC101", 255)]
        (said,) = done.stderr.splitlines()
        assert said.startswith("tcprobe: m.py: shapes are read from the source alone: ModuleNotFoundError: No module")
        (audited,) = json.loads(done.stdout)["audited"]
        assert (audited["mode"], any("a_package_that_nobody_has" in note for note in audited["notes"])) == (
            "source",
            True,
        )
    assert "a_package_that_nobody_has" in refused("m.py:main", "--python", warm.python(), cwd=tmp_path)


def test_a_file_of_another_framework_is_named_where_that_is_not_installed(tmp_path: Path) -> None:
    text = "import a_package_that_nobody_has\nfrom torch import nn\nlinear = nn.Linear(10, 250)\n"
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    done = audit_warm("net.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("net.py: nothing judged: 1 layer of PyTorch (Linear 1)")
    assert audit_warm("net.py", "--allow-unjudged", cwd=tmp_path).returncode == 0


def test_a_shape_for_a_name_that_nothing_has_is_refused_and_one_against_the_code_is_told(tmp_path: Path) -> None:
    layers = "keras.Input((None, 8), name='words'), keras.layers.Dense(64)"
    text = f"import keras\nnet = keras.Sequential([{layers}])\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    said = refused("m.py", "--input-shape", "word=5,8", "--python", warm.python(), cwd=tmp_path)
    assert "hint: inputs without a shape: words" in said
    done = audit_warm("m.py", "--input-shape", "words=5,9", cwd=tmp_path)
    assert "--input-shape 5,9 is not taken for words: its shape is ?,8 in the code." in done.stdout


def test_what_was_not_run_is_read_beside_what_was(tmp_path: Path) -> None:
    guarded = "".join("    " + line + "\n" for line in BAD.splitlines())
    built = "keras.Sequential([keras.Input((256, 512)), keras.layers.Dense(4090), keras.layers.Dense(512)])"
    text = (
        f"import keras\nnet = {built}\nnet.compile('sgd', 'mse')\ndef train(path):\n{guarded}import no_such_package\n"
    )
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    for asked in ([], ["--mode", "traced"], ["--run"]):
        done = audit_warm("m.py", *asked, *HALF, "--format", "json", cwd=tmp_path)
        assert [a["mode"] for a in json.loads(done.stdout)["audited"]] == ["traced", "source"]
        assert {f["size"] for f in findings(done) if f["severity"] != "note"} == {4090, 255}
        assert "shapes of what was not run are read from the source" in done.stderr


def test_what_stands_behind_a_loop_is_read_and_nothing_is_judged_twice(tmp_path: Path) -> None:
    text = (
        "import tensorflow as tf\nfrom keras import Input, Sequential\nfrom keras.layers import Dense\n"
        "def make(units):\n    return Sequential([Input((512,)), Dense(units), Dense(512)])\n"
        "def train(model):\n    for _ in range(9):\n        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean(model(tf.ones((64, 512))))\n"
        "        tape.gradient(loss, model.trainable_variables)\n"
        "train(make(250))\ntrain(make(314))\ntrain(Sequential([Input((512,)), Dense(378)]))\ntrain(make(250))\n"
    )
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    done = audit_warm("m.py", "--run", *HALF, "--format", "json", cwd=tmp_path)
    audited = json.loads(done.stdout)["audited"]
    told = [(a["mode"], a["layers"], a["products"]) for a in audited]
    assert told == [("traced", 2, 5), ("source", 2, 5), ("source", 1, 2)]  # what trains apart is a model each
    assert [[f["size"] for f in a["findings"] if f["code"] != "TC108"] for a in audited] == [[250], [314], [378]]
    assert all("read from the source" in a["notes"][-1] for a in audited[1:])


def test_layers_that_the_import_does_not_construct_are_named(tmp_path: Path) -> None:
    built = "keras.Sequential([keras.Input((512,)), keras.layers.Dense(64)])"
    text = f"import keras\nnet = {built}\nif __name__ == '__main__':\n    other = {built}\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    done = audit_warm("m.py", "--verbose", cwd=tmp_path)
    assert "m.py:4:52: not judged: Dense 'dense_1': importing the file does not construct it: --run" in done.stdout
    assert "m.py:2:" not in done.stdout
    assert "not judged" not in audit_warm("m.py", "--mode", "traced", cwd=tmp_path).stdout


def test_both_ways_find_the_same_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    lines = {}
    for mode in ("traced", "source"):
        done = audit_warm("bad.py", "--mode", mode, *HALF, "--format", "json", cwd=tmp_path)
        lines[mode] = [(f["code"], f["place"]["line"], f["size"]) for f in findings(done) if f["severity"] != "note"]
    assert lines["traced"] == lines["source"] == [("TC101", 6, 255)]
