"""Operators on values, functions of constants, and methods of lists, dictionaries and texts."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from tcprobe.audit.source.arrays.elementwise import combined
from tcprobe.audit.source.arrays.products import multiplied
from tcprobe.audit.source.kinds import (
    NOTHING,
    Bound,
    CommandLine,
    Entries,
    Items,
    Keywords,
    Named,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values import (
    doubts_of,
    elements,
    entry,
    guessed,
    items_of,
    known_of,
    not_known,
    one_of,
    through,
    truth,
    unparsed,
)
from tcprobe.source.values import LONGEST_RESULT, MOST_LEAVES, Known, derived, operate, tuple_of


def arithmetic(op: ast.operator, left: SourceValue, right: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of an operator between two values."""
    if type(left) is Known and type(right) is Known:
        return operate(op, left, right) or _not_computed(node)
    if type(left) is Tensor or type(right) is Tensor:
        made = _of_tensors(op, left, right)
    else:
        made = _joined(op, left, right) or _unknown([left, right], node)
    return through(made, left, right)


def _joined(op: ast.operator, left: SourceValue, right: SourceValue) -> SourceValue | None:
    """Return two lists as one, or a list repeated; None for anything else."""
    first, second = items_of(left), items_of(right)
    if isinstance(op, ast.Add) and first is not None and second is not None:
        joined = [*first, *second]
        return Items(joined[:MOST_LEAVES], None if len(joined) <= MOST_LEAVES else "is too long a list to be followed")
    times, repeated = (right, first) if type(right) is Known else (left, second)
    if isinstance(op, ast.Mult) and repeated is not None and type(times) is Known and type(times.value) is int:
        short = len(repeated) * times.value <= LONGEST_RESULT
        return Items(repeated * times.value) if short else Items(repeated, "is repeated too often")
    return None


def _unknown(values: list[SourceValue], node: ast.expr) -> Unknown:
    """Return why a result is not known: because one of the values is not."""
    return next((Unknown(v.reason, v.read) for v in values if type(v) is Unknown), None) or not_known(node)


def _not_computed(node: ast.expr) -> Unknown:
    return Unknown(f"{unparsed(node)} cannot be computed")


def _of_tensors(op: ast.AST, left: SourceValue, right: SourceValue) -> SourceValue:
    """Return an elementwise result or a product: of two tensors, or of one and a number."""
    if isinstance(op, ast.MatMult) and type(left) is Tensor and type(right) is Tensor:
        return multiplied(left, right)
    tensor, other = (left, right) if type(left) is Tensor else (right, left)
    assert type(tensor) is Tensor
    return combined(tensor, other)


def signed_value(op: ast.unaryop, of: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of an operator on one value: ``-a``, ``not a``."""
    if type(of) is Known:
        return operate(op, of) or _not_computed(node)
    if isinstance(op, ast.Not) and not isinstance(of, (Unknown, Tensor, Bound, Named)):
        return Known(not truth(of))
    return of


def compared(op: ast.cmpop, left: SourceValue, right: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of one comparison."""
    if type(left) is Known and type(right) is Known:
        return operate(op, left, right) or _not_computed(node)
    looks_up, is_same = isinstance(op, (ast.In, ast.NotIn)), isinstance(op, (ast.Is, ast.IsNot))
    if (type(left) is Tensor or type(right) is Tensor) and not (looks_up or is_same):
        return _of_tensors(op, left, right)
    if looks_up and type(right) is Entries and not right.open and type(left) is Known:
        return Known((left.value in right.entries) is isinstance(op, ast.In))
    nothing = is_same and type(right) is Known and right.value is None
    if nothing and type(left) is not Unknown and type(left) is not Bound and type(left) is not Named:
        return Known(isinstance(op, ast.IsNot))
    return not_known(node)


def taken(of: SourceValue, index: SourceValue, node: ast.Subscript) -> SourceValue:
    """Return an element of a list, tuple or dictionary."""
    if type(of) is Unknown:
        return of
    if type(index) is not Known:
        return _unknown([index], node.slice)
    made = entry(of, index.value)
    if made is None:
        return Unknown(f"{unparsed(node)} is not set") if type(of) is Entries else not_known(node)
    return guessed(through(made, of), doubts_of(index))


# Functions without side effects


def _range(*bounds: int) -> tuple[int, ...] | None:
    made = range(*bounds)
    return tuple(made) if len(made) <= LONGEST_RESULT else None


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "abs": abs,
    "round": round,
    "len": len,
    "min": min,
    "max": max,
    "sum": sum,
    "range": _range,
    "tuple": tuple,
    "list": tuple,
    "reversed": lambda values: tuple(reversed(values)),
    "sorted": lambda values: tuple(sorted(values)),
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.sqrt": math.sqrt,
    "math.isqrt": math.isqrt,
    "math.log2": math.log2,
    "math.prod": math.prod,
    "math.pow": math.pow,
    "math.log": math.log,
    "numpy.prod": math.prod,
    "numpy.sqrt": math.sqrt,
    "numpy.ceil": lambda value: float(math.ceil(value)),
    "numpy.floor": lambda value: float(math.floor(value)),
    "numpy.log2": math.log2,
    "numpy.abs": abs,
    "numpy.sum": sum,
    "numpy.max": max,
    "numpy.min": min,
    "tensorflow.sqrt": math.sqrt,
    "tensorflow.math.sqrt": math.sqrt,
    "tensorflow.reduce_prod": math.prod,
    "keras.ops.sqrt": math.sqrt,
    "keras.ops.prod": math.prod,
}
"""The functions, by the names under which they are imported."""


def computed(name: str, args: list[SourceValue], node: ast.Call) -> SourceValue:
    """Return the result of a function of constants (``math.sqrt``, ``max``)."""
    known = [k for a in args if (k := known_of(a)) is not None]
    if len(known) < len(args):
        return _unknown(args, node)
    return _applied(name, known) or _not_computed(node)


def _applied(name: str, parts: list[Known]) -> Known | None:
    """Return the result of one of `FUNCTIONS`; None where it raises, or is no sensible constant."""
    first = parts[0] if len(parts) == 1 else None
    if name == "int" and first is not None and type(first.value) is int:
        return first
    if any(isinstance(p.value, str) for p in parts) and name not in ("len", "bool"):
        return None
    try:
        value = FUNCTIONS[name](*(p.value for p in parts))
    except (ArithmeticError, TypeError, ValueError, AttributeError):
        return None
    if isinstance(value, tuple):
        return tuple_of(derived(element, *parts) for element in value)
    return derived(value, *parts) if isinstance(value, (int, float)) and abs(value) < 2.0**63 else None


# Methods


_WHOLE: Final[dict[str, Callable[[Entries], SourceValue]]] = {
    "items": lambda of: Items([Items([of.key(k), v]) for k, v in of.entries.items()]),
    "keys": lambda of: Items([of.key(k) for k in of.entries]),
    "values": lambda of: Items(list(of.entries.values())),
    "copy": lambda of: Entries(dict(of.entries), None, of.keys),
}
READS: Final = ("get", *_WHOLE)
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
    given = [a.value for a in args if type(a) is Known and isinstance(a.value, str)]
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
    return NOTHING


def of_dictionary(of: Entries, name: str, args: list[SourceValue], keywords: Keywords) -> SourceValue:
    """Return the result of a dictionary's method."""
    if name in ("get", "pop", "setdefault") and args and type(args[0]) is Known and not of.open:
        default = args[1] if len(args) > 1 else NOTHING
        found = of.entries.pop(args[0].value, default) if name == "pop" else of.entries.get(args[0].value, default)
        if name == "setdefault":
            of.entries[args[0].value] = found
        return found
    if name in _WHOLE and not of.open:
        return _WHOLE[name](of)
    if name == "update":
        more = args[0] if args else Entries({})
        of.entries.update({**(more.entries if type(more) is Entries else {}), **keywords})
        of.open = of.open or (None if type(more) is Entries and not more.open else "is changed by update()")
        return NOTHING
    if name in ("get", "pop", "setdefault", "clear", "popitem"):
        of.open = of.open or (f"is changed by {name}()" if name != "get" else None)
    return Unknown(of.open or f"is the result of {name}()")


# Options of a command line: argparse and absl's flags, at their defaults


AT_DEFAULTS: Final = "options of the command line count at their defaults; traced mode with --run takes others"
_DEFINED: Final = re.compile(r"(absl|tensorflow(\.app)?)\.flags\.DEFINE_(integer|float|bool|boolean|string|enum)")
_FLAGS: Final = re.compile(r"(absl|tensorflow(\.app)?)\.flags\.FLAGS")
_TYPES: Final[dict[str, type[int] | type[float]]] = {"builtins.int": int, "builtins.float": float}
_SWITCHES: Final = {"store_true": False, "store_false": True}
_METHODS: Final = (
    "add_argument", "set_defaults", "add_argument_group", "add_mutually_exclusive_group", "parse_args",
    "parse_known_args", "parse_intermixed_args", "add_subparsers",
)  # fmt: skip


def is_parser(name: str) -> bool:
    """Return whether a name imported is argparse's parser."""
    return name == "argparse.ArgumentParser"


@lru_cache(maxsize=1024)
def is_flags(name: str) -> bool:
    """Return whether a name imported is absl's ``FLAGS``."""
    return _FLAGS.fullmatch(_plain(name)) is not None


@lru_cache(maxsize=1024)
def is_definition(name: str) -> bool:
    """Return whether a name imported defines a flag of absl's (``flags.DEFINE_integer``)."""
    return _DEFINED.fullmatch(_plain(name)) is not None


def _plain(name: str) -> str:
    return re.sub(r"^tensorflow\.compat\.v[12]\.", "tensorflow.", name)


def define(flags: CommandLine, args: Sequence[SourceValue], keywords: Keywords, sure: bool) -> SourceValue:
    """Follow ``flags.DEFINE_integer(name, default, help)``; return what holds the flag's `value`."""
    given = args[0] if args else keywords.get("name")
    default = args[1] if len(args) > 1 else keywords.get("default", NOTHING)
    if type(given) is not Known or not isinstance(given.value, str):
        flags.open = "has flags of names that are not known"
        return Unknown("is a flag of a name that is not known")
    if type(default) is Known and default.value is None:
        default = Unknown(f"--{given.value} has no default")
    _set(flags, given.value, default, sure)
    return CommandLine({"value": flags.entries[given.value]})


def option(of: CommandLine, name: str) -> SourceValue:
    """Return the value of an option, or a method."""
    if name in of.entries:
        return of.entries[name]
    return Bound(of, name) if name in _METHODS else Unknown(of.open or f"{name} is no option that was seen")


def method(of: CommandLine, name: str, args: list[SourceValue], keywords: Keywords, sure: bool) -> SourceValue:
    """Return the result of a method of a parser or of what it fills; `sure` where no open condition stands around."""
    if name == "add_argument":
        _add(of, args, keywords, sure)
        return NOTHING
    if name == "set_defaults":
        for key, value in keywords.items():
            _set(of, key, value, sure)
        return NOTHING
    if name in ("add_argument_group", "add_mutually_exclusive_group", "parse_args"):
        return of
    if name == "parse_known_args":
        return Items([of, Unknown("is what the command line has besides")])
    if name in ("parse_intermixed_args", "add_subparsers"):
        of.open = f"is changed by {name}()"
    return Unknown(f"is the result of {name}()")


def _add(of: CommandLine, args: list[SourceValue], keywords: Keywords, sure: bool) -> None:
    names = [a.value for a in args if type(a) is Known and isinstance(a.value, str)]
    told = keywords.get("dest")
    long = next((n for n in names if n.startswith("--")), names[0] if names else None)
    target = told.value if type(told) is Known else long
    if not isinstance(target, str) or len(names) != len(args):
        of.open = "has options of names that are not known"
        return
    key = target.lstrip("-").replace("-", "_") if told is None else target
    typed = _typed(of.words, names, keywords)
    _set(of, key, _default(long or target, keywords) if typed is None else typed, sure)


def _typed(words: Sequence[str], names: Sequence[str], keywords: Keywords) -> SourceValue | None:
    """Return the value that the command line gives an option, the last one; None where it gives none."""
    typed: SourceValue | None = None
    action = keywords.get("action")
    switch = _SWITCHES.get(str(action.value)) if type(action) is Known else None
    for at, word in enumerate(words):
        name, given, text = word.partition("=")
        if name not in names or not name.startswith("-"):
            if name.startswith("--") and any(own.startswith(name) for own in names) and name != "--":
                typed = Unknown(f"{name} may be short for it")
            continue
        if switch is not None:
            typed = Known(not switch)
        elif action is not None or "nargs" in keywords:
            typed = Unknown(f"{name} takes more than one word")
        else:
            typed = _made(name, text if given else "".join(words[at + 1 : at + 2]), keywords.get("type"))
    return typed


def _made(name: str, text: str, kind: SourceValue | None) -> SourceValue:
    """Return what an option's `type` makes of a text."""
    if kind is None or kind == Named("builtins.str"):
        return Known(text)
    make = _TYPES.get(kind.name) if type(kind) is Named else None
    try:
        if make is not None:
            return Known(make(text))
    except ValueError:
        pass
    return Unknown(f"{name} is made from a text")


def _default(name: str, keywords: Keywords) -> SourceValue:
    action = keywords.get("action")
    done = action.value if type(action) is Known else None
    default = keywords.get("default")
    if default is None:
        switch = _SWITCHES.get(done) if isinstance(done, str) else None
        return Known(switch) if switch is not None else Unknown(f"{name} has no default")
    if type(default) is not Known:
        return default
    if default.value is None:
        return Unknown(f"{name} has no default")
    kind = keywords.get("type")
    if not isinstance(default.value, str) or kind is None or kind == Named("builtins.str"):
        return default
    made = _made(name, default.value, kind)  # argparse hands a default that is a text to `type`
    return derived(made.value, default) if type(made) is Known else made


def _set(of: CommandLine, name: str, value: SourceValue, sure: bool) -> None:
    of.entries[name] = value if sure else one_of([of.entries.get(name), value])
