"""Arguments in the source that must become another number, and where the number comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix.links import NotCertain, WantedSize
from tcprobe.audit.fix.source.files import Files
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Argument
    from tcprobe.source.source import Source
    from tcprobe.source.values import Known, LiteralUse


_INSTALLED: Final = {"site-packages", "dist-packages"}  # folders of code that is not the user's to edit


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument in the source that must become another number where it is one.

    Attributes:
        source: the file.
        argument: as it stands there.
        known: where the number comes from; several in a loop over numbers, or where branches choose.
        index: which element of a tuple; None where the argument is the number.
        old, new: the number as it is, and as it must be.
    """

    source: Source
    argument: Argument
    known: tuple[Known, ...]
    index: int | None
    old: int
    new: int

    @property
    def key(self) -> tuple[Place, int | None, int]:
        """What tells one slot from another."""
        return self.argument.place, self.index, self.old

    @property
    def literals(self) -> list[LiteralUse]:
        """The literals that the number rests on."""
        return list(dict.fromkeys(use for known in self.known for use in known.literals))


def slots_of(wanted: Iterable[WantedSize], model: Model, files: Files) -> tuple[Slot, ...]:
    """Return where the wanted arguments stand, each place once.

    Raises:
        NotCertain: one stands nowhere, or its value is not known from the source, or is another.
    """
    found: dict[tuple[Place, int | None, int], Slot] = {}
    for want in sorted(wanted, key=lambda w: (w.layer, w.argument)):
        slot = _slot(want, model.layer(want.layer), files)
        same = found.setdefault(slot.key, slot)
        if same.new != slot.new:
            raise NotCertain(say("place_of_two_sizes"))
    return tuple(found.values())


def _slot(want: WantedSize, layer: Layer | None, files: Files) -> Slot:
    place = layer.arguments.get(want.argument) if layer else None
    source = files.sources.get(place.file) if place else None
    if source is None or place is None or _INSTALLED & set(Path(place.file).parts):
        raise NotCertain(say("place_unknown", argument=want.argument, layer=want.layer))
    argument = files.tree(place.file).arguments.get((place, want.argument))
    if argument is None or source.why_open(argument.node) is not None:
        raise NotCertain(say("not_in_source", argument=want.argument, layer=want.layer))
    matches = [known for o in source.alternatives(argument.node) if (known := _element(o, want)) is not None]
    if not matches:
        raise NotCertain(say("other_in_source", argument=want.argument, layer=want.layer))
    size = len(matches[0][0].elements)
    index = want.index % size if want.index is not None else None
    return Slot(source, argument, tuple(m[1] for m in matches), index, want.old, want.new)


def _element(option: Known, want: WantedSize) -> tuple[Known, Known] | None:
    """Return a value of an argument and the part of it that changes; None where it is another number."""
    part = option
    if want.index is not None:
        if not -len(option.elements) <= want.index < len(option.elements):
            return None
        part = option.elements[want.index]
    return (option, part) if is_number(part.value, want.old) else None


def is_number(value: Any, number: int) -> bool:
    """Say whether a value is this whole number."""
    return type(value) is int and value == number
