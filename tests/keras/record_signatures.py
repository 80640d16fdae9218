"""Write the signatures of Keras' public classes as JSON: `python tests/keras/record_signatures.py >FILE`.

It runs by path in any interpreter that has the Keras to record; tcprobe need not be there.
"""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Iterator
from typing import Any

MODULES = ("layers", "layers.experimental", "mixed_precision")
SINGLE = ("Model", "Sequential")
ABOUT = (
    "Public classes of Keras %s (Python %s), recorded by tests/keras/record_signatures.py: what __init__ takes after"
    " self, as written there, and the other public names of the same class"
)
SIMPLE = (bool, int, float, str, type(None))


def document(keras: Any) -> dict[str, Any]:
    """Return what the file holds."""
    return {
        "about": ABOUT % (keras.__version__, platform.python_version()),
        "keras": keras.__version__,
        "classes": classes(keras),
    }


def classes(keras: Any) -> dict[str, Any]:
    """Return every class by the first of its names, the one that it has itself where that is public."""
    names: dict[Any, list[str]] = {}
    for name, kind in _public(keras):
        names.setdefault(kind, []).append(name)
    found = {}
    for kind, known in names.items():
        first = next((n for n in known if n.rpartition(".")[2] == kind.__name__), known[0])
        found[first] = {"parameters": parameters(kind), "aliases": sorted(n for n in known if n != first)}
    return dict(sorted(found.items()))


def _public(keras: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, getattr(keras, name)) for name in SINGLE)
    for path in MODULES:
        module = keras
        for part in path.split("."):
            module = getattr(module, part, None)
        for name, value in sorted(vars(module).items() if module is not None else ()):
            if inspect.isclass(value):
                yield path + "." + name, value


def parameters(kind: Any) -> list[str]:
    """Return the parameters as they are written: ``units``, ``activation=None``, ``*`` before those by name alone."""
    listed = list(inspect.signature(kind.__init__).parameters.values())[1:]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found, open_ = [], True
    for parameter in listed:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and open_:
            found.append("*")
        open_ = open_ and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        found.append(stars.get(parameter.kind, "") + parameter.name + _default(parameter.default))
    return found


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    plain = isinstance(value, SIMPLE) or (
        isinstance(value, (tuple, list)) and all(isinstance(part, SIMPLE) for part in value)
    )
    return "=" + (repr(value) if plain else type(value).__name__)


def text(found: dict[str, Any]) -> str:
    """Return the document as JSON, a class a line."""
    head = ",\n".join(f'"{name}": {json.dumps(found[name])}' for name in ("about", "keras"))
    rows = ",\n".join(f'"{name}": {json.dumps(row)}' for name, row in found["classes"].items())
    return "{\n" + head + ',\n"classes": {\n' + rows + "\n}}\n"


if __name__ == "__main__":
    import keras

    print(text(document(keras)), end="")
