"""Options of a command line: argparse and absl's flags, at their defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tcprobe.audit.source.values.kinds import (
    Bound,
    CommandLine,
    Entries,
    Items,
    Keywords,
    Named,
    SourceValue,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.several import one_of
from tcprobe.source.values import Known, derived

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


def is_flags(name: str) -> bool:
    """Return whether a name imported is absl's ``FLAGS``."""
    return _FLAGS.fullmatch(_plain(name)) is not None


def is_definition(name: str) -> bool:
    """Return whether a name imported defines a flag of absl's (``flags.DEFINE_integer``)."""
    return _DEFINED.fullmatch(_plain(name)) is not None


def _plain(name: str) -> str:
    return re.sub(r"^tensorflow\.compat\.v[12]\.", "tensorflow.", name)


def define(flags: CommandLine, args: Sequence[SourceValue], keywords: Keywords, sure: bool) -> SourceValue:
    """Follow ``flags.DEFINE_integer(name, default, help)``; return what holds the flag's `value`."""
    given = args[0] if args else keywords.get("name")
    default = args[1] if len(args) > 1 else keywords.get("default", known_constant(None))
    if not isinstance(given, Known) or not isinstance(given.value, str):
        flags.open = "has flags of names that are not known"
        return Unknown("is a flag of a name that is not known")
    if isinstance(default, Known) and default.value is None:
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
        return known_constant(None)
    if name == "set_defaults":
        for key, value in keywords.items():
            _set(of, key, value, sure)
        return known_constant(None)
    if name in ("add_argument_group", "add_mutually_exclusive_group", "parse_args"):
        return of
    if name == "parse_known_args":
        return Items([of, Unknown("is what the command line has besides")])
    if name in ("parse_intermixed_args", "add_subparsers"):
        of.open = f"is changed by {name}()"
    return Unknown(f"is the result of {name}()")


def command_line_entries(of: CommandLine) -> Entries:
    """Return the options as a dictionary: ``vars(args)``."""
    return Entries(of.entries, of.open)


def _add(of: CommandLine, args: list[SourceValue], keywords: Keywords, sure: bool) -> None:
    names = [a.value for a in args if isinstance(a, Known) and isinstance(a.value, str)]
    told = keywords.get("dest")
    long = next((n for n in names if n.startswith("--")), names[0] if names else None)
    target = told.value if isinstance(told, Known) else long
    if not isinstance(target, str) or len(names) != len(args):
        of.open = "has options of names that are not known"
        return
    key = target.lstrip("-").replace("-", "_") if told is None else target
    _set(of, key, _default(long or target, keywords), sure)


def _default(name: str, keywords: Keywords) -> SourceValue:
    action = keywords.get("action")
    done = action.value if isinstance(action, Known) else None
    default = keywords.get("default")
    if default is None:
        switch = _SWITCHES.get(done) if isinstance(done, str) else None
        return known_constant(switch) if switch is not None else Unknown(f"{name} has no default")
    if not isinstance(default, Known):
        return default
    if default.value is None:
        return Unknown(f"{name} has no default")
    kind = keywords.get("type")
    if not isinstance(default.value, str) or kind is None or kind == Named("builtins.str"):
        return default
    make = _TYPES.get(kind.name) if isinstance(kind, Named) else None
    try:  # argparse hands a default that is a text to `type`
        return (
            derived(make(default.value), [default], default.expression)
            if make
            else Unknown(f"{name} is made from a text")
        )
    except ValueError:
        return Unknown(f"{name} is made from a text")


def _set(of: CommandLine, name: str, value: SourceValue, sure: bool) -> None:
    of.entries[name] = value if sure else one_of([of.entries.get(name), value])
