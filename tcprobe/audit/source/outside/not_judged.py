"""What a file holds that the audit does not understand, counted by library and name."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from typing import Final

from tcprobe.schema.model import NotJudged
from tcprobe.schema.place import Place
from tcprobe.source.calls import Call
from tcprobe.source.frameworks import ELSEWHERE, Foreign, foreign, foreign_base, foreign_layer
from tcprobe.source.source import Source

_KNOWN: Final = ("keras", "tensorflow", "numpy", "jax", "tf_keras")


def not_judged(
    source: Source, judged: Container[ast.AST], operators: Mapping[ast.expr, Place]
) -> tuple[NotJudged, ...]:
    """Return what is not judged, in the order of the file.

    Args:
        source: the file.
        judged: the products that are.
        operators: every ``@`` of tensors, and where it stands.
    """
    counts: dict[Foreign, list[Place]] = {}
    library = "TensorFlow" if "tensorflow" in source.text or "keras" in source.text else "JAX"
    operator = Foreign(library, "product", "@")
    met = [*_met(source, judged), *((operator, place) for node, place in operators.items() if node not in judged)]
    for what, place in sorted(met, key=lambda pair: (pair[1].line, pair[1].column)):
        counts.setdefault(what, []).append(place)
    return tuple(NotJudged(w.library, w.kind, w.name, len(places), places[0]) for w, places in counts.items())


def foreign_to_tensorflow(source: Source) -> tuple[NotJudged, ...]:
    """Return what of a file is not judged in traced mode either: what other frameworks than TensorFlow run."""
    return tuple(found for found in not_judged(source, (), {}) if found.library in ELSEWHERE)


def _met(source: Source, judged: Container[ast.AST]) -> Iterator[tuple[Foreign, Place]]:
    called = {node.func for node, _ in source.walk.calls if isinstance(node.func, ast.Call)}
    for call in source.calls():
        what = _made_by(call, call.node in called, source) if call.node not in judged else None
        if what is not None:
            yield what, call.place
    for node in source.walk.scopes:
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = source.name_of(base)
            what = foreign_base(name) if name else None
            if what is not None:
                yield what, source.place(node)


def _made_by(call: Call, called: bool, source: Source) -> Foreign | None:
    """Return what a call makes that is not judged; `called` where its result is called in place, as a layer's is."""
    found = foreign(call.name)
    top = call.name.partition(".")[0]
    if found is None and called and "." in call.name and top not in _KNOWN and "keras" in source.text:
        found = foreign_layer(call.name)
    if found is None or found.library != top:
        return found
    return None if source.is_of_tree(call.name) else found
