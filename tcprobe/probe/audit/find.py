"""Finds the models that a file makes: named, at module level, or returned by functions without arguments."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .layers import KERAS_PACKAGES, is_model

NEVER = re.compile(r"^(_.*|main|run.*|train.*|test.*|fit.*|eval.*|predict.*|load_(data|dataset|images).*|download.*)$")
MODELS = re.compile("model|generator|discriminator|net|encoder|gan")
LIKELY = re.compile("^(build|make|create|get|define|construct|new)(_|$)|" + MODELS.pattern)
SAYS_KERAS = frozenset(("keras", "Sequential", "Model", "Input", "layers", "tf", "applications"))
WAYS = "name a function (model.py:build), let a module-level variable hold the model, or run the script (--run)"


class NothingToAudit(Exception):
    """Nothing to audit was found, or what was named cannot be had.

    Attributes:
        kind: ``usage`` for a wrong request, ``none`` for a file that makes no model.
        hint: what to do.
    """

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


class Found(NamedTuple):
    """A model, and what the user calls it."""

    label: str
    model: Any


class Failed(NamedTuple):
    """Something that should have given a model and did not."""

    what: str
    reason: str
    line: Optional[int]
    error: Optional[BaseException]
    example: str = ""


def named(module: Any, name: str, arguments: Dict[str, str]) -> List[Found]:
    """Return the models that `name` of a module is or makes.

    Raises:
        NothingToAudit: there is no such name, it needs other arguments, or it gives no model.
    """
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise NothingToAudit("usage", "it has no %r" % name, _choices(module))
        value = getattr(value, part)
    if not is_model(value):
        value = _call(value, name, arguments)
    found = [Found(label, model) for label, model in models_in(value, name)]
    if not found:
        raise NothingToAudit("usage", "%s gives %s, no Keras model" % (name, _article(value)))
    return distinct(found)


def _call(function: Any, name: str, arguments: Dict[str, str]) -> Any:
    if not callable(function):
        raise NothingToAudit("usage", "%s is %s, neither a model nor a function" % (name, _article(function)))
    given = {key: parse_argument(text) for key, text in arguments.items()}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(**given)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [key for key in given if key not in parameters and not open_ended]
    if unknown:
        raise NothingToAudit(
            "usage", "%s takes no argument %s" % (name, ", ".join(unknown)), "it takes " + _listed(parameters)
        )
    missing = [p for p in required(function) if p not in given]
    if missing:
        raise NothingToAudit("usage", "%s needs %s" % (name, ", ".join(missing)), "give " + _example(missing))
    return function(**given)


def _example(names: Iterable[str]) -> str:
    return " ".join("--arg %s=VALUE" % name for name in names)


def _listed(parameters: Iterable[str]) -> str:
    return ", ".join(parameters) or "none"


def parse_argument(text: str) -> Any:
    """Return the Python literal that a text is, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def required(function: Any) -> List[str]:
    """Return the names of the arguments that a function cannot do without."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]


def at_module_level(module: Any) -> List[Found]:
    """Return the distinct models in a module's variables, those left out that are parts of others."""
    found = [f for name, value in list(vars(module).items()) for f in models_in(value, name)]
    return distinct(Found(label, model) for label, model in found)


def from_functions(module: Any, path: str, call: Callable[[Any], Any]) -> Tuple[List[Found], List[Failed]]:
    """Call the file's own functions that need no arguments and look as if they made a model."""
    found: List[Found] = []
    failed: List[Failed] = []
    for name, function in candidates(module, path):
        line = function.__code__.co_firstlineno
        needs = required(function)
        if needs:
            failed.append(Failed("%s()" % name, "needs " + ", ".join(needs), line, None, _example(needs)))
            continue
        try:
            value = call(function)
        except Exception as error:
            failed.append(Failed("%s()" % name, "%s: %s" % (type(error).__name__, error), line, error))
            continue
        found += [Found(label, model) for label, model in models_in(value, name)]
    return distinct(found), failed


def candidates(module: Any, path: str) -> List[Tuple[str, Any]]:
    """Return name and function of what may make a model, in the order of the file, those that say so first."""
    functions = [
        (name, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__code__.co_filename == path and not NEVER.match(name)
    ]
    named = [
        (n, f) for n, f in functions if LIKELY.search(n.lower()) or "Model" in str(f.__annotations__.get("return"))
    ]
    others = [(n, f) for n, f in functions if (n, f) not in named and SAYS_KERAS & set(f.__code__.co_names)]
    makers = [(n, f) for n, f in named if SAYS_KERAS & set(_names(f.__code__)) or not required(f)]
    return makers + [(n, f) for n, f in others if not required(f)]


def _names(code: Any) -> List[str]:
    inner = [name for c in code.co_consts if inspect.iscode(c) for name in _names(c)]
    return [*code.co_names, *inner]


def classes(module: Any) -> List[Tuple[str, bool]]:
    """Return the subclasses of a Keras model that a module defines, and whether there is one of each."""
    models = [id(type(m)) for _, m in models_in(dict(vars(module)), "")]
    return [
        (name, id(value) in models)
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and any(c.__name__ == "Model" and c.__module__.split(".")[0] in KERAS_PACKAGES for c in value.__mro__)
    ]


def own_steps(module: Any) -> List[str]:
    """Return the names of a module's models whose class trains in a way of its own."""
    found = []
    for name, value in vars(module).items():
        if is_model(value) and not inspect.isclass(value):
            own = next((c for c in type(value).__mro__ if "train_step" in c.__dict__), None)
            found += [name] if own is not None and own.__module__.split(".")[0] not in KERAS_PACKAGES else []
    return found


def models_in(value: Any, label: str) -> List[Tuple[str, Any]]:
    """Return the models that a value is or holds, one level of nesting deep or more."""
    if is_model(value) and not inspect.isclass(value):
        return [(label, value)]
    if isinstance(value, dict):
        return [f for key, item in value.items() for f in models_in(item, "%s[%r]" % (label, key))]
    if isinstance(value, (list, tuple)):
        return [f for item in value for f in models_in(item, label)]
    return []


def distinct(found: Iterable[Found]) -> List[Found]:
    """Return models once each, those left out that are parts of others."""
    once: Dict[int, Found] = {}
    for item in found:
        once.setdefault(id(item.model), item)
    parts = {key: {id(part) for part in parts_of(item.model)} for key, item in once.items()}
    whole = [
        item
        for key, item in once.items()
        if not any(key in others or (parts[key] and parts[key] < others) for others in parts.values())
    ]
    return [f for item in whole for f in _callable(item)]


def _callable(found: Found) -> List[Found]:
    """Return a model, or its parts where it only trains them and cannot be called itself."""
    own = next((c for c in type(found.model).__mro__ if "call" in c.__dict__), None)
    if own is None or own.__name__ not in ("Model", "Layer") or own.__module__.split(".")[0] not in KERAS_PACKAGES:
        return [found]
    parts = [p for p in parts_of(found.model) if is_model(p)]
    return [Found("%s.%s" % (found.label, p.name), p) for p in parts] or [found]


def parts_of(model: Any) -> List[Any]:
    """Return the layers and models inside a model, however deep."""
    flatten = getattr(model, "_flatten_layers", None)
    if flatten is None:
        return [m for m in getattr(model, "submodules", ()) if m is not model]
    return [layer for layer in flatten() if layer is not model]


def _choices(module: Any) -> Optional[str]:
    names = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
    return "it has " + ", ".join(names[:12]) if names else None


def _article(value: Any) -> str:
    return "nothing" if value is None else "a value of type %s" % type(value).__name__
