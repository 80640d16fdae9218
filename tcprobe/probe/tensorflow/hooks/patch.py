"""Replaces methods of TensorFlow and Keras, and puts the originals back."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, List, NamedTuple


class Patch(NamedTuple):
    """One replaced method or entry.

    Attributes:
        owner: a class, a module or a dictionary.
        name: of the attribute, or key of the entry.
        original: what stood there; None where the class inherited it.
        replaced: what stands there now.
    """

    owner: Any
    name: Any
    original: Any
    replaced: Any


class Patches:
    """Methods that were replaced, and how to put them back."""

    def __init__(self) -> None:
        self._done: List[Patch] = []

    def method(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace `owner.name` by `make(original)`; nothing happens where that was done before.

        Raises:
            AttributeError: there is no such method.
        """
        if any(done.owner is owner and done.name == name for done in self._done):
            return
        original = getattr(owner, name)
        wrapper = functools.wraps(original)(make(original))
        # Keras reads a layer's arguments off the signature, and getfullargspec does not look through wrappers.
        wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        self._done.append(Patch(owner, name, owner.__dict__.get(name), wrapper))
        setattr(owner, name, wrapper)

    def entry(self, table: Any, key: Any, value: Any) -> None:
        """Replace `table[key]`."""
        self._done.append(Patch(table, key, table[key], value))
        table[key] = value

    def restore(self) -> None:
        """Put every original back, the last replaced first, but for what somebody else has replaced since."""
        while self._done:
            done = self._done.pop()
            if isinstance(done.owner, dict):
                if done.owner.get(done.name) is done.replaced:
                    done.owner[done.name] = done.original
            elif done.owner.__dict__.get(done.name) is not done.replaced:
                continue
            elif done.original is None:
                delattr(done.owner, done.name)
            else:
                setattr(done.owner, done.name, done.original)


def everywhere(name: str, function: Any) -> List[Any]:
    """Return every loaded module that has a function under a name: Keras exports it by several."""
    modules = list(sys.modules.values())
    return [module for module in modules if getattr(module, "__dict__", {}).get(name) is function]


def defining_class(cls: Any, name: str) -> Any:
    """Return the class in the order of inheritance that defines `name` itself.

    Raises:
        AttributeError: none does.
    """
    for base in cls.__mro__:
        if name in base.__dict__:
            return base
    raise AttributeError("%s has no %s" % (cls.__name__, name))
