"""Finds out what one training step of a file's models multiplies, and writes graph.json and audit.json.

The file is imported and its models get a step of tcprobe's own, or it is run as a script until its own step is
known. Either way a training function is traced, not run.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import re
import sys
import traceback
from typing import Any, Dict, List, Optional, Set

from ..config import Config
from ..core import script
from ..core.gaps import Gaps
from ..core.imports import AfterImport
from ..core.lines import USER, rank
from ..graph.recorder import GraphRecorder
from ..graph.records import Record, write_json
from ..tensorflow.precision import version
from . import find as audit_find
from .calls import EAGER, AuditCalls, Stopped
from .find import Failed, Found, Wanted
from .layers import LayerLog, merged
from .lean import Lean
from .step import Seen, trace_step
from .xla import AutoXla

SCHEMA = 1
FORMATS = re.compile("\x1b\\[[0-9;]*m")
RAISED = re.compile(r"[\w.]*(?:Error|Exception)\b[^(]*:")
USER_CODE = "in user code:"  # AutoGraph; a traceback follows, and what was raised
WRAPPED = "Exception encountered when calling"  # Keras; the line behind it says what it was
STOPPED_IMPORT = "the import of %s trains (it has no __main__ guard); it was stopped there and that step is audited"


class Audit:
    """One audit in one process."""

    def __init__(self, config: Config) -> None:
        os.makedirs(config.out, exist_ok=True)
        self.path = os.path.abspath(config.name)
        self._config = config
        self._orders: Dict[str, Any] = config.audit
        self._batch: Optional[int] = self._orders.get("batch")
        self._gaps = Gaps()
        self._recorder = GraphRecorder(config.out, self._gaps)
        self._log = LayerLog(self._recorder, self._gaps)
        self._calls = AuditCalls(self._recorder, self._gaps, self._batch)
        self._seen = Seen()
        self._recorder.layers.on_eager_call = self._seen.called
        self._tf: Any = None
        self._keras: List[Any] = []
        self._xla = AutoXla()
        self._units: List[Record] = []
        self._unseen: List[Record] = []
        self._notes: List[str] = []
        self._error: Optional[Record] = None
        self._calls.on_stop = self._swallowed

    def start(self) -> None:
        """Watch for TensorFlow and Keras."""
        hooks = {"tensorflow": self._on_tensorflow, "keras": self._on_keras, "tf_keras": self._on_keras}
        AfterImport(hooks, self._gaps).install()

    def go(self) -> None:
        """Run or import the file, and audit what it makes."""
        try:
            if self._orders.get("run"):
                script.run(self._config.kind, self._config.name, self._config.argv)
                self._ran(None)
            else:
                self._models(self._import())
        except Stopped:
            if not self._orders.get("run"):
                self._notes.append(STOPPED_IMPORT % os.path.basename(self.path))
            self._script_unit()
        except SystemExit as error:
            self._ran(error)
        except Wanted as error:
            self._fail(error.kind, str(error), error.hint)
        except BaseException as error:  # the user's own, KeyboardInterrupt included
            self._ran(error)

    def finish(self) -> None:
        """Write both files."""
        self._calls.end()
        self._recorder.calls_per_step(self._calls.calls_per_step())
        self._recorder.write()
        document = {
            "schema": SCHEMA,
            "finished": True,
            "tensorflow": getattr(self._tf, "__version__", None),
            "keras": next((getattr(k, "__version__", None) for k in self._keras), None),
            "policy": self._policy(),
            "units": self._units,
            "unseen": self._unseen,
            "notes": self._notes,
            "error": self._error,
            "gaps": self._gaps.gaps,
        }
        write_json(os.path.join(self._config.out, "audit.json"), document)

    # --- hooks -------------------------------------------------------------------------------------------

    def _on_tensorflow(self, tf: Any) -> None:
        self._tf = self._log.tf = self._seen.tf = tf
        self._gaps.run("calls", lambda: self._calls.on_tensorflow(tf))
        self._recorder.on_tensorflow(tf)
        if version(tf) < (2, 6):
            self._on_keras(tf.keras)

    def _on_keras(self, keras: Any) -> None:
        self._keras.append(keras)
        self._recorder.on_keras(keras)
        self._gaps.run("XLA of Keras", lambda: self._xla.install(keras))

    def _policy(self) -> Optional[str]:
        for keras in self._keras:
            mixed = getattr(keras, "mixed_precision", None)
            for name in ("global_policy", "dtype_policy"):
                ask = getattr(mixed, name, None)
                if ask is not None:
                    return self._gaps.run("policy", lambda: str(ask().name))
        return None

    # --- a script ----------------------------------------------------------------------------------------

    def _ran(self, error: Optional[BaseException]) -> None:
        """Audit what a script trained before it ended, however it ended."""
        if self._calls.trained:
            ended = isinstance(error, Exception)
            if ended:
                self._notes.append("after its first training step the script raised %s" % _told(error, self.path))
            self._script_unit()
        elif error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            if self._orders.get("run"):
                self._fail("input", "it ended before any training step", "audit its models: leave out --run")
            else:
                self._fail("input", "its import ends the interpreter (sys.exit)", None)
        elif isinstance(error, SystemExit):
            self._fail("input", "it exited with status %s before a training step" % _status(error.code), None, True)
        else:
            self._fail("input", _told(error, self.path), None)

    def _script_unit(self) -> None:
        """Describe the training functions that were traced as one step."""
        counts = self._calls.calls_per_step()
        if self._calls.eager:
            self._calls.end()
            self._log.finish_eager(EAGER)
            counts[EAGER] = 1.0
        layers = merged([(counts[key], self._log.layers.get(key, [])) for key in counts])
        functions = [self._recorder.store.functions.get(key) for key in counts]
        sizes = [f.sizes for f in functions if f is not None and f.sizes is not None]
        batch = next((s.batch for s in sizes if s.batch), None) or self._leading(sizes) or _first_size(layers)
        invented = self._calls.invented_batch
        self._units.append(
            {
                "label": os.path.basename(self.path),
                "functions": [self._calls.names.get(key) for key in counts],
                "own_step": False,
                "batch": batch or invented,
                "batch_known": bool(batch and batch != invented),
                "layers": layers,
                "xla": self._gaps.run("auto-clustering", lambda: _clusters(self._tf)),
            }
        )

    @staticmethod
    def _leading(sizes: List[Any]) -> Optional[int]:
        shapes = [shape for s in sizes for shape in s.arguments if shape]
        return next((shape[0] for shape in shapes if len(shape) > 1 and shape[0]), None)

    def _swallowed(self) -> None:
        """Leave although the script catches every exception."""
        self._script_unit()
        self.finish()
        leave()

    # --- models ------------------------------------------------------------------------------------------

    def _import(self) -> Any:
        """Import the file as Python would, under its dotted name where it lies in a package."""
        folder, parts = os.path.dirname(self.path), [os.path.splitext(os.path.basename(self.path))[0]]
        while os.path.exists(os.path.join(folder, "__init__.py")):
            folder, name = os.path.split(folder)
            parts.insert(0, name)
        sys.path[0] = folder
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        sys.argv = [self.path]
        if len(parts) > 1:
            importlib.import_module(".".join(parts[:-1]))
        name = ".".join(parts)
        name = "_" + name if name in sys.modules else name  # a file called like a module that others use
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise Wanted("input", "not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def _models(self, module: Any) -> None:
        """Find the models of an imported file and trace a step of each."""
        failed: List[Failed] = []
        factory = self._orders.get("factory")
        if factory:
            found = audit_find.named(module, factory, self._orders.get("args") or {})
        else:
            found = audit_find.at_module_level(module)
            if not found:
                found, failed = audit_find.from_functions(module, self.path, lambda f: f())
        if self._tf is None:
            raise Wanted("input", "it never imports TensorFlow", "tcprobe audits Keras and TensorFlow models")
        traced = [self._trace(item) for item in found]
        for item in failed:
            self._not_seen(item.what, item.reason, item.line)
        for name, made in audit_find.classes(module) if not factory else ():
            if not made:
                self._not_seen(name, "needs an input shape: call it or give a function that does", None)
        for name in audit_find.own_steps(module) if not factory else ():
            self._not_seen(name + ".train_step", "is no part of a model's own step: --run audits it", None)
        if not any(traced):
            self._nothing(failed, found)

    def _nothing(self, failed: List[Failed], found: List[Found]) -> None:
        raised = [item for item in failed if item.error is not None]
        if raised and not found:
            self._fail("input", "%s raised %s" % (raised[0].what, _told(raised[0].error, self.path)), None)
        elif failed and not found and not raised:
            needs = failed[0]
            example = "%s:%s %s" % (os.path.basename(self.path), needs.what[:-2], needs.example)
            self._fail("input", "%s %s" % (needs.what, needs.reason), "name it with its arguments: " + example)
        elif self._unseen and not self._error:
            what = "; ".join("%s %s" % (u["what"], u["reason"]) for u in self._unseen[:3])
            self._fail("input", "no model that can be traced: " + what, audit_find.WAYS)
        elif not self._error:
            looked = "no Keras model at module level, and no function without arguments that returns one"
            self._fail("input", looked, audit_find.WAYS)

    def _trace(self, found: Found) -> bool:
        """Trace a step of one model; return whether that went well."""
        try:
            given = self._seen.of(found.model)
            if given is None:
                self._not_seen(found.label, "needs an input shape: it was neither built nor called", None)
                return False
            with Lean(self._keras, self._gaps):
                step = trace_step(self._tf, found.model, given, self._batch, self._calls.own)
        except Exception as error:
            self._not_seen(found.label, "raised " + _told(error, self.path), None)
            return False
        self._recorder.training(step.key)
        function = self._recorder.store.functions.get(step.key)
        name = "tcprobe_step_%d" % len(self._units)
        if function is not None:
            function.name = name
        for record in self._recorder.store.records(step.key):
            record["python_name"] = name
        self._units.append(
            {
                "label": found.label,
                "functions": [name],
                "own_step": True,
                "batch": step.batch,
                "batch_known": step.batch_known,
                "layers": self._log.layers.get(step.key, []),
                "xla": self._gaps.run("XLA of a model", lambda: self._xla.of(found.model)),
            }
        )
        return True

    def _not_seen(self, what: str, reason: str, line: Optional[int]) -> None:
        place = "%s:%d" % (self.path, line) if line else None
        self._unseen.append({"what": what, "reason": reason, "place": place})

    def _fail(self, kind: str, message: str, hint: Optional[str], output: bool = False) -> None:
        self._error = {"kind": kind, "message": message, "hint": hint, "output": output}


def run(config: Config, before: Set[str]) -> None:
    """Audit, write what was found, and leave the interpreter.

    Args:
        config: the probe's orders, those of the audit among them.
        before: modules that were loaded before the probe's own.
    """
    audit = Audit(config)
    audit.start()
    script.set_path(config.kind, config.name)
    script.unshadow(script.folder_of(config.kind, config.name), before)
    audit.go()
    audit.finish()
    leave()


def leave() -> None:
    """End the process; threads of the script that still run are not waited for."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _first_size(layers: List[Record]) -> Optional[int]:
    shapes = [r["input_shapes"][0] for r in layers if r["input_shapes"] and r["is_first"] is not False]
    return next((shape[0] for shape in shapes if shape and shape[0]), None)


def _clusters(tf: Any) -> Optional[bool]:
    """Return True where XLA clusters every function, None where only those that ask for it are compiled."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    return True if "tf_xla_auto_jit=2" in flags or tf.config.optimizer.get_jit() else None


def _status(code: Any) -> str:
    return str(code).splitlines()[0] if isinstance(code, str) and code else str(code)


def _told(error: Optional[BaseException], path: str) -> str:
    """Return what was raised and at which line of the user's, in one line."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    line = next((t for t in reversed(text) if t.strip()), type(error).__name__) if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return "%s (%s:%s)" % (line, error.filename or path, error.lineno)
    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)
    place = next((f for f in reversed(frames) if rank(f.filename) == USER), None)
    return (_said(text) or line)[:300] + (" (%s:%s)" % (place.filename, place.lineno) if place else "")


def _said(text: List[str]) -> str:
    """Return the line of an error's text that says what is wrong: AutoGraph and Keras put others before it."""
    lines = [t for t in (FORMATS.sub("", line).strip() for line in text) if t]
    name = lines[0].partition(":")[0] if lines else ""
    while len(lines) > 1:
        if lines[0].endswith(USER_CODE):
            lines = lines[next((i for i, t in enumerate(lines) if i and RAISED.match(t)), len(lines) - 1) :]
        elif WRAPPED in lines[0]:
            lines = lines[1:] if lines[1].endswith(USER_CODE) else ["%s: %s" % (name, lines[1])]
        else:
            break
    return lines[0] if lines else ""
