"""TC201's fix: a softmax leaves the last layer and follows it in float32, proven by reading the file again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.flows.audit.fix import fixed, fixes_of
from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.rules.docs.precision import TC201

HEAD = "import keras\nfrom keras import layers\n"
SET = 'keras.mixed_precision.set_global_policy("mixed_float16")\n'
LISTED = HEAD + SET + 'model = keras.Sequential([keras.Input((64,)), layers.Dense(16, activation="softmax")])\n'
CALLED = (
    HEAD + SET + "x = keras.Input((64,))\n"
    'model = keras.Model(x, layers.Dense(16, activation="softmax", name="out")(layers.Dense(64)(x)))\n'
)
LINES = (
    HEAD + SET + "model = keras.Sequential([\n    keras.Input((64,)),\n"
    '    layers.Dense(16, activation="sigmoid"),  # the answer\n])\n'
)
IMPORTED = LISTED.replace("from keras import layers", "from keras.layers import Dense").replace("layers.Dense", "Dense")


def only(path: Path, text: str) -> AuditOutcome:
    path.write_text(text, encoding="utf-8")
    return audit(AuditOptions((str(path),), mode="source", select=("TC201",)), lambda _: None)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (LISTED, '(16, activation="softmax")', '(16), layers.Activation("softmax", dtype="float32")'),
        (
            CALLED,
            'layers.Dense(16, activation="softmax", name="out")(layers.Dense(64)(x))',
            'layers.Activation("softmax", dtype="float32")(layers.Dense(16, name="out")(layers.Dense(64)(x)))',
        ),
        (
            LINES,
            'Dense(16, activation="sigmoid"),  # the answer\n',
            'Dense(16), layers.Activation("sigmoid", dtype="float32"),  # the answer\n',
        ),
        (
            IMPORTED.replace("import Dense\n", "import Dense, Activation\n"),
            '(16, activation="softmax")',
            '(16), Activation("softmax", dtype="float32")',
        ),
        (
            "import keras\n" + TC201.bad,
            'Dense(10, activation="softmax")',
            'Dense(10), keras.layers.Activation("softmax", dtype="float32")',
        ),
    ],
)
def test_a_last_softmax_is_split_off(text: str, before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(text, encoding="utf-8")
    left = fixed(AuditOptions((str(path),), mode="source", select=("TC201",)), lambda _: None)
    assert path.read_text(encoding="utf-8") == text.replace(before, after)
    assert text.count(before) == 1
    assert list(left.report.findings()) == []


@pytest.mark.parametrize(
    "text",
    [
        LISTED + "weights = model.layers[-1].kernel\n",
        LISTED + "model.pop()\n",
        CALLED + 'out = model.get_layer("out")\n',
        LISTED.replace('(16, activation="softmax")', '(activation="softmax", units=16)'),
        LISTED.replace('activation="softmax"', '**{"activation": "softmax"}'),
        HEAD
        + SET
        + 'last = layers.Dense(16, activation="softmax")\nmodel = keras.Sequential([keras.Input((64,)), last])\n',
        HEAD + SET + "x = keras.Input((64,))\nlast = []\nfor _ in range(2):\n"
        '    last.append(layers.Dense(16, activation="softmax")(x))\nmodel = keras.Model(x, last)\n',
    ],
)
def test_what_cannot_be_told_with_certainty_is_left_alone(text: str, tmp_path: Path) -> None:
    outcome = only(tmp_path / "model.py", text)
    assert fixes_of(outcome) == []


def test_the_reason_is_told(tmp_path: Path) -> None:
    outcome = only(tmp_path / "model.py", LISTED + "model.pop()\n")
    (finding,) = outcome.report.findings()
    assert finding.why is not None
    assert finding.why.kind == "no_fix"
