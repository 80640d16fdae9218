"""The shapes of models' inputs that the user gave, where the code leaves them open."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Sequence, Tuple

NOT_INPUTS = ("self", "training", "mask")


class GivenShapes:
    """Shapes of one sample, by the name of an input, a model or its class; or for any.

    Args:
        orders: name or None, and sizes, of each.
    """

    def __init__(self, orders: Sequence[Tuple[Optional[str], List[int]]]) -> None:
        self._shapes = [(name, list(sizes)) for name, sizes in orders]

    def of_input(self, sizes: Sequence[Optional[int]], names: Sequence[str]) -> Optional[List[int]]:
        """Return the shape that fits the known sizes of an input: by the first of the names that has one, else any."""
        for wanted in (*names, None):
            for name, given in self._shapes:
                fits = len(given) == len(sizes) and all(s in (None, g) for s, g in zip(sizes, given))
                if name == wanted and fits:
                    return given
        return None

    def of_call(self, model: Any, names: Sequence[str]) -> Dict[str, List[int]]:
        """Return the shapes of a model's arguments by name, that of the only or the first as ``""``; empty if none."""
        inputs = _inputs_of(model)
        by_name = {name: sizes for name, sizes in self._shapes if name in inputs}
        found = {("" if name == inputs[0] else str(name)): sizes for name, sizes in by_name.items()}
        if found:
            return found
        for wanted in (*names, None):
            for name, sizes in self._shapes:
                if name == wanted:
                    return {"": sizes}
        return {}


def _inputs_of(model: Any) -> List[str]:
    """Return the arguments of a model's `call`."""
    try:
        parameters = inspect.signature(model.call).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in parameters if name not in NOT_INPUTS]
