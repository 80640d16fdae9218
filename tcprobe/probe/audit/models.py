"""Finds the models that a file makes, and traces a training step of tcprobe's own for each."""

from __future__ import annotations

import ast
import inspect
import os
import re
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..tensorflow.precision import clusters
from .document import AuditRecord, in_one_line
from .gpu import Xla, was_compiled
from .layers import KERAS_PACKAGES, is_model
from .step import Lean, trace_step
from .watch import Watch

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


UNBUILT = "needs an input shape: it was neither built nor called (--input-shape 224,224,3)"
IMPORT = re.compile(r"\s+(?:import|from)\s+(?:tensorflow|keras)\b")  # within a function, or a condition
UNCALLED = "needs an input shape: call it or give a function that does"


class ModelTracer:
    """Finds the models of a file and traces a step of each.

    Args:
        watch: the hooks.
        document: takes what is found.
        orders: `batch`, and `read_batch` of a script that failed; `factory` and its `args` where the user named one.
        fitted: the batch size of each `fit` that failed, by id of its model.
    """

    def __init__(
        self, watch: Watch, document: AuditRecord, orders: Dict[str, Any], fitted: Dict[int, Optional[int]]
    ) -> None:
        self._watch = watch
        self._document = document
        self._orders = orders
        self._fitted = fitted

    def audit(self, module: Any) -> None:
        """Audit an imported file.

        Raises:
            NothingToAudit: the file never imports TensorFlow, or what was named cannot be had.
        """
        document = self._document
        factory = self._orders.get("factory")
        found, failed = self._find(module)
        if self._watch.tf is None:
            raise NothingToAudit(
                "none",
                "it imports TensorFlow inside a function alone, so it was not run: --run runs it"
                if self._imports_later()
                else "it never imports TensorFlow",
                "tcprobe audits Keras and TensorFlow models",
            )
        traced = [self._trace(item) for item in found]
        for item in failed:
            document.not_seen(item.what, item.reason, item.line)
        for name, made in classes(module) if not factory else ():
            if not made:
                document.not_seen(name, UNCALLED)
        for name in own_steps(module) if not factory else ():
            document.not_seen(name + ".train_step", "is no part of a model's own step: --run audits it")
        if not any(traced):
            self._nothing(failed, found)

    def _imports_later(self) -> bool:
        """Return whether the file has an import of TensorFlow or Keras within something."""
        with open(self._document.path, encoding="utf-8", errors="replace") as text:
            return any(IMPORT.match(line) for line in text)

    def _find(self, module: Any) -> Tuple[List[Found], List[Failed]]:
        factory = self._orders.get("factory")
        if factory:
            return named(module, factory, self._orders.get("args") or {}), []
        found = at_module_level(module)
        if self._document.incomplete or not found:
            found = distinct([*found, *self.made(module)])
        return (found, []) if found else from_functions(module, self._document.path, lambda f: f())

    def made(self, module: Any) -> List[Found]:
        """Return the models that the file has constructed, wherever it keeps them, but not parts of others."""
        names = {id(model): name for name, value in list(vars(module).items()) for _, model in models_in(value, "")}
        inner = {id(getattr(m, "_functional", None)) for m in self._watch.made}  # Keras 3's Sequential has one inside
        whole = [
            m
            for m in self._watch.made
            if id(m) not in inner and self._watch.gaps.run("parts of a model", partial(_has_parts, m))
        ]
        return distinct(Found(names.get(id(m), str(getattr(m, "name", "model"))), m) for m in whole)

    def leftover(self, module: Any, trained: Set[int], wanted: Callable[[Any], bool]) -> bool:
        """Audit the models that were constructed and not trained; return whether there are any.

        Args:
            module: the namespace that names them.
            trained: ids of the layers that a training step of the script's own has.
            wanted: whether a model is asked for.
        """
        chosen = [found for found in self.untrained(module, trained) if wanted(found.model)]
        return sum(self._trace(found) for found in chosen) > 0

    def untrained(self, module: Any, trained: Set[int]) -> List[Found]:
        """Return the models that were constructed and of which no step has a layer."""
        parts = [(found, {id(part) for part in parts_of(found.model)}) for found in self.made(module)]
        return [found for found, layers in parts if not layers & trained]

    def idle(self, module: Any, trained: Set[int]) -> List[str]:
        """Return what the file calls those of them that hold matrices: one that augments data is none to train."""
        found = self.untrained(module, trained)
        return [f.label for f in found if self._watch.gaps.run("weights of a model", partial(_has_matrices, f.model))]

    def _nothing(self, failed: List[Failed], found: List[Found]) -> None:
        document = self._document
        raised = [item for item in failed if item.error is not None]
        if raised and not found:
            document.fail("input", "%s raised %s" % (raised[0].what, in_one_line(raised[0].error, document.path)))
        elif failed and not found and not raised:
            needs = next((item for item in failed if MODELS.search(item.what)), failed[0])
            example = "%s:%s %s" % (os.path.basename(document.path), needs.what[:-2], needs.example)
            document.fail("input", "%s %s" % (needs.what, needs.reason), "name it with its arguments: " + example)
        elif document.unseen and not document.error:
            what = "; ".join("%s %s" % (u["what"], u["reason"]) for u in document.unseen[:3])
            document.fail("input", "no model that can be traced: " + what, WAYS)
        elif not document.error:
            looked = "no Keras model at module level, and no function without arguments that returns one"
            document.fail("none", looked, WAYS)

    def _trace(self, found: Found) -> bool:
        """Trace a step of one model; return whether that went well."""
        watch, document = self._watch, self._document
        try:
            given = watch.seen.of(found.model, found.label)
            if given is None:
                document.not_seen(found.label, UNBUILT)
                return False
            with Lean(watch.keras, watch.gaps):
                batch, trains = self._orders.get("batch"), self._trained_on(found.model)
                step = trace_step(watch.tf, found.model, given, batch, trains, watch.calls.own)
        except Exception as error:
            document.not_seen(found.label, "raised " + in_one_line(error, document.path))
            return False
        watch.recorder.training(step.key)
        function = watch.recorder.store.functions.get(step.key)
        name = "tcprobe_step_%d" % len(document.units)
        if function is not None:
            function.name = name
        for record in watch.recorder.store.records(step.key):
            record["python_name"] = name
        document.units.append(
            {
                "label": found.label,
                "functions": [name],
                "own_step": True,
                "batch": step.batch,
                "batch_known": step.batch_known,
                "layers": watch.log.layers.get(step.key, []),
                **(watch.gaps.run("XLA of a model", lambda: self._xla(found.model)) or Xla(None))._asdict(),
            }
        )
        return True

    def _trained_on(self, model: Any) -> Optional[int]:
        """Return how many samples a script that failed would have trained on; None where it does not tell."""
        if not self._document.incomplete:
            return None
        return self._fitted.get(id(model)) or self._orders.get("read_batch")

    def _xla(self, model: Any) -> Xla:
        """Return whether XLA compiles a model; where a script compiles none, it may have a loop of its own."""
        if clusters(self._watch.tf):
            return Xla(True)
        return Xla(False) if not was_compiled(model) and self._has_own_loop() else self._watch.xla.of(model)

    def _has_own_loop(self) -> bool:
        """Return whether a file takes gradients itself and compiles no model."""
        with open(self._document.path, "rb") as file:
            text = file.read()
        return b"GradientTape" in text and b".compile(" not in text


def _has_matrices(model: Any) -> bool:
    return any(len(weight.shape) > 1 for weight in model.weights)


def _has_parts(model: Any) -> bool:
    """Return whether a model was constructed to its end, and holds layers."""
    return bool(parts_of(model))
