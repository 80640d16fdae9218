"""Quick dataclasses behave as those of the standard library do, and compile nothing before many instances are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from tcprobe import quickclass
from tcprobe.quickclass import dataclass as quick

OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
]


def made(by: Callable[..., Any], options: dict[str, bool]) -> Any:
    """Define the same class by either decorator."""

    @by(**options)
    class Thing:
        """A thing."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: float = field(default=1.5, repr=False)
        e: tuple[int, ...] = field(default=(), compare=False)

        @property
        def twice(self) -> int:
            return 2 * self.a

        def more(self) -> Any:
            this: Any = self
            return dataclasses.replace(this, a=self.a + 1)

    return Thing


def outcome(ask: Callable[[], object]) -> object:
    """Return what was answered, or what was raised."""
    try:
        return ask()
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.fixture(params=OPTIONS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """The same class, quick and of the standard library."""
    return made(quick, request.param), made(dataclasses.dataclass, request.param)


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "repr": lambda c: repr(c(1, "x", d=2.5)).split("<locals>.")[-1],
    "defaults": lambda c: [c(1).b, c(1).c, c(1).d, c(1).e],
    "factory": lambda c: c(1).c is c(1).c,
    "equal": lambda c: [c(1) == c(1), c(1) == c(2), c(1) == 1, c(1, e=(1,)) == c(1), c(1, d=2.0) == c(1)],
    "order": lambda c: [c(1) < c(2), c(1, "b") >= c(1, "a"), sorted([c(3), c(1)])[0].a],
    "no order with others": lambda c: c(1) < (1,),
    "hash": lambda c: hash(c(1, c=())) == hash(c(1, c=())),
    "unhashable value": lambda c: isinstance(hash(c(1)), int),
    "missing": lambda c: c(),
    "unknown": lambda c: c(1, z=2),
    "twice": lambda c: c(1, a=2),
    "too many": lambda c: c(1, 2, 3, 4, 5, 6),
    "keywords": lambda c: c(b="q", a=7).b,
    "set": lambda c: setattr(c(1), "a", 2),
    "delete": lambda c: delattr(c(1), "a"),
    "replace": lambda c: [c(1, "z").more().a, c(1, "z").more().b, c(1).more().twice],
    "replace unknown": lambda c: dataclasses.replace(c(1), z=1),
    "fields": lambda c: [(f.name, f.type, f.init, f.repr, f.compare) for f in dataclasses.fields(c)],
    "is one": lambda c: [dataclasses.is_dataclass(c), dataclasses.is_dataclass(c(1))],
    "asdict": lambda c: dataclasses.asdict(c(1, "x", [1])),
    "match": lambda c: c.__match_args__,
    "names": lambda c: [c.__name__, c.__qualname__.split(".")[-1], c.__module__, c.__doc__],
    "signature": lambda c: ([c(1) for _ in range(99)], list(inspect.signature(c).parameters))[1],
    "class attribute": lambda c: c.b if isinstance(c.b, str) else "a slot",
    "copy": lambda c: [getattr(copy.copy(c(1, "x", [3])), n) for n in "abcde"],
    "dict": lambda c: hasattr(c(1), "__dict__"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_behaves_as_the_standard_library_does(pair: tuple[Any, Any], question: str) -> None:
    ours, theirs = (outcome(lambda c=c: QUESTIONS[question](c)) for c in pair)  # type: ignore[misc]
    assert ours == theirs
    for _ in range(quickclass._FEW):
        pair[0](1)
    assert outcome(lambda: QUESTIONS[question](pair[0])) == theirs, "when compiled"


@quick(frozen=True, slots=True)
class Pair:
    """Of the module, so that it can be pickled."""

    left: int
    right: str = "r"


@quick(frozen=True, slots=True)
class One:
    """A single field."""

    value: int


def test_a_frozen_class_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pair(1))) == Pair(1)


def test_a_frozen_class_takes_no_other_attribute() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pair(1).other = 2  # type: ignore[attr-defined]


def test_a_single_field_and_none_at_all() -> None:
    @quick(frozen=True)
    class Nothing:
        """No field."""

    assert (One(1) == One(1), One(1) == One(2), hash(One(1)) == hash(One(1)), repr(One(1))) == (
        True,
        False,
        True,
        "One(value=1)",
    )
    assert Nothing() == Nothing()


def test_only_a_class_of_many_instances_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    init = quickclass._init

    def counted(cls: type, *rest: Any) -> Callable[..., None]:
        compiled.append(cls.__name__)
        return init(cls, *rest)

    monkeypatch.setattr(quickclass, "_init", counted)
    thing = made(quick, {"frozen": True, "slots": True})
    assert compiled == []
    few = [thing(number, e=(1,)) for number in range(quickclass._FEW)]
    assert compiled == []
    many = [thing(number, e=(1,)) for number in range(quickclass._FEW)]
    assert compiled == ["Thing"]
    assert [repr(t) for t in few] == [repr(t) for t in many]


@pytest.mark.parametrize(
    "body",
    [
        {"__annotations__": {"a": ClassVar[int]}},
        {"__annotations__": {"a": "InitVar[int]"}},
        {"__annotations__": {"_": "KW_ONLY", "a": "int"}},
        {"__annotations__": {"a": "int"}, "a": field(init=False, default=1)},
        {"__annotations__": {"a": "int"}, "__post_init__": lambda self: None},
    ],
)
def test_what_is_not_supported_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"use dataclasses\.dataclass"):
        quick(type("Odd", (), body))
    with pytest.raises(TypeError, match=r"use dataclasses\.dataclass"):
        quick(type("Odd", (Pair,), {"__annotations__": {"b": "int"}}))
