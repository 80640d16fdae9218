"""What is said of something, as a kind with fields: the reports turn it into words, and nothing reads words back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=str)
Kind_co = TypeVar("Kind_co", bound=str, covariant=True)
FieldValue: TypeAlias = "str | int | float | bool | About | Statement[str] | tuple[FieldValue, ...] | None"


@dataclass(frozen=True, slots=True)
class About:
    """What a statement is about, as it names it: ``Conv2D 'conv2d_1' filters=31``.

    Attributes:
        class_name: of the layer; the type of an op of the user's own.
        name: of the layer or op.
        dimension, size: of it; None where the whole layer is meant.
        more: further layers of the same line of which the same is said.
    """

    class_name: str
    name: str
    dimension: str | None = None
    size: int | None = None
    more: int = 0


@dataclass(frozen=True, slots=True)
class Statement(Generic[Kind_co]):
    """One thing said.

    Attributes:
        kind: from a closed list.
        fields: what its sentence names, always the same for a kind.
    """

    kind: Kind_co
    fields: tuple[tuple[str, FieldValue], ...] = ()

    def get(self, name: str) -> FieldValue:
        """Return a field; None where the kind has none of this name."""
        return dict(self.fields).get(name)

    def changed(self, name: str, value: FieldValue) -> Statement[Kind_co]:
        """Return the statement with another value in one of its fields."""
        return Statement(self.kind, tuple((n, value if n == name else v) for n, v in self.fields))


def say(kind: K, /, **fields: FieldValue) -> Statement[K]:
    """Return a statement."""
    return Statement(kind, tuple(fields.items()))


def parts(said: FieldValue) -> list[Statement[str]]:
    """Return a statement and every one that its fields hold; nothing of any other value."""
    if isinstance(said, tuple):
        return [part for value in said for part in parts(value)]
    if not isinstance(said, Statement):
        return []
    return [said, *(part for _, value in said.fields for part in parts(value))]
