"""From arguments that must change to the literals that they rest on, and the proof that nothing else changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.slots import Slot, is_number
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.text import edited, line_starts, moved, offsets, sound, span
from tcprobe.schema.finding import Edit
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source
    from tcprobe.source.values import Literal_


def solve(slots: Sequence[Slot]) -> tuple[Edit, ...]:
    """Return the edits of literals that give every slot its new number, in the order of their places.

    A literal that is the number is replaced; of a product one factor is, the one that changes elsewhere too
    (63 of ``7 * 7 * 63`` beside a reshape to 63), or the only one that can.

    Raises:
        NotCertain: other arithmetic, more than one way, or two new numbers for one literal.
    """
    chosen: dict[Place, tuple[Literal_, int]] = {}
    todo = []
    pairs = {(slot.old, slot.new) for slot in slots}
    for slot in slots:
        roles = {use.role for use in slot.literals}
        if roles == {"value"}:
            for use in slot.literals:
                _choose(chosen, use.literal, slot.new)
        elif roles == {"factor"}:
            todo.append(slot)
        else:
            raise NotCertain(say("no_literal"))
    for slot in sorted(todo, key=lambda s: not any(u.literal.place in chosen for u in s.literals)):
        _factor(slot, chosen, pairs)
    edits = (Edit(place, literal.text, _spelled(literal, new)) for place, (literal, new) in chosen.items())
    return tuple(sorted(edits, key=lambda e: e.place))


def unwanted(slots: Sequence[Slot], edits: Sequence[Edit], sizes: Iterable[int], files: Files) -> list[Place]:
    """Return the arguments of calls that the edits change and nobody asked for.

    Args:
        slots: what is asked for.
        edits: what is done for it.
        sizes: others that change with them, of what a layer takes.
        files: the files.

    Raises:
        NotCertain: they change something else, as the count of a loop, or something that the source does not tell.
    """
    found: dict[Place, None] = {}
    asked = [slot.argument.place for slot in slots]
    for file, own in _by_file(edits).items():
        files.shapes(file).refuse_leftovers([*sizes, *(slot.old for slot in slots)], asked)
        found.update(dict.fromkeys(files.uses(file).changed([e.place for e in own], asked)))
    return list(found)


def check(slots: Sequence[Slot], edits: Iterable[Edit], files: Files) -> None:
    """See that the edited files parse, that every slot has its number, and that no other argument changed.

    Raises:
        NotCertain: not so.
    """
    for file, own in _by_file(edits).items():
        before = files.sources[file]
        text = edited(before.text, own, file)
        if not sound(before.text, text, own):
            raise NotCertain(say("unparsable"))
        after = before.edited(text)
        added = [new for new, edit in zip(moved(before.text, own), _ordered(own), strict=True) if not edit.before]
        starts = line_starts(text)
        calls = [c for c in after.calls() if not _within(offsets(c.place, starts), added)]
        _compare(before, after, calls, [s for s in slots if s.source.path == file])


def _compare(before: Source, after: Source, calls: Sequence[Call], slots: list[Slot]) -> None:
    """Compare the calls of a file with those of the edited one that were there before."""
    pairs = list(zip(before.calls(), calls, strict=False))
    if len(before.calls()) != len(calls) or any(a.arguments.keys() != b.arguments.keys() for a, b in pairs):
        raise NotCertain(say("other_calls"))
    asked: dict[Place, list[Slot]] = {}
    for slot in slots:
        asked.setdefault(slot.argument.place, []).append(slot)
    places = set(asked)
    for old, new in pairs:
        for name, argument in old.arguments.items():
            places.discard(argument.place)
            own = asked.get(argument.place, [])
            values = [_asked(known.value, own) for known in before.alternatives(argument.node)]
            if values != [known.value for known in after.alternatives(new.arguments[name].node)]:
                raise NotCertain(say("other_value", argument=name))
    if places:
        raise NotCertain(say("argument_lost"))


def _asked(value: Any, slots: list[Slot]) -> Any:
    """Return the value that an argument must have after the edits."""
    items = list(value) if isinstance(value, tuple) else value
    for slot in slots:
        if slot.index is None and is_number(value, slot.old):
            return slot.new
        if slot.index is not None and isinstance(value, tuple) and is_number(value[slot.index], slot.old):
            items[slot.index] = slot.new
    return tuple(items) if isinstance(value, tuple) else value


def _choose(chosen: dict[Place, tuple[Literal_, int]], literal: Literal_, new: int) -> None:
    if type(literal.value) is not int:
        raise NotCertain(say("no_whole_number", literal=literal.text))
    if chosen.setdefault(literal.place, (literal, new))[1] != new:
        raise NotCertain(say("literal_of_two_numbers", literal=literal.text))


def _factor(slot: Slot, chosen: dict[Place, tuple[Literal_, int]], pairs: set[tuple[int, int]]) -> None:
    uses = [use.literal for use in slot.literals]
    if any(literal.place in chosen for literal in uses):
        return  # whether it comes out right is seen when the edited file is read
    fitting = {}
    for literal in uses:
        if type(literal.value) is int and literal.value > 0 and literal.value * slot.new % slot.old == 0:
            fitting[literal.place] = (literal, literal.value * slot.new // slot.old)
    linked = {place: way for place, way in fitting.items() if (way[0].value, way[1]) in pairs}
    ways = list((linked or fitting).values())
    if len(ways) != 1:
        raise NotCertain(say("factor_open", size=slot.old))
    _choose(chosen, *ways[0])


def _spelled(literal: Literal_, new: int) -> str:
    """Return a number in the spelling of another: ``0x3f``, ``3_087``."""
    prefix = literal.text[:2]
    if prefix.lower() in ("0x", "0o", "0b"):
        digits = format(new, prefix[1].lower())
        return prefix + (digits.upper() if literal.text[2:].isupper() else digits)
    return f"{new:_}" if "_" in literal.text else str(new)


def _by_file(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    found: dict[str, list[Edit]] = {}
    for edit in edits:
        found.setdefault(edit.place.file, []).append(edit)
    return found


def _ordered(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda e: span(e.place))


def _within(stretch: tuple[int, int], several: Iterable[tuple[int, int]]) -> bool:
    return any(start <= stretch[0] and stretch[1] <= end for start, end in several)
