"""Exit codes where layers could not be judged: 2 for files that were named, 0 for folders and where it is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.report.audit import unjudged, words

TORCH = "from torch import nn\nnet = nn.Linear(250, 63)\n"
OPEN = "from keras import layers\ndef block(x, units):\n    return layers.Dense(units)(x)\n"
MATMUL = "import tensorflow as tf\ndef f(x, w):\n    return tf.matmul(x, w)\n"
READY = "import keras\nmodel = keras.applications.ResNet50()\n"
NONE = "import tensorflow as tf\nprint(tf.__version__)\n"
DROPOUT = "import keras\nx = keras.layers.Dropout(0.5)(keras.Input((8,)))\n"
CLEAN = "import keras\nx = keras.layers.Dense(64)(keras.Input((8,)))\n"
PARTLY = CLEAN + TORCH
HEAD = "import json, pathlib, keras, numpy as np\nx = keras.Input((8,))\n"
"""Of what reads a size as it runs."""
LAYER = "y = keras.layers.Dense(a)(keras.Input((a,)))\n"


def run(*names: Path | str, **options: bool) -> AuditOutcome:
    return audit(AuditOptions(tuple(map(str, names)), mode="source", **options), lambda _: None)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"torch_net": TORCH, "open": OPEN, "clean": CLEAN}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "code"),
    [(TORCH, 2), (OPEN, 2), (MATMUL, 2), (READY, 2), (NONE, 0), (DROPOUT, 0), (CLEAN, 0), (PARTLY, 0)],
)
def test_a_named_file(tmp_path: Path, text: str, code: int) -> None:
    path = tmp_path / "m.py"
    path.write_text(text, encoding="utf-8")
    assert run(path).exit_code == code
    assert run(path, allow_unjudged=True).exit_code == 0
    assert bool(run(path, allow_unjudged=True).report.unjudged) is bool(code)


@pytest.mark.parametrize(
    ("size", "code"),
    [
        ("json.load(open('sizes.json'))['units']", 0),
        ("len(open('vocabulary.txt').read().split()) + 1", 0),
        ("int(np.load('data.npy').shape[1])", 0),
        ("len([w.strip() for w in open('words.txt')])", 0),
        ("len(sorted({w: 1 for w in list(open('words.txt'))})) + 1", 0),
        ("sum(1 for _ in open('words.txt'))", 0),
        ("len(pathlib.Path('words.txt').read_text().splitlines())", 0),
        ("len(keras.utils.image_dataset_from_directory('d').class_names)", 0),
        ("len([w for w in unknown()])", 2),
        ("unknown()", 2),
    ],
)
def test_a_size_that_a_file_decides_as_the_program_runs_is_no_failure(tmp_path: Path, size: str, code: int) -> None:
    path = tmp_path / "m.py"
    path.write_text(f"{HEAD}a = {size}\n{LAYER}", encoding="utf-8")
    outcome = run(path)
    assert outcome.exit_code == code
    assert words.tally(outcome.report) == "Found nothing in 1 layer; 1 layer not judged."


def test_what_is_unpacked_of_a_file_is_of_it(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    text = "import tensorflow_datasets as tfds\nd, info = tfds.load('d', with_info=True)\n"
    path.write_text(f"{text}{HEAD}a = info.features['label'].num_classes\n{LAYER}", encoding="utf-8")
    assert run(path).exit_code == 0


def test_a_reason_that_stands_alone_is_a_clause(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(f"{HEAD}a = unknown()\n{LAYER}", encoding="utf-8")
    ((_, why),) = unjudged.failing(run(path).report)
    assert "1 thing: a value that is the result of unknown() (1)" in why


def test_a_size_that_a_file_decides_beside_others_is_counted_by_layers(tmp_path: Path) -> None:
    text = f"{HEAD}with open('sizes.json') as f:\n    n = json.load(f)['n']\nd = keras.layers.Dense\n"
    path = tmp_path / "m.py"
    path.write_text(f"{text}y = d(64)(d(n)(d(64)(x)))\n", encoding="utf-8")
    outcome = run(path)
    assert (outcome.exit_code, words.tally(outcome.report)) == (0, "Found nothing in 3 layers; 2 layers not judged.")
    assert all(unseen.read for audited in outcome.report.audited for unseen in audited.unseen)


def test_a_folder_is_a_note(folder: Path) -> None:
    outcome = run(folder)
    assert outcome.exit_code == 0
    assert [(Path(one.file).name, one.fails) for one in outcome.report.unjudged] == [
        ("open.py", False),
        ("torch_net.py", False),
    ]


def test_a_file_that_is_named_beside_its_folder_fails(folder: Path) -> None:
    for names in ((folder, folder / "open.py"), (folder / "open.py", folder)):
        outcome = run(*names)
        assert outcome.exit_code == 2
        assert [Path(one.file).name for one in outcome.report.unjudged if one.fails] == ["open.py"]


def test_other_files_are_reported_all_the_same(folder: Path) -> None:
    (folder / "bad.py").write_text(CLEAN.replace("64", "250"), encoding="utf-8")
    outcome = run(folder / "torch_net.py", folder / "bad.py")
    assert (outcome.exit_code, len(outcome.report.findings())) == (2, 1)
