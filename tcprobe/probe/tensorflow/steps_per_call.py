"""Learns how many steps one call makes: `steps_per_execution`, and loops over a dataset inside a tf.function."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Set

from ..core.gaps import Gaps


class StepsPerCall:
    """Learns the steps of a call from Keras, or from how often its optimizers ran in the first call.

    Attributes:
        tf: TensorFlow, once it is imported.
        fit: True once a Keras model made its train function.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.tf: Any = None
        self.fit = False
        self._gaps = gaps
        self._announced: Optional[int] = None
        self._known: Set[int] = set()
        self._applied: Dict[int, Dict[int, "Applied"]] = {}

    def announce(self, steps: int) -> None:
        """Note that the next function that trains is a Keras model's, with `steps` per execution."""
        self.fit = True
        self._announced = steps

    def applied(self, key: int, optimizer: Any) -> None:
        """Note that function `key`, as it is traced, applies `optimizer`."""
        if key in self._known:
            return
        optimizers = self._applied.setdefault(key, {})
        if id(optimizer) not in optimizers:
            optimizers[id(optimizer)] = Applied(optimizer, self._iterations(optimizer) or 0)
        graph = self.tf.compat.v1.get_default_graph()
        counts = optimizers[id(optimizer)].counts
        counts[graph] = counts.get(graph, 0) + 1

    def of(self, key: int) -> int:
        """Return the steps that a call of function `key` makes; asked once, after its first call."""
        self._known.add(key)
        announced, self._announced = self._announced, None
        optimizers = self._applied.pop(key, {})
        if announced is not None:
            return max(1, announced)
        made = [self._gaps.run("steps per call", one.steps(self._iterations)) or 1 for one in optimizers.values()]
        return max(made, default=1)

    def _iterations(self, optimizer: Any) -> Optional[int]:
        # The attribute, not the property: Keras 2's property creates the variable.
        names = vars(optimizer)
        variable = names.get("_iterations", names.get("iterations"))
        try:
            with self.tf.init_scope():
                return int(variable.numpy())
        except Exception:
            # A variable that is not there yet has counted nothing.
            return None


class Applied:
    """An optimizer in a function's first call: times applied in each graph, iterations before the call."""

    def __init__(self, optimizer: Any, before: int) -> None:
        self.ref = weakref.ref(optimizer)
        self.before = before
        self.counts: Dict[Any, int] = {}

    def steps(self, iterations: Any) -> Any:
        """Return a function that tells how many steps the first call made."""

        def count() -> int:
            optimizer = self.ref()
            after = None if optimizer is None else iterations(optimizer)
            return 1 if after is None else max(1, round((after - self.before) / max(self.counts.values())))

        return count
