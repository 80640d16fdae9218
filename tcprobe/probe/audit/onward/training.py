"""One training step while it becomes known: the functions that are called in it, and its eager part."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Optional, Set


class Training:
    """What a loop, or a `fit`, calls to train.

    Attributes:
        order: keys of the training functions as they were called.
        under_tape: keys of functions that were called under a tape outside them.
        eager: whether a gradient was taken outside any function.
        in_fit: whether `fit` of Keras called the first.
        began: time of the first call, in seconds.
        place: the user's line of the first call, ``file:line``.
        sample: records the eager part, None before and after.
        tapes: lines at which tapes were entered.
        invented_batch: samples that were assumed, None where the script says how many.
    """

    def __init__(self) -> None:
        self.order: List[Hashable] = []
        self.under_tape: Set[Hashable] = set()
        self.eager = False
        self.in_fit = False
        self.began = 0.0
        self.place: Optional[str] = None
        self.sample: Any = None
        self.tapes: Set[Any] = set()
        self.invented_batch: Optional[int] = None

    @property
    def seen(self) -> bool:
        """Whether anything was trained."""
        return bool(self.order) or self.eager

    def calls_per_step(self) -> Dict[Hashable, float]:
        """Return how often one step calls each function."""
        repeated = len(set(self.order)) > 1
        counts = {key: float(self.order.count(key)) if repeated else 1.0 for key in self.order}
        return {**counts, **dict.fromkeys(self.under_tape, 1.0)}

    def end_sample(self) -> None:
        """End the recording of the eager part."""
        sample, self.sample = self.sample, None
        if sample is not None:
            sample.__exit__(None, None, None)
