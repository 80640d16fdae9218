"""Errors of the verbs, as a caller in Python reads them: they name arguments, not options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import wraps
from inspect import signature
from typing import Final, ParamSpec, TypeVar

from tcprobe.errors import TcprobeError

Given = ParamSpec("Given")
Result = TypeVar("Result")
OPTION: Final = re.compile(r"--([a-z][a-z-]*)(?:[ =](?:(?=['\d])|(auto|traced|source)\b))?")
"""An option, with what follows of its value: the blank before a quoted text or a number, or a word of `mode`."""
OTHER_NAMES: Final = {"timeout": "timeout_s"}
"""Options that an argument spells in another way."""


def names_arguments(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Wrap a function of the API: what it raises names its own arguments."""
    parameters = frozenset(signature(function).parameters)

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TcprobeError as error:
            error.message = in_python(error.message, parameters)
            error.args = (error.message,)
            error.hint = None if error.hint is None else _hint(error.hint, parameters)
            raise

    return called


def in_python(text: str, parameters: Collection[str]) -> str:
    """Return a text with the options that are arguments here written as such, the others as they are."""

    def argument(match: re.Match[str]) -> str:
        name = _argument(match[1])
        if name not in parameters:
            return match[0]
        if match[2]:
            return f"{name}={match[2]!r}"
        return f"{name}=" if match[0].endswith((" ", "=")) else name

    return OPTION.sub(argument, text)


def _hint(text: str, parameters: Collection[str]) -> str:
    """Return a hint likewise; one with an option that is no argument is for the command line."""
    others = any(_argument(name) not in parameters for name in (match[1] for match in OPTION.finditer(text)))
    return f"on the command line: {text}" if others else in_python(text, parameters)


def _argument(option: str) -> str:
    name = option.replace("-", "_")
    return OTHER_NAMES.get(name, name)
