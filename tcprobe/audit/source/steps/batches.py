"""How many samples a step has, as the file's calls of `fit`, `batch`, `Input` and of Keras' loaders of data give it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from tcprobe.schema.op import known_size
from tcprobe.source.source import Source

FIT_BATCH: Final = 32
"""Samples of a step where Keras' `fit` gets arrays and no batch (Keras 2 and 3, `Model.fit`: ``batch_size``)."""
_LOADERS: Final = frozenset(
    {
        "TimeseriesGenerator",
        "timeseries_dataset_from_array",
        *(f"{kind}_dataset_from_directory" for kind in ("image", "text", "audio")),
        "flow_from_directory",
        "flow_from_dataframe",
    }
)
"""Functions and methods of Keras that make data of a `batch_size`."""
_OF_KERAS: Final = frozenset({"epochs", "validation_data", "validation_split", "initial_epoch", "validation_steps"})
"""Arguments of `fit` that models of other libraries lack."""


def batch_of(source: Source, trains: ast.AST | None = None) -> tuple[int | None, bool]:
    """Return the batch that `fit`, `batch` or `Input` give as a constant, None where there is none, or several.

    Beside it, whether it is what `fit` takes of arrays where it is told no batch.

    Args:
        source: the file.
        trains: the call of `fit` that is asked for, whose own batch counts first, or a loop; None for any.
    """
    calls = [node for node in source.walk.calls if trains is None or node is trains or not _is_fit(node)]
    own = _batch_in(source, [node for node in calls if node is trains])
    return own if own[0] is not None else _batch_in(source, calls)


def _is_fit(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "fit"


def _batch_in(source: Source, calls: Iterable[ast.Call]) -> tuple[int | None, bool]:
    found: set[int] = set()
    defaults = False
    for node in calls:
        given = _given_batch(source, node)
        known = [source.likely(value) for value in given]
        if any(value is None for value in known):
            return None, False
        sizes = {size for v in known if v is not None and (size := known_size(v.value)) is not None}
        found |= sizes
        defaults = defaults or (not sizes and _fits_arrays(source, node))
    if defaults:
        found.add(FIT_BATCH)
    return (found.pop(), defaults) if len(found) == 1 else (None, False)


def _given_batch(source: Source, node: ast.Call) -> list[ast.expr]:
    """Return the expressions by which a call sets the batch."""
    named = [k.value for k in node.keywords if k.arg == "batch_size"]
    match node.func:
        case ast.Attribute(attr="batch") if node.args:
            return node.args[:1]
        case ast.Attribute(attr="fit") if len(node.args) > 2:
            return node.args[2:3]
        case ast.Attribute(attr="fit" | "batch"):
            return named
    name = source.name_of(node.func)
    called = node.func.attr if isinstance(node.func, ast.Attribute) else (name or "").rpartition(".")[2]
    return named if called in _LOADERS or name == "keras.Input" else []


def _fits_arrays(source: Source, node: ast.Call) -> bool:
    """Return whether a call is a Keras model's `fit` on arrays: only beside these does it take labels apart.

    A model of another library (``SVC().fit(x, y)``) is never compiled, and knows none of Keras' arguments; a `fit` of
    the file's own may take anything.
    """
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "fit" or "fit" in source.walk.methods:
        return False
    named = {k.arg: k.value for k in node.keywords}
    labels = node.args[1] if len(node.args) > 1 else named.get("y")
    if (
        labels is None
        or isinstance(labels, ast.Constant)
        or any(isinstance(a, ast.Starred) for a in node.args)
        or None in named
    ):
        return False
    return "steps_per_epoch" not in named and (not _OF_KERAS.isdisjoint(named) or _is_compiled(source, node.func.value))


def _is_compiled(source: Source, model: ast.expr) -> bool:
    told = ast.dump(model)
    functions = (node.func for node in source.walk.calls)
    return any(isinstance(f, ast.Attribute) and f.attr == "compile" and ast.dump(f.value) == told for f in functions)
