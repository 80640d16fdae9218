"""Tells which Keras layer is being called, and where each layer was constructed."""

from __future__ import annotations

import sys
import threading
import weakref
from functools import partial
from types import CodeType
from typing import Any, Callable, NamedTuple, Optional, Tuple

from ...core.gaps import Guard
from ...core.lines import Span, constructed_line
from .patch import Ending, Patches

Place = Tuple[Optional[str], Optional[Span]]  # line of a construction, and the call that constructs
NOWHERE: Place = (None, None)


class CalledLayer(NamedTuple):
    """One layer on the stack of layers being called.

    Attributes:
        path: names of the layers around it and its own, joined by ``/``.
        layer_class: name of its class.
        source: ``file:line`` where it was constructed, None where that was not seen.
        owner: weak reference to the layer itself.
    """

    path: str
    layer_class: str
    source: Optional[str]
    owner: Any = None


class LayerHooks:
    """Hooks on ``Layer.__init__`` and ``Layer.__call__`` of any Keras.

    Attributes:
        eager: tells whether TensorFlow executes eagerly; the stack is kept while it does not, or while `sampling`.
        sampling: keep the stack in eager calls too.
        on_eager: told of every eager call, the stack kept or not: the layer; may return what to call after.
        on_call: told of every call that the stack was kept for: the entry, layer, arguments and result.
        on_eager_call: told of every eager call likewise: the layer and its arguments.
        on_made: told of every layer that is under construction.
    """

    def __init__(self, gaps: Any) -> None:
        self.eager: Callable[[], bool] = lambda: True
        self.sampling = False
        self.on_eager: Optional[Callable[[Any], Optional[Ending]]] = None
        self.on_call: Optional[Callable[[CalledLayer, Any, Any, Any, Any], None]] = None
        self.on_eager_call: Optional[Callable[[Any, Any, Any], None]] = None
        self.on_made: Callable[[Any], None] = lambda _: None
        self._gaps = gaps
        self._patches = Patches()
        self._call: Optional[CodeType] = None  # of the hook on calls
        self._places: "weakref.WeakKeyDictionary[Any, Place]" = weakref.WeakKeyDictionary()
        self._local = threading.local()

    def install(self, keras: Any) -> None:
        """Hook the base class of `keras`' layers; a second Keras may be hooked beside the first."""
        base = keras.layers.Layer
        with Guard(self._gaps, "keras Layer.__call__"):
            self._patches.method(base, "__call__", self._calling)
        with Guard(self._gaps, "keras Layer.__init__"):
            self._patches.method(base, "__init__", self._constructing)

    def remove(self) -> None:
        """Put the original methods back."""
        self._patches.restore()

    def line(self, layer: Any) -> Optional[str]:
        """Return ``file:line`` where a layer was constructed, None where that was not seen."""
        return self._place(layer)[0]

    def span(self, layer: Any) -> Optional[Span]:
        """Return from where to where the call stands that constructs a layer, None where that was not seen."""
        return self._place(layer)[1]

    def _place(self, layer: Any) -> Place:
        try:
            return self._places.get(layer, NOWHERE)
        except TypeError:  # a layer with __eq__ and no __hash__
            return NOWHERE

    def current(self) -> Optional[CalledLayer]:
        """Return the innermost layer being called in this thread, None outside any."""
        stack: Tuple[CalledLayer, ...] = getattr(self._local, "stack", ())
        return stack[-1] if stack else None

    def depth(self) -> int:
        """Return how many layers are being called in this thread, one inside the other."""
        return len(getattr(self._local, "stack", ()))

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, hooks = self._local, self

        def __call__(layer: Any, *args: Any, **kwds: Any) -> Any:  # noqa: N807
            eager = hooks.eager()
            after = None
            if eager and hooks.on_eager is not None:
                after = hooks._gaps.run("calls of layers", partial(hooks.on_eager, layer))
            if eager and hooks.on_eager_call is not None:
                with Guard(hooks._gaps, "calls of layers"):
                    hooks.on_eager_call(layer, args, kwds)
            kept = hooks.sampling or not eager
            if not kept and after is None:
                return original(layer, *args, **kwds)
            before = getattr(local, "stack", ())
            if kept:
                entry = hooks._entry(layer, before)
                local.stack = (*before, entry)
            try:
                result = original(layer, *args, **kwds)
            finally:
                local.stack = before
                if after is not None:
                    after()
            if kept and hooks.on_call is not None:
                with Guard(hooks._gaps, "calls of layers"):
                    hooks.on_call(entry, layer, args, kwds, result)
            return result

        self._call = __call__.__code__
        return __call__

    def _constructing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self

        def __init__(layer: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            with Guard(hooks._gaps, "line of a layer's construction"):
                hooks.on_made(layer)
                hooks._places[layer] = hooks._constructed(layer)
            original(layer, *args, **kwds)

        return __init__

    def _constructed(self, layer: Any) -> Place:
        """Return where `layer` is constructed; one that a library makes while another is called has that one's line."""
        # The line is that of a frame: of this method's caller's caller, or one further out.
        found = constructed_line(layer, sys._getframe(2), self._call)
        around = self.current()
        return around.source if found.by_layer and around is not None else found.line, found.span

    def _entry(self, layer: Any, before: Tuple[CalledLayer, ...]) -> CalledLayer:
        name = str(getattr(layer, "name", None) or type(layer).__name__)
        path = before[-1].path + "/" + name if before else name
        return CalledLayer(path, type(layer).__name__, self.line(layer), weakref.ref(layer))
