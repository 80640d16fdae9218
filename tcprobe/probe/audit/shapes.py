"""The shapes of models' inputs that the user gave, where the code leaves them open."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

NOT_INPUTS = ("self", "training", "mask")
REMARK = "--input-shape %s is not taken for %s: its shape is %s in the code"


class GivenShapes:
    """Shapes of one sample, by the name of an input, a model or its class; or for any.

    Args:
        orders: name or None, and sizes, of each.

    Attributes:
        inputs: a name of each input that the code leaves open.
        remarks: what the user says against the code, one sentence each.
    """

    def __init__(self, orders: Sequence[Tuple[Optional[str], List[int]]]) -> None:
        self._shapes = [(name, list(sizes)) for name, sizes in orders]
        self.inputs: List[str] = []
        self.remarks: List[str] = []

    def answered(self, names: Iterable[str]) -> List[str]:
        """Return those of `names` that have a shape."""
        return sorted({str(name) for name, _ in self._shapes if name is not None}.intersection(names))

    def of_input(self, sizes: Sequence[Optional[int]], names: Sequence[str]) -> Optional[List[int]]:
        """Return the shape that fits the known sizes of an input: by the first of the names that has one, else any."""
        self._note_open(names, None in sizes)
        for wanted in (*names, None):
            for name, given in self._shapes:
                fits = len(given) == len(sizes) and all(s in (None, g) for s, g in zip(sizes, given))
                if name == wanted and fits:
                    return given
                if name == wanted and name is not None:
                    self._remark(name, given, sizes)
        return None

    def of_call(self, model: Any, names: Sequence[str]) -> Dict[str, List[int]]:
        """Return the shapes of a model's arguments by name, that of the only or the first as ``""``; empty if none."""
        self._note_open(names, True)
        inputs = inputs_of(model)
        by_name = {name: sizes for name, sizes in self._shapes if name in inputs}
        found = {("" if name == inputs[0] else str(name)): sizes for name, sizes in by_name.items()}
        if found:
            return found
        for wanted in (*names, None):
            for name, sizes in self._shapes:
                if name == wanted:
                    return {"": sizes}
        return {}

    def _note_open(self, names: Sequence[str], is_open: bool) -> None:
        self.inputs += [name for name in names if name][:1] if is_open else []

    def _remark(self, name: str, given: Sequence[int], sizes: Sequence[Optional[int]]) -> None:
        said, code = (",".join("?" if s is None else str(s) for s in shape) for shape in (given, sizes))
        text = REMARK % (said, name, code)
        self.remarks += [text] if text not in self.remarks else []


def inputs_of(model: Any) -> List[str]:
    """Return the arguments of a model's `call`."""
    try:
        parameters = inspect.signature(model.call).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in parameters if name not in NOT_INPUTS]
