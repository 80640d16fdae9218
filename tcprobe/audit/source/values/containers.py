"""Methods of lists, dictionaries and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tcprobe.audit.source.values.kinds import Entries, Items, SourceValue, Unknown, known_constant
from tcprobe.audit.source.values.parts import elements
from tcprobe.source.values import Known

READS: Final = ("get", "items", "keys", "values", "copy")
"""Methods of a dictionary that change nothing."""
CHANGING: Final = frozenset(("update", "append", "extend", "insert", "pop", "popitem", "setdefault")).union(
    ("clear", "remove", "sort", "reverse", "add", "discard")
)
"""Methods that change the list, dictionary or set that they are called on."""
_TEXT: Final[dict[str, Callable[..., str | bool]]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
}


def of_text(of: str, name: str, args: list[SourceValue]) -> str | bool | None:
    """Return the result of a text's method, `args` texts; None where that is not known."""
    given = [a.value for a in args if isinstance(a, Known) and isinstance(a.value, str)]
    if name not in _TEXT or len(given) != len(args) or len(args) != (1 if name.endswith("with") else 0):
        return None
    return _TEXT[name](of, *given)


def of_list(of: Items, name: str, args: list[SourceValue]) -> SourceValue:
    """Return the result of a list's method."""
    if name == "append" and args:
        of.items.append(args[0])
    elif name in ("extend", "insert") and args:
        found = elements(args[-1]) if name == "extend" else None
        of.items.extend(found or [])
        of.open = of.open if found is not None else f"is changed by {name}()"
    elif name == "copy":
        return Items(list(of.items), of.open)
    elif name == "pop" and of.items and not args:
        return of.items.pop()
    elif name in ("pop", "sort", "reverse", "remove", "clear"):
        of.open = f"is changed by {name}()"
    return known_constant(None)


def of_dictionary(of: Entries, name: str, args: list[SourceValue], keywords: dict[str, SourceValue]) -> SourceValue:
    """Return the result of a dictionary's method."""
    if name in ("get", "pop", "setdefault") and args and isinstance(args[0], Known) and not of.open:
        default = args[1] if len(args) > 1 else known_constant(None)
        found = of.entries.pop(args[0].value, default) if name == "pop" else of.entries.get(args[0].value, default)
        if name == "setdefault":
            of.entries[args[0].value] = found
        return found
    if name in ("items", "keys", "values", "copy") and not of.open:
        rows: dict[str, Callable[[], SourceValue]] = {
            "items": lambda: Items([Items([of.key(k), v]) for k, v in of.entries.items()]),
            "keys": lambda: Items([of.key(k) for k in of.entries]),
            "values": lambda: Items(list(of.entries.values())),
            "copy": lambda: Entries(dict(of.entries), None, of.keys),
        }
        return rows[name]()
    if name == "update":
        more = args[0] if args else Entries({})
        of.entries.update({**(more.entries if isinstance(more, Entries) else {}), **keywords})
        of.open = of.open or (None if isinstance(more, Entries) and not more.open else "is changed by update()")
        return known_constant(None)
    if name in ("get", "pop", "setdefault", "clear", "popitem"):
        of.open = of.open or (f"is changed by {name}()" if name != "get" else None)
    return Unknown(of.open or f"is the result of {name}()")
