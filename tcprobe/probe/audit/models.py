"""Traces a training step of tcprobe's own for each model of an imported file."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from . import find
from .document import AuditRecord
from .find import Failed, Found, NothingToAudit
from .lean import Lean
from .raised import in_one_line
from .step import trace_step
from .watch import Watch


class ModelTracer:
    """Finds the models of a file and traces a step of each.

    Args:
        watch: the hooks.
        document: takes what is found.
        orders: `batch`; `factory` and its `args` where the user named one.
    """

    def __init__(self, watch: Watch, document: AuditRecord, orders: Dict[str, Any]) -> None:
        self._watch = watch
        self._document = document
        self._orders = orders

    def audit(self, module: Any) -> None:
        """Audit an imported file.

        Raises:
            NothingToAudit: the file never imports TensorFlow, or what was named cannot be had.
        """
        document = self._document
        failed: List[Failed] = []
        factory = self._orders.get("factory")
        if factory:
            found = find.named(module, factory, self._orders.get("args") or {})
        else:
            found = find.at_module_level(module)
            if not found:
                found, failed = find.from_functions(module, document.path, lambda f: f())
        if self._watch.tf is None:
            raise NothingToAudit("input", "it never imports TensorFlow", "tcprobe audits Keras and TensorFlow models")
        traced = [self._trace(item) for item in found]
        for item in failed:
            document.not_seen(item.what, item.reason, item.line)
        for name, made in find.classes(module) if not factory else ():
            if not made:
                document.not_seen(name, "needs an input shape: call it or give a function that does")
        for name in find.own_steps(module) if not factory else ():
            document.not_seen(name + ".train_step", "is no part of a model's own step: --run audits it")
        if not any(traced):
            self._nothing(failed, found)

    def _nothing(self, failed: List[Failed], found: List[Found]) -> None:
        document = self._document
        raised = [item for item in failed if item.error is not None]
        if raised and not found:
            document.fail("input", "%s raised %s" % (raised[0].what, in_one_line(raised[0].error, document.path)))
        elif failed and not found and not raised:
            needs = failed[0]
            example = "%s:%s %s" % (os.path.basename(document.path), needs.what[:-2], needs.example)
            document.fail("input", "%s %s" % (needs.what, needs.reason), "name it with its arguments: " + example)
        elif document.unseen and not document.error:
            what = "; ".join("%s %s" % (u["what"], u["reason"]) for u in document.unseen[:3])
            document.fail("input", "no model that can be traced: " + what, find.WAYS)
        elif not document.error:
            looked = "no Keras model at module level, and no function without arguments that returns one"
            document.fail("input", looked, find.WAYS)

    def _trace(self, found: Found) -> bool:
        """Trace a step of one model; return whether that went well."""
        watch, document = self._watch, self._document
        try:
            given = watch.seen.of(found.model)
            if given is None:
                document.not_seen(found.label, "needs an input shape: it was neither built nor called")
                return False
            with Lean(watch.keras, watch.gaps):
                step = trace_step(watch.tf, found.model, given, self._orders.get("batch"), watch.calls.own)
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
                "xla": watch.gaps.run("XLA of a model", lambda: watch.xla.of(found.model)),
            }
        )
        return True
