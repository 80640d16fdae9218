"""The catalogue against the signatures of Keras 2 and Keras 3, and against the code that reads it."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from tcprobe.keras.catalogue import LAYER_CLASSES, UNKNOWN_CLASS, by_path, canonical_kind, class_of, rank_of
from tcprobe.keras.classes import CLASSES
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.row import KerasClass, ProductRule, ShapeRule
from tcprobe.keras.shapes import output_shape
from tcprobe.schema.model import Layer
from tests.keras.record_signatures import document
from tests.support import ROOT

FOLDER = Path(__file__).parent
KERAS_2: dict[str, Any] = json.loads((FOLDER / "signatures_2.15.json").read_text(encoding="utf-8"))["classes"]
KERAS_3: dict[str, Any] = json.loads((FOLDER / "signatures_3.15.json").read_text(encoding="utf-8"))["classes"]
BEFORE = {"CuDNNLSTM", "CuDNNGRU"}  # of keras.layers before 2.4, since then of tf.compat.v1.keras.layers alone
UNSIGNED = {"reverse", "implementation"}  # an argument of call(), and one that Keras takes from **kwargs
SHARED = {"units", "cell", "groups", "dilation_rate", "data_format"}
"""Settings that one rule reads of all its classes; one that lacks the argument has Keras' default."""
LEARNT = re.compile(r"_(?:initializer|regularizer|constraint)$")
ROWS = pytest.mark.parametrize("row", CLASSES, ids=lambda row: row.name)


def names(parameters: list[str]) -> tuple[str, ...]:
    """Return the names of the parameters that may be given by position."""
    found = []
    for parameter in parameters:
        if parameter.startswith("*"):
            break
        found.append(parameter.partition("=")[0])
    return tuple(found)


def cut(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names up to the first initializer, regularizer or constraint."""
    return given[: next((i for i, name in enumerate(given) if LEARNT.search(name)), len(given))]


def hidden(parameters: list[str]) -> bool:
    return parameters[:1] == ["*args"]


def recorded(classes: Mapping[str, Any], row: KerasClass) -> list[str] | None:
    """Return the parameters of a row's class; None where that Keras lacks it."""
    own = [name for name in classes if by_path().get(f"keras.{name}") is row]
    assert len(own) < 2
    return list(classes[own[0]]["parameters"]) if own else None


@pytest.mark.parametrize("name", sorted(KERAS_2.keys() | KERAS_3.keys()))
def test_every_class_has_a_row(name: str) -> None:
    assert f"keras.{name}" in by_path()


@ROWS
def test_arguments_stand_in_the_order_of_keras_3(row: KerasClass) -> None:
    parameters = recorded(KERAS_3, row)
    if parameters is None:
        assert recorded(KERAS_2, row) is not None and row.keras_2 is None
    elif not hidden(parameters):
        given = names(parameters)
        assert row.arguments[: len(cut(given))] == cut(given)
        assert row.arguments == given[: len(row.arguments)]


@ROWS
def test_arguments_stand_in_the_order_of_keras_2(row: KerasClass) -> None:
    parameters = recorded(KERAS_2, row)
    if parameters is None:
        assert recorded(KERAS_3, row) is not None and row.keras_2 is None
        return
    if hidden(parameters):
        return
    given = names(parameters)
    agree = all(a == b for a, b in zip(row.arguments, given, strict=False))
    if recorded(KERAS_3, row) is None:
        assert row.arguments == cut(given)
    if row.keras_2 is None:
        assert agree
    else:
        assert not agree and row.keras_2 == cut(given)


def test_other_names_are_those_of_the_same_class() -> None:
    public = {**KERAS_2, **KERAS_3}
    theirs = {(by_path()[f"keras.{n}"].name, a.rpartition(".")[2]) for n, c in public.items() for a in c["aliases"]}
    theirs |= {(by_path()[f"keras.{n}"].name, n.rpartition(".")[2]) for n in public}
    ours = {(row.name, alias) for row in CLASSES for alias in row.aliases}
    assert {alias for _, alias in ours - theirs} == BEFORE
    assert {(row, name) for row, name in theirs - ours if row != name} == set()


def test_no_name_stands_for_two_classes() -> None:
    named = Counter(name for row in LAYER_CLASSES for name in (row.name, *row.aliases))
    assert [name for name, count in named.items() if count > 1] == []
    assert len(by_path()) == sum(1 + len(row.aliases) + len(row.paths) for row in CLASSES)


@ROWS
def test_columns_name_arguments_of_the_class(row: KerasClass) -> None:
    columns = {row.output, *row.inner, *row.counts, *row.structure, *row.settings, *row.editable} - {None}
    columns |= {name for name, _ in row.cudnn}
    both = [p for p in (recorded(KERAS_2, row), recorded(KERAS_3, row)) if p]
    assert columns - UNSIGNED <= {p.partition("=")[0] for parameters in both for p in parameters}


@ROWS
def test_defaults_are_what_cudnn_needs(row: KerasClass) -> None:
    known = dict(p.split("=", 1) for p in recorded(KERAS_3, row) or () if "=" in p)
    assert all(ast.literal_eval(known[name]) == need for name, need in row.cudnn)


@ROWS
def test_a_fix_changes_what_a_row_knows_as_a_size(row: KerasClass) -> None:
    assert set(row.editable) <= {row.output, *row.inner}
    assert (row.features == "own") or row.output is None
    assert row.gates == 0 or row.kind in ("recurrent", "cell")


def test_every_rule_is_there_and_has_a_class() -> None:
    from tcprobe.keras import shapes
    from tcprobe.keras.products import layers as products

    assert {row.shape for row in CLASSES} == set(get_args(ShapeRule))
    assert {row.products for row in CLASSES} == set(get_args(ProductRule))
    assert set(shapes._RULES) | set(shapes._IMAGES) | set(shapes._MERGES) == set(get_args(ShapeRule)) - {"unknown"}
    assert len({*shapes._RULES, *shapes._IMAGES, *shapes._MERGES}) == sum(
        map(len, (shapes._RULES, shapes._IMAGES, shapes._MERGES))
    )
    assert set(products._READERS) == set(get_args(ProductRule)) - {"none"}


class Asked(dict[str, Any]):
    """Settings that remember which of them were read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"units": 8, "filters": 8, "kernel_size": 3, "groups": 1, "equation": "abc,cd->abd", "output_shape": (None, 8)},
    {"use_bias": True, "return_sequences": True, "padding": "causal", "output_dim": 8, "input_dim": 99, "unroll": True},
    {"num_heads": 2, "key_dim": 8, "head_dim": 8, "num_query_heads": 2, "num_key_value_heads": 2, "axes": 2},
    {"layer": {"class_name": "Dense", "config": {"units": 8}}, "target_shape": (2, -1), "dims": (2, 1), "n": 3},
    {"cell": {"class_name": "GRUCell", "config": {"units": 8}}},
]


@pytest.mark.parametrize("row", LAYER_CLASSES, ids=lambda row: row.name)
def test_shapes_and_products_read_the_settings_that_a_row_lists(row: KerasClass) -> None:
    listed = {row.output, *row.inner, *row.counts, *row.structure, *row.settings}
    read: set[str] = set()
    for settings in SETTINGS:
        for rank in range(2, 7):
            config = Asked(settings)
            shape = (4, *(16,) * (rank - 1))
            output_shape(row.name, config, shape)
            output_shape(row.name, config, [shape, shape])
            for shapes in ((shape,), (shape, shape)):
                made = Layer("a", row.name, row.name, config=config, input_shapes=shapes, dtype="float16")
                records_of(made, 4)
            read |= config.names
    own = {p.partition("=")[0] for c in (KERAS_2, KERAS_3) for p in recorded(c, row) or ()}
    assert read & own <= listed
    assert read - own <= UNSIGNED | SHARED


def test_classes_are_found_by_any_of_their_names() -> None:
    assert class_of("MaxPool2D") is class_of("MaxPooling2D") and canonical_kind("MaxPool2D") == "MaxPooling2D"
    assert class_of("Mine") is UNKNOWN_CLASS and canonical_kind("Mine") == "Mine"
    assert [rank_of(kind) for kind in ("Conv3DTranspose", "ConvLSTM1D", "Dense", "Mine2D")] == [3, 1, None, None]
    assert class_of("Sequential") is UNKNOWN_CLASS


# What may name several classes of Keras outside of the catalogue, and why.
ELSEWHERE = {
    "tcprobe/analysis/capability.py": "types of TensorFlow's ops, some of which are called as layers are",
    "tcprobe/analysis/kernels/names.py": "names of cuDNN's kernels",
    "tcprobe/probe/audit/classes.py": "written from the catalogue",
    "tcprobe/probe/audit/models.py": "words of files that use Keras, and the classes that users inherit from",
    "tcprobe/probe/tensorflow/graph/passes.py": "types of TensorFlow's ops",
    "tcprobe/probe/tensorflow/eager/sampler.py": "likewise",
    "tcprobe/probe/tensorflow/graph/called.py": "likewise",
    "tcprobe/probe/tensorflow/graph/records.py": "likewise",
    "tcprobe/source/frameworks.py": "what other frameworks call their classes",
    "tcprobe/audit/source/given.py": "what a class may extend to be a model",
    "tcprobe/rules/precision/file.py": "how people end the names of their own models",
}
_WORD = re.compile(r"[A-Za-z_]\w*")
NAMES = {row.name for row in CLASSES}


def lists(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Yield each tuple, list, set, dict or text that names classes, with those; texts with sentences in them apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts: list[ast.expr | None] = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys, *node.values]
        elif isinstance(node, ast.Compare):
            parts = [*node.comparators]
        else:
            parts = [node] if isinstance(node, ast.Constant) else []
        texts = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
        found = {canonical_kind(w) for text in texts if not _is_prose(text) for w in _WORD.findall(text)}
        yield getattr(node, "lineno", 0), NAMES & found


def _is_prose(text: str) -> bool:
    """Say whether a text is written to be read: sentences, messages, code in the documentation of a rule."""
    return bool(re.search(r"[a-z] [a-z]|[.:;,(] |\n|[a-z] [A-Z]|\w \w+ing\b", text)) and "|" not in text


def test_no_other_list_names_classes_of_keras() -> None:
    here = ROOT / "tcprobe/keras"
    found = {}
    for path in sorted((ROOT / "tcprobe").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not path.is_relative_to(here) and name not in ELSEWHERE:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found.update({f"{name}:{line}": names for line, names in lists(tree) if len(names) > 1})
    assert found == {} and all((ROOT / name).exists() for name in ELSEWHERE)


def test_lists_of_classes_are_found() -> None:
    code = (
        'A = ("Dense", "Conv2D")',
        'B = {"LSTM": 4, "GRU": 3}',
        'C = r"Dense|(Max|Average)Pooling2D|ReLU"',
        'D = "LSTM GRU"',
        'E = kind == "Dense"',
        'F = ("Dense", "dense")',
        'G = "An LSTM or GRU has a setting"',
        'H = kind in ["GRU", "LSTM"]',
    )
    assert [line for line, names in lists(ast.parse("\n".join(code))) if len(names) > 1] == [1, 2, 3, 4, 8]


@pytest.mark.tensorflow
def test_the_record_of_keras_3_is_that_of_the_installed_one() -> None:
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras", minversion="3.0")
    known = json.loads((FOLDER / "signatures_3.15.json").read_text(encoding="utf-8"))
    if keras.__version__.split(".")[:2] != known["keras"].split(".")[:2]:
        pytest.skip(f"recorded of Keras {known['keras']}, installed is {keras.__version__}")
    assert document(keras)["classes"] == known["classes"]


VALUES: dict[str, Any] = {
    "units": 8, "filters": 8, "kernel_size": 2, "pool_size": 2, "output_size": 2, "rate": 0.1, "stddev": 0.1,
    "activation": "relu", "equation": "abc,cd->abd", "output_shape": (None, 8), "input_dim": 9, "output_dim": 8,
    "num_heads": 2, "key_dim": 4, "head_dim": 4, "num_query_heads": 2, "num_key_value_heads": 2, "target_shape": (-1,),
    "dims": (2, 1), "n": 3, "axes": 2, "height": 4, "width": 4, "scale": 2.0, "factor": 1, "value_range": (0, 1),
    "height_factor": 0.1, "width_factor": 0.1,
}  # fmt: skip
"""Values of arguments that must be given."""
UNBUILT = {"Wrapper": "it is inherited from", "MaxNumBoundingBoxes": "it takes boxes"}
BUILT = [
    row
    for row in LAYER_CLASSES
    if row.kind not in ("function", "encoding", "sound", "base", "input", "cell")
    and recorded(KERAS_3, row)
    and row.name not in UNBUILT
]


@pytest.mark.tensorflow
@pytest.mark.parametrize("row", BUILT, ids=lambda row: row.name)
def test_a_built_layer_is_as_its_row_says(row: KerasClass) -> None:
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras", minversion="3.0")
    layer, dimensions = built(keras, row), row.dimensions or (4 if row.kind == "image" else 3)
    if row.kind == "embedding" or row.name == "RepeatVector":
        dimensions = 2
    data = keras.ops.zeros((2, *(6,) * (dimensions - 2), 3))
    several = row.kind == "merging" or (row.kind == "attention" and not row.inner)
    output = layer([data, data]) if several else layer(data, data) if row.inner else layer(data)
    assert bool(layer.trainable_weights) == row.weights
    if row.features in ("elementwise", "kept", "merged"):
        assert output.shape[-1] == 3
    if row.features == "elementwise":
        assert tuple(output.shape) == tuple(data.shape)
    if row.features == "own" and not row.inner:
        assert output.shape[-1] in (8, 16)


def built(keras: Any, row: KerasClass) -> Any:
    """Return a layer of a class, given what it must be given."""
    kind = next(k for name in (row.name, *row.aliases) if (k := getattr(keras.layers, name, None)))
    inner = keras.layers.LSTM(8) if row.name == "Bidirectional" else keras.layers.Dense(8)
    values = {**VALUES, "layer": inner, "cell": keras.layers.LSTMCell(8)}
    needed = [p for p in recorded(KERAS_3, row) or [] if "=" not in p and not p.startswith("*")]
    more = {"groups": 3} if row.name == "GroupNormalization" else {}
    return kind(**{name: values[name] for name in needed}, **more)
