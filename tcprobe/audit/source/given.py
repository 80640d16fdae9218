"""Shapes of models' inputs that the user gives: they fill what the code leaves open, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tcprobe.schema.model import InputShape
from tcprobe.schema.op import Shape
from tcprobe.source.source import Source

_MODELS = ("keras.Model", "keras.Sequential")


class GivenShapes:
    """What the user says of inputs, and what came of it.

    Attributes:
        answered: the names that some input has.
        inputs: a name of each input that the code leaves open.
        remarks: what the user says against the code, one sentence each.
    """

    def __init__(self, shapes: Sequence[InputShape] = ()) -> None:
        self._shapes = sorted(shapes, key=lambda shape: shape.name is None)
        self.answered: set[str] = set()
        self.inputs: dict[str, None] = {}
        self.remarks: list[str] = []

    @property
    def is_any(self) -> bool:
        """Whether the user says anything."""
        return bool(self._shapes)

    def filled(self, shape: Shape | None, names: Iterable[str], by_name: bool = False) -> Shape | None:
        """Return an input's shape with what the code leaves open as the user gives it.

        Args:
            shape: as the code tells it, batch first; None where its rank is unknown.
            names: of the input, its model, the model's class.
            by_name: whether only a shape that is given for one of these names counts.
        """
        if not self._shapes:
            return shape
        known = [name for name in dict.fromkeys(names) if name]
        is_open = shape is None or None in shape[1:]
        self.inputs.update(dict.fromkeys(known[:1] if is_open else ()))
        for given in self._shapes:
            if given.name in known:
                self.answered.add(given.name or "")
            elif given.name is not None or by_name:
                continue
            whole = _together(shape, given.sizes)
            if whole is not None and is_open:
                return whole
            if whole is None and (given.name is not None or (is_open and shape and len(shape) == len(given.sizes) + 1)):
                self._remark(shape or (), given, next(iter(known), "its input"))
        return shape

    def _remark(self, shape: Shape, given: InputShape, name: str) -> None:
        code, said = (",".join("?" if s is None else str(s) for s in sizes) for sizes in (shape[1:], given.sizes))
        text = f"--input-shape {said} is not taken for {given.name or name}: its shape is {code} in the code"
        if text not in self.remarks:
            self.remarks.append(text)


def _together(shape: Shape | None, sizes: tuple[int, ...]) -> Shape | None:
    """Return a shape with its open sizes filled; None where it says otherwise."""
    if shape is None:
        return (None, *sizes)
    fits = len(shape) == len(sizes) + 1 and all(s in (None, size) for s, size in zip(shape[1:], sizes, strict=True))
    return (shape[0], *sizes) if fits else None


def models_of(source: Source, variable: str) -> list[str]:
    """Return names of the models that take a variable as their input: those that they are assigned to, ``name=``."""
    found: list[str] = []
    for node in ast.walk(source.tree):
        call = node.value if isinstance(node, ast.Assign | ast.Return) else None
        if not isinstance(call, ast.Call) or source.name_of(call.func) not in _MODELS:
            continue
        parts = [
            p for a in (*call.args[:1], *(k.value for k in call.keywords if k.arg == "inputs")) for p in ast.walk(a)
        ]
        if any(isinstance(part, ast.Name) and part.id == variable for part in parts):
            found += named(call) + [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
    return found


def named(call: ast.Call) -> list[str]:
    """Return what a call passes as ``name=``, where that is a text."""
    values = [k.value for k in call.keywords if k.arg == "name"]
    return [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
