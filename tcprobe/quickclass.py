"""`dataclass`, quick to define: for modules that a start of the command line loads.

The standard library compiles up to nine functions for a frozen class, each time Python starts, and an audit of one
file defines some sixty classes: that took longer than reading and judging the file. Here the methods are closures,
and ``__init__`` is compiled when it is called often. Classes behave as those of `dataclasses.dataclass` with
the same options (a test compares them), and `dataclasses.replace`, `fields` and `asdict` take them. What no such
class here uses (inheritance, ``__post_init__``, ``ClassVar``, ``InitVar``, ``KW_ONLY``, ``init=False``) is refused
where the class is defined.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

_REFUSED: Final = ("ClassVar", "InitVar", "KW_ONLY")
_FEW: Final = 16  # instances: to make these uncompiled takes as long as to compile (0.2 ms, measured)
_Methods = dict[str, Any]


def _dataclass(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, order: bool = False
) -> Any:
    """Make a class a dataclass, as `dataclasses.dataclass` with the same options does.

    Raises:
        TypeError: the class uses what is not supported here.
    """

    def made(plain: type) -> type:
        return _made(plain, frozen, slots, eq, order)

    return made if cls is None else made(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


def _made(plain: type, frozen: bool, slots: bool, eq: bool, order: bool) -> type:
    """Return the finished class: a new one, since slots cannot be added to a class."""
    body = {name: value for name, value in vars(plain).items() if name not in ("__dict__", "__weakref__")}
    types: dict[str, Any] = body.get("__annotations__", {})
    given = {name: body.pop(name) for name in types if name in body}
    fields = {name: value for name, value in given.items() if isinstance(value, dataclasses.Field)}
    if (
        plain.__bases__ != (object,)
        or "__post_init__" in body
        or any(word in str(type_) for type_ in types.values() for word in _REFUSED)
        or not all(field.init for field in fields.values())
    ):
        raise TypeError(f"{plain.__qualname__}: use dataclasses.dataclass for this class")
    compared = tuple(n for n in types if n not in fields or fields[n].compare)
    methods: _Methods = {"__dataclass_fields__": _Fields(plain, types, given), "__match_args__": tuple(types)}
    methods["__repr__"] = _repr(tuple(n for n in types if n not in fields or fields[n].repr))
    if eq:
        methods |= _comparisons(compared, order)
        hashed = tuple(n for n in compared if n not in fields or fields[n].hash is not False)
        methods["__hash__"] = _hash(_key(hashed)) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if slots:
        body["__slots__"] = tuple(types)
        methods |= {"__getstate__": _state, "__setstate__": _set_state} if frozen else {}
    else:
        body |= {n: _default(d) for n, d in given.items() if _default(d) is not dataclasses.MISSING}
    cls = type(plain)(plain.__name__, (), {**methods, **body})
    cls.__qualname__ = plain.__qualname__
    if "__init__" not in body:
        cls.__init__ = _first_init(cls, types, given, frozen)  # type: ignore[misc]
    return cls


class _Fields:
    """Stands for ``__dataclass_fields__`` until somebody asks for it; the standard library makes it then."""

    def __init__(self, plain: type, types: dict[str, Any], given: dict[str, Any]) -> None:
        self.name = plain.__name__
        self.body = {"__module__": plain.__module__, "__doc__": "Fields.", "__annotations__": types, **given}

    def __get__(self, instance: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        twin: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(self.name, (), dict(self.body)))
        fields: dict[str, dataclasses.Field[Any]] = twin.__dataclass_fields__
        type.__setattr__(owner, "__dataclass_fields__", fields)
        return fields


def _default(given: Any) -> Any:
    return given.default if isinstance(given, dataclasses.Field) else given


def _first_init(cls: type, types: dict[str, Any], given: dict[str, Any], frozen: bool) -> Callable[..., None]:
    """Return an ``__init__`` that puts a compiled one into its place when it is called often, or wrongly."""
    calls = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        nonlocal calls
        calls += 1
        values = dict(zip(types, args, strict=False)) | kwargs
        once = len(values) == len(args) + len(kwargs)
        if calls > _FEW or not once or not _filled(self, values, types, given):
            cls.__init__ = _init(cls, types, given, frozen)  # type: ignore[misc]
            cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    return __init__


def _filled(self: object, values: dict[str, Any], types: dict[str, Any], given: dict[str, Any]) -> bool:
    """Fill an instance; False where a value is missing or of no field."""
    for name in types:
        if name in values:
            value = values.pop(name)
        else:
            default = given.get(name, dataclasses.MISSING)
            factory = getattr(default, "default_factory", dataclasses.MISSING)
            value = _default(default) if factory is dataclasses.MISSING else factory()
        if value is dataclasses.MISSING:
            return False
        object.__setattr__(self, name, value)
    return not values


def _init(cls: type, types: dict[str, Any], given: dict[str, Any], frozen: bool) -> Callable[..., None]:
    """Compile ``__init__``; a slot is filled by its own descriptor, the quickest way round a frozen ``__setattr__``."""
    scope: dict[str, Any] = {"_none": object()}
    head, lines = ["self"], []
    for name in types:
        default = _default(given.get(name, dataclasses.MISSING))
        factory = getattr(given.get(name), "default_factory", dataclasses.MISSING)
        scope |= {f"_default_{name}": default, f"_make_{name}": factory}
        value = name
        if factory is not dataclasses.MISSING:
            head.append(f"{name}=_none")
            value = f"_make_{name}() if {name} is _none else {name}"
        else:
            head.append(name if default is dataclasses.MISSING else f"{name}=_default_{name}")
        if frozen:
            slot: Any = vars(cls).get(name)
            scope[f"_set_{name}"] = slot.__set__ if hasattr(type(slot), "__set__") else _setter(name)
        lines.append(f"_set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(lines or ["pass"]), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__annotations__ = {**types, "return": None}
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


def _setter(name: str) -> Callable[[Any, Any], None]:
    return lambda self, value: object.__setattr__(self, name, value)


def _key(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the values of an instance as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _hash(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    return __hash__


def _comparisons(names: tuple[str, ...], order: bool) -> _Methods:
    key = _key(names)

    def compared(name: str) -> Callable[[Any, object], Any]:
        by = getattr(operator, name)

        def compare(self: Any, other: object) -> Any:
            return by(key(self), key(other)) if other.__class__ is self.__class__ else NotImplemented

        return compare

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": __eq__, **{n: compared(n) for n in ("__lt__", "__le__", "__gt__", "__ge__") if order}}


def _refuse_set(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)
