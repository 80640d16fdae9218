"""Replaces methods of TensorFlow and Keras, and puts the originals back."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, List, Optional, Tuple

from ...core.gaps import Gaps

Ending = Callable[[], object]
"""What a listener is called for once more, after what it was told of; it raises nothing."""


class Patches:
    """What was replaced, and how to put it back."""

    def __init__(self) -> None:
        self._done: List[Tuple[Any, Any, Any, Any]] = []  # owner, name or key, what stood there, what stands there now

    def method(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace a function by `make(original)`; nothing happens where that was done before.

        Args:
            owner: a module, or a class; a method that it inherits is replaced in the class that defines it.
            name: of the function.
            make: returns what stands in its place.

        Raises:
            AttributeError: there is no such function.
        """
        owner = defining_class(owner, name) if isinstance(owner, type) else owner
        if self._has(owner, name):
            return
        original = getattr(owner, name)
        wrapper = functools.wraps(original)(make(original))
        # Keras reads a layer's arguments off the signature, and getfullargspec does not look through wrappers.
        wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        self.entry(owner, name, wrapper)

    def entry(self, owner: Any, name: Any, value: Any) -> None:
        """Replace an entry of a dictionary, or an attribute of a class or module; nothing happens likewise."""
        if not self._has(owner, name):
            self._done.append((owner, name, _entries(owner).get(name), value))
            _put(owner, name, value)

    def restore(self) -> None:
        """Put every original back, the last replaced first, but for what somebody else has replaced since."""
        while self._done:
            owner, name, original, replaced = self._done.pop()
            if _entries(owner).get(name) is replaced:
                _put(owner, name, original)

    def _has(self, owner: Any, name: Any) -> bool:
        return any(done[0] is owner and done[1] == name for done in self._done)


def _entries(owner: Any) -> Any:
    """Return what an owner holds, as it stands there: of a static method not the function that it gives."""
    return owner if isinstance(owner, dict) else vars(owner)


def _put(owner: Any, name: Any, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


def around(gaps: Gaps, hook: str, begin: Callable[..., Optional[Ending]]) -> Callable[[Any], Any]:
    """Return what makes a wrapper: `begin` is told of every call, and may return what to call after; see `method`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwds: Any) -> Any:
            after = gaps.run(hook, functools.partial(begin, *args, **kwds))
            try:
                return original(*args, **kwds)
            finally:
                if after is not None:
                    after()

        return call

    return make


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
