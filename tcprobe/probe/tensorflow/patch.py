"""Replacing methods of TensorFlow and Keras, and putting the originals back."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, List, Tuple


class Patches:
    """Methods that were replaced, and how to put them back."""

    def __init__(self) -> None:
        self._done: List[Tuple[Any, str, Any]] = []

    def method(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace `owner.name` by `make(original)`; nothing happens where that was done before.

        Raises:
            AttributeError: there is no such method.
        """
        if any(o is owner and n == name for o, n, _ in self._done):
            return
        original = owner.__dict__[name] if name in owner.__dict__ else getattr(owner, name)
        wrapper = functools.wraps(original)(make(original))
        # Keras reads a layer's arguments off the signature, and getfullargspec does not look through wrappers.
        wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        self._done.append((owner, name, original))
        setattr(owner, name, wrapper)

    def entry(self, table: Any, key: Any, value: Any) -> None:
        """Replace `table[key]`."""
        self._done.append((table, key, table[key]))
        table[key] = value

    def restore(self) -> None:
        """Put every original back, the last replaced first."""
        while self._done:
            owner, name, original = self._done.pop()
            if isinstance(owner, dict):
                owner[name] = original
            else:
                setattr(owner, name, original)


def defining_class(cls: Any, name: str) -> Any:
    """Return the class in the order of inheritance that defines `name` itself.

    Raises:
        AttributeError: none does.
    """
    for base in cls.__mro__:
        if name in base.__dict__:
            return base
    raise AttributeError("%s has no %s" % (cls.__name__, name))
