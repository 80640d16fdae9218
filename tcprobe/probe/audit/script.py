"""Describes the training step of a script, from the functions that it called before it was stopped or ended."""

from __future__ import annotations

import os
from typing import Any, List, Optional

from ..tensorflow.graph.records import Record
from .document import AuditRecord
from .layers import EAGER, merged_layers
from .raised import in_one_line, status
from .watch import Watch


def ended(error: Optional[BaseException], ran: bool, watch: Watch, document: AuditRecord) -> None:
    """Describe what a script trained before it ended, however it ended; `ran`: it was run, not imported."""
    if watch.calls.trained:
        if isinstance(error, Exception):
            document.notes.append(
                "after its first training step the script raised %s" % in_one_line(error, document.path)
            )
        audit_step(watch, document)
    elif error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        if ran:
            document.fail("input", "it ended before any training step", "audit its models: leave out --run")
        else:
            document.fail("input", "its import ends the interpreter (sys.exit)")
    elif isinstance(error, SystemExit):
        document.fail("input", "it exited with status %s before a training step" % status(error.code), output=True)
    else:
        document.fail("input", in_one_line(error, document.path))


def audit_step(watch: Watch, document: AuditRecord) -> None:
    """Describe the training functions that were traced as one step."""
    calls = watch.calls
    counts = calls.calls_per_step()
    if calls.eager:
        calls.end()
        counts[EAGER] = 1.0
    layers = merged_layers([(counts[key], watch.log.layers.get(key, [])) for key in counts])
    functions = [watch.recorder.store.functions.get(key) for key in counts]
    sizes = [f.sizes for f in functions if f is not None and f.sizes is not None]
    batch = next((s.batch for s in sizes if s.batch), None) or _leading(sizes) or _first_size(layers)
    invented = calls.invented_batch
    document.units.append(
        {
            "label": os.path.basename(document.path),
            "functions": [calls.names.get(key) for key in counts],
            "own_step": False,
            "batch": batch or invented,
            "batch_known": bool(batch and batch != invented),
            "layers": layers,
            "xla": watch.gaps.run("auto-clustering", lambda: _clusters(watch.tf)),
        }
    )


def _leading(sizes: List[Any]) -> Optional[int]:
    shapes = [shape for s in sizes for shape in s.arguments if shape]
    return next((shape[0] for shape in shapes if len(shape) > 1 and shape[0]), None)


def _first_size(layers: List[Record]) -> Optional[int]:
    shapes = [r["input_shapes"][0] for r in layers if r["input_shapes"] and r["is_first"] is not False]
    return next((shape[0] for shape in shapes if shape and shape[0]), None)


def _clusters(tf: Any) -> Optional[bool]:
    """Return True where XLA clusters every function, None where only those that ask for it are compiled."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    return True if "tf_xla_auto_jit=2" in flags or tf.config.optimizer.get_jit() else None
