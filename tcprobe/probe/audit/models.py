"""Traces a training step of tcprobe's own for each model of an imported file."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..tensorflow.precision import clusters
from . import find
from .document import AuditRecord
from .find import Failed, Found, NothingToAudit
from .raised import in_one_line
from .step import Lean, trace_step
from .watch import Watch
from .xla import Xla, was_compiled

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
        for name, made in find.classes(module) if not factory else ():
            if not made:
                document.not_seen(name, UNCALLED)
        for name in find.own_steps(module) if not factory else ():
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
            return find.named(module, factory, self._orders.get("args") or {}), []
        found = find.at_module_level(module)
        if self._document.incomplete or not found:
            found = find.distinct([*found, *self.made(module)])
        return (found, []) if found else find.from_functions(module, self._document.path, lambda f: f())

    def made(self, module: Any) -> List[Found]:
        """Return the models that the file has constructed, wherever it keeps them, but not parts of others."""
        names = {
            id(model): name for name, value in list(vars(module).items()) for _, model in find.models_in(value, "")
        }
        inner = {id(getattr(m, "_functional", None)) for m in self._watch.made}  # Keras 3's Sequential has one inside
        whole = [
            m
            for m in self._watch.made
            if id(m) not in inner and self._watch.gaps.run("parts of a model", partial(_has_parts, m))
        ]
        return find.distinct(Found(names.get(id(m), str(getattr(m, "name", "model"))), m) for m in whole)

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
        parts = [(found, {id(part) for part in find.parts_of(found.model)}) for found in self.made(module)]
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
            needs = next((item for item in failed if find.MODELS.search(item.what)), failed[0])
            example = "%s:%s %s" % (os.path.basename(document.path), needs.what[:-2], needs.example)
            document.fail("input", "%s %s" % (needs.what, needs.reason), "name it with its arguments: " + example)
        elif document.unseen and not document.error:
            what = "; ".join("%s %s" % (u["what"], u["reason"]) for u in document.unseen[:3])
            document.fail("input", "no model that can be traced: " + what, find.WAYS)
        elif not document.error:
            looked = "no Keras model at module level, and no function without arguments that returns one"
            document.fail("none", looked, find.WAYS)

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
    return bool(find.parts_of(model))
