"""Finds out what one training step of a file's models multiplies, and writes graph.json and audit.json.

The file is imported and its models get a step of tcprobe's own, or it is run as a script. Either way a training
function is traced, not run. A `fit` returns then, and the script goes on to its next model; at the first step of a
training loop of its own the script is left, and at the first exception. What stands behind that is read from source.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter
from typing import Any, Callable, Dict, Hashable, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..config import Config
from ..core.lines import running_line
from ..script import script
from ..script.script import ByScript
from ..tensorflow.eager.parts import Body
from ..tensorflow.graph.records import Record, write_json
from ..tensorflow.precision import clusters
from .calls import Training
from .document import AuditRecord, in_one_line, status
from .gpu import Xla
from .harmless import Harmless
from .layers import EAGER, merged_layers
from .models import ModelTracer, NothingToAudit
from .onward import Ended, Limit, Stopped
from .step import GivenShapes
from .watch import Watch


class Step(NamedTuple):
    """A training step.

    Attributes:
        keys: of the functions that it calls.
        unit: of audit.json.
        empty: whether it multiplies nothing.
    """

    keys: Set[Hashable]
    unit: Record
    empty: bool


class Steps:
    """The training steps of one script, each a unit of audit.json.

    Attributes:
        trained: ids of the layers in any step, those left out among them.
    """

    def __init__(self, watch: Watch, document: AuditRecord) -> None:
        self._watch = watch
        self._document = document
        self._found: List[Step] = []
        self._known: List[Any] = []
        self._eager = 0
        self.trained: Set[int] = set()

    @property
    def found(self) -> bool:
        """Whether there is any step."""
        return bool(self._found)

    def close(self) -> None:
        """Describe what was called since the last step as another; nothing where nothing was trained."""
        training = self._watch.calls.take()
        if not training.seen:
            return
        self._watch.recorder.write()
        counts: Dict[Hashable, float] = training.calls_per_step()
        ops = self._end_eager(counts) if training.eager else []
        if ops or not any(set(counts) <= step.keys for step in self._found):
            self._add(training, counts, ops)

    def _end_eager(self, counts: Dict[Hashable, float]) -> List[Record]:
        """Add what ran outside any function to the functions that a step calls; return its products."""
        self._eager += 1
        key = "%s#%d" % (EAGER, self._eager)
        self._watch.calls.names[key] = key
        layers = self._watch.log.layers
        layers[key] = layers.pop(EAGER, [])
        counts[key] = 1.0
        ops, self._watch.log.ops = self._watch.log.ops, []
        if ops:
            self._watch.recorder.store.keep_part(key, key, [Body(ops, Counter(), 1.0)])
        return ops

    def _add(self, training: Training, counts: Dict[Hashable, float], ops: List[Record]) -> None:
        store = self._watch.recorder.store
        everything = [*ops, *(op for key in counts for record in store.records(key) for op in record["ops"])]
        layers = self._layers(counts)
        self.trained |= {record["owner"] for record in layers}
        said = _essence(everything, layers)
        empty = not (everything or layers)
        if self._found and (empty or said in self._known):
            return
        self._known.append(said)
        traces = training.in_sizes if set(counts) <= set(training.in_sizes) else {}  # of one function in several sizes
        self._watch.recorder.calls_per_step({**dict.fromkeys(traces, 1.0), **counts})
        # A step that was called alone first may be a part of this one.
        self._found = [step for step in self._found if not (step.empty or step.keys < set(counts))]
        unit = self._unit(training, counts, layers)
        if len(traces) > 1:
            unit["in_sizes"] = [self._in_sizes(key, calls) for key, calls in traces.items()]
            unit["more_sizes"] = training.more_sizes
        self._found.append(Step({*counts, *traces}, unit, empty))
        self._write()

    def _in_sizes(self, key: Hashable, calls: int) -> Record:
        layers = self._layers({key: 1.0})
        names = [self._watch.calls.names.get(key)]
        return {"calls": calls, "functions": names, "layers": layers, "batch": self._batch([key], layers)}

    def _layers(self, counts: Dict[Hashable, float]) -> List[Record]:
        return merged_layers([(counts[key], self._watch.log.layers.get(key, [])) for key in counts])

    def _xla(self) -> Xla:
        decided, on = (
            self._watch.xla.decided(),
            self._watch.gaps.run("auto-clustering", lambda: clusters(self._watch.tf)),
        )
        return Xla(True) if on else Xla(None, decided)

    def _write(self) -> None:
        """Put the units into the document; where there are several, each is called by its line too."""
        name = os.path.basename(self._document.path)
        several = len(self._found) > 1
        self._document.steps = [
            dict(step.unit, label="%s:%s" % (name, step.unit["label"]) if several else name) for step in self._found
        ]

    def _unit(self, training: Training, counts: Dict[Hashable, float], layers: List[Record]) -> Record:
        watch = self._watch
        batch = self._batch(counts, layers)
        invented = training.invented_batch
        return {
            "label": (training.place or "?").rpartition(":")[2],
            "functions": [watch.calls.names.get(key) for key in counts],
            "own_step": False,
            "batch": batch or invented,
            "batch_known": bool(batch and batch != invented),
            "layers": layers,
            **self._xla()._asdict(),
        }

    def _batch(self, keys: Iterable[Hashable], layers: List[Record]) -> Optional[int]:
        """Return the samples that functions are called with, by their arguments or the layers; None if unknown."""
        functions = [self._watch.recorder.store.functions.get(key) for key in keys]
        sizes = [f.sizes for f in functions if f is not None and f.sizes is not None]
        return next((s.batch for s in sizes if s.batch), None) or _leading(sizes) or _first_size(layers)


def _essence(ops: List[Record], layers: List[Record]) -> Tuple[Any, ...]:
    """Return what tells a step from others: its products, and the lines of its layers."""
    products = sorted(str((op["op_type"], op["input_shapes"], op["pass"])) for op in ops)
    return products, sorted(str((r["source"], r["kind"], r["config"], r["trainable"])) for r in layers)


def _leading(sizes: List[Any]) -> Optional[int]:
    shapes = [shape for s in sizes for shape in s.arguments if shape]
    return next((shape[0] for shape in shapes if len(shape) > 1 and shape[0]), None)


def _first_size(layers: List[Record]) -> Optional[int]:
    shapes = [r["input_shapes"][0] for r in layers if r["input_shapes"] and r["is_first"] is not False]
    return next((shape[0] for shape in shapes if shape and shape[0]), None)


SECONDS = 60.0  # from the first training call on
TRAINS = "the import of %s trains (it has no __main__ guard); each step is audited, none is computed"
STOPPED_IMPORT = (
    "the import of %s trains (it has no __main__ guard); it was stopped there; the steps so far are audited"
)
RAISED = "the script raised %s%s; what rests on that was not run"
STOPPED = "the script was ended %s; what stands behind that was not run"
NEVER = "a model that nothing here trains"
OWN_STEP = "models that the script did not come to train got a step of tcprobe's own"


class Audit:
    """One audit in one process."""

    def __init__(self, config: Config) -> None:
        os.makedirs(config.out, exist_ok=True)
        self._config = config
        self._orders: Dict[str, Any] = config.audit
        self._ran = bool(self._orders.get("run"))
        self._document = AuditRecord(os.path.abspath(config.name))
        shapes = GivenShapes(self._orders.get("input_shapes") or ())
        self._watch = Watch(config.out, self._orders.get("batch"), shapes, self._orders.get("gpu") or {})
        self._watch.calls.on_stop = self._swallowed
        self._steps = Steps(self._watch, self._document)
        self._limit = Limit(self._orders.get("seconds") or SECONDS, self._swallowed)
        self._harmless = Harmless(config.out)
        self._raised: List[str] = []
        self._failed_fits: List[Tuple[Any, Optional[int]]] = []  # the model and its batch size
        self._module: Any = None

    def start(self) -> None:
        """Watch for TensorFlow and Keras."""
        onward = self._watch.onward
        onward.going = not self._orders.get("first_step")
        onward.begin, onward.close, onward.failed = self._begin, self._close, self._fit_failed
        self._watch.start()

    def go(self) -> None:
        """Run or import the file, and audit what it makes."""
        error: Optional[BaseException] = None
        try:
            self._load()
        except BaseException as raised:  # the user's own, KeyboardInterrupt included
            error = raised
        self._limit.stop()
        self._steps.close()
        self._module = self._module or sys.modules.get("__main__")
        try:
            self._describe(error)
        except NothingToAudit as nothing:
            self._refuse(nothing)
        except BaseException as raised:  # of a factory
            self._document.fail("input", in_one_line(raised, self._document.path))

    def finish(self) -> None:
        """Write both files."""
        self._watch.finish()
        self._write(self._document.notes)

    def _load(self) -> None:
        """Run or import the file; the namespace is known before it begins."""
        if self._ran:
            script.run_script(self._config.kind, self._config.name, self._config.argv)
            return
        self._module = script.new_module(self._document.path)
        if self._module is None:
            raise ImportError("not a Python file")
        with open(self._document.path, "rb") as file:
            source = file.read()
        script.execute(source, self._document.path, vars(self._module))

    def _begin(self) -> None:
        """Let the script change nothing from its first training call on, and end it some time after that."""
        if self._watch.onward.going:
            self._watch.onward.over = True
            self._harmless.start()
            self._limit.start()

    def _close(self) -> None:
        """Describe a step as soon as it is known: the script may not come to its end."""
        self._steps.close()
        if self._steps.found and self._watch.onward.going:
            self._write([*self._document.notes, STOPPED % "by the limit on its time"], incomplete=True)

    def _fit_failed(self, model: Any, error: BaseException, batch: Any) -> None:
        self._failed_fits.append((model, batch if isinstance(batch, int) else None))
        self._raised.append(in_one_line(error, self._document.path, running_line()))

    def _describe(self, error: Optional[BaseException]) -> None:
        """Say what came of the script, which ended by `error`, None at its end."""
        if isinstance(error, Exception):
            self._raised.append(in_one_line(error, self._document.path))
        left = isinstance(error, Stopped) and self._watch.onward.going
        self._document.incomplete = bool(self._raised) or left
        if self._steps.found:
            self._trained(error)
        elif error is None and not self._ran:
            self._tracer().audit(self._module)
        elif self._watch.onward.going:
            self._leftover(self._is_finished)
        if self._document.steps or self._document.units:
            self._note_raised()
        elif self._raised:
            self._document.fail("raised", self._raised[0])
        elif not self._document.error:
            self._nothing(error)

    def _trained(self, error: Optional[BaseException]) -> None:
        document = self._document
        if not self._ran:
            goes_on = self._watch.onward.going and not isinstance(error, Stopped)
            sentence = TRAINS if goes_on else STOPPED_IMPORT
            document.notes.append(sentence % os.path.basename(document.path))
        if isinstance(error, Ended):
            document.notes.append(STOPPED % error)
        if document.incomplete:
            self._leftover(self._was_to_train)
        elif self._watch.onward.going and self._watch.tf is not None:
            for label in self._tracer().idle(self._module, self._steps.trained):
                document.not_seen(label, NEVER)

    def _note_raised(self) -> None:
        more = len(self._raised) - 1
        if self._raised:
            also = "; %d more of its statements failed then" % more if more else ""
            self._document.notes.append(RAISED % (self._raised[0], also))

    def _tracer(self) -> ModelTracer:
        fitted = {id(model): batch for model, batch in self._failed_fits}
        return ModelTracer(self._watch, self._document, self._orders, fitted)

    def _leftover(self, wanted: Callable[[Any], bool]) -> None:
        """Audit models that were constructed and not trained."""
        tracer = self._tracer()
        if self._watch.tf is not None and tracer.leftover(self._module, self._steps.trained, wanted):
            self._document.notes.append(OWN_STEP)

    def _is_finished(self, model: Any) -> bool:
        """Return whether a model has all its layers: where the script raised, a Sequential may lack some."""
        grows = any(c.__name__ == "Sequential" for c in type(model).__mro__)
        return not self._raised or not grows or self._was_to_train(model)

    def _was_to_train(self, model: Any) -> bool:
        compiled = getattr(model, "compiled", getattr(model, "_is_compiled", False))
        return bool(compiled) or any(model is failed for failed, _ in self._failed_fits)

    def _refuse(self, nothing: NothingToAudit) -> None:
        """Say why nothing was found; what the file raised before may be the cause."""
        if self._raised and nothing.kind != "usage":
            self._document.fail("raised", self._raised[0])
        elif self._raised:
            self._document.fail(nothing.kind, "%s, and it raised %s" % (nothing, self._raised[0]), nothing.hint)
        else:
            self._document.fail(nothing.kind, str(nothing), nothing.hint)

    def _nothing(self, error: Optional[BaseException]) -> None:
        """Say why there is nothing, of a script that raised no exception."""
        document = self._document
        if isinstance(error, SystemExit) and error.code not in (None, 0):
            said = "it exited with status %s before a training step" % status(error.code)
            document.fail("input", said, output=True)
        elif not self._ran:
            document.fail("input", "its import ends the interpreter (sys.exit)")
        elif isinstance(error, Ended):
            document.fail("input", "it was ended %s, before a training step" % error)
        else:
            document.fail("input", "it ended before any training step", "audit its models: leave out --run")

    def _swallowed(self) -> None:
        """Leave although the script catches every exception."""
        self._steps.close()
        self._limit.stop()
        self._describe(Ended("though it caught that"))
        self.finish()
        leave()

    def _write(self, notes: List[str], incomplete: bool = False) -> None:
        facts = self._watch.facts()
        given, names = self._watch.shapes, vars(self._module) if self._module is not None else ()
        content = dict(
            self._document.content(facts, self._watch.gaps.gaps),
            notes=[*self._watch.data.notes(), *self._watch.calls.notes, *notes, *given.remarks],
            incomplete=incomplete or self._document.incomplete,
            inputs=given.inputs,
            gpu_asked=self._watch.gpu.asked,
            answered=given.answered([*names, *self._watch.names()]),
        )
        write_json(os.path.join(self._config.out, "audit.json"), content)


def run_audit(config: Config, before: Set[str]) -> None:
    """Audit, write what was found, and leave the interpreter.

    Args:
        config: the probe's orders, those of the audit among them.
        before: modules that were loaded before the probe's own.
    """
    audit = Audit(config)
    audit.start()
    script.set_path(config.kind, config.name)
    folder = script.folder_of(config.kind, config.name)
    script.unshadow(folder, before)
    ByScript(folder).install()
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
