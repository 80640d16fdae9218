"""`tcprobe.audit_shapes`: which layers of a model are badly sized."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from tcprobe.api.arguments import names_arguments
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.schema.finding import Audited
    from tcprobe.schema.finding import Finding as Found

SAVED = "model.keras"
CHOICES: Final = {
    "mode": ("auto", "traced", "source"),
    "dtype": ("float32", "tf32", "float16", "bfloat16", "float8"),
}
"""What these arguments take beside None; the command line's parser holds its own options to the same words."""
LOADS = "import keras\n\nmodel = keras.saving.load_model({path!r}, compile=True)\n"


class Finding(Struct, frozen=True):
    """One finding of an audit."""

    code: str  # rule that says it (TC101); ``tcprobe explain CODE`` has more
    severity: str  # error, warning or note
    message: str  # what it is and how bad it is
    layer: str | None = None  # path of the layer; None where the finding is about no layer
    # dimension, size, suggested: dimension of the layer, its size and a better one, where it is about one.
    dimension: str | None = None
    size: int | None = None
    suggested: int | None = None
    # file, line: where the layer is made; None of a model object, whose lines are not known.
    file: str | None = None
    line: int | None = None
    # least, likely and most that the suggestion saves a step, in ms; None where it is not predicted
    saving_ms: tuple[float, float, float] | None = None
    saving_pct: float | None = None  # the likely saving over the step's predicted products; None likewise

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file is not None else ""
        return f"{place}{self.code} {self.message} ({self.severity})"


@names_arguments
def audit_shapes(
    model_or_path: Any,
    *,
    batch_size: int | None = None,
    dtype: str | None = None,
    target_gpu: str | None = None,
    mode: str | None = None,
    xla: bool | None = None,
    timeout_s: float = 300.0,
) -> list[Finding]:
    """Return the findings of an audit, as `tcprobe audit-shapes` lists them.

    Args:
        model_or_path: a script, notebook or folder, ``model.py:factory``, or a Keras model that has been built. A model
            object is saved to a temporary file and loaded again in another process; layers of its own must be
            registered with Keras.
        batch_size: replaces an unknown batch.
        dtype: float32, tf32, float16, bfloat16 or float8; None takes the model's own.
        target_gpu: GPU to predict for; None takes the default.
        mode: auto, traced or source; None is auto.
        xla: whether XLA compiles the step.
        timeout_s: most seconds to trace one file.

    Raises:
        TcprobeError: it cannot be audited; the message says why.
    """
    from tcprobe.flows.audit.flow import audit
    from tcprobe.flows.audit.options import AuditOptions
    from tcprobe.foreign import input_path

    for name, word in (("mode", mode), ("dtype", dtype)):
        if word is not None and word not in CHOICES[name]:
            raise UsageError(f"{name}={word!r}: no such {name}", f"one of {', '.join(CHOICES[name])}")

    def run(file: str, mode: str | None) -> list[tuple[Audited, Found]]:
        from tcprobe.report.audit.words import rows

        options = AuditOptions(
            (file,), mode, batch_size=batch_size, dtype=dtype, target_gpu=target_gpu, xla=xla, timeout_s=timeout_s
        )
        report = audit(options, lambda _: None).report
        if report.failed:
            file, why = report.failed[0]
            raise UsageError(why if why.startswith(file) else f"{file}: {why}")
        return rows(report)

    if isinstance(model_or_path, str | os.PathLike):
        file = str(input_path(model_or_path))
        return [_finding(audited, found, placed=True) for audited, found in run(file, mode)]
    with tempfile.TemporaryDirectory(prefix="tcprobe-model-") as folder:
        script = _saved(model_or_path, Path(folder))
        return [_finding(audited, found, placed=False) for audited, found in run(str(script), "traced")]


def _saved(model: Any, folder: Path) -> Path:
    """Save a model beside a script that loads it, and return the script."""
    if not hasattr(model, "save") or not hasattr(model, "layers"):
        raise UsageError(
            f"{type(model).__name__} is neither a path nor a Keras model", "give a script, a notebook, or a built model"
        )
    path, script = folder / SAVED, folder / "model.py"
    model.save(path)
    script.write_text(LOADS.format(path=str(path)), encoding="utf-8")
    return script


def _finding(audited: Audited, found: Found, placed: bool) -> Finding:
    from tcprobe.report.audit.words import message

    place, saving = found.place if placed else None, found.saving_ns
    return Finding(
        code=found.code,
        severity=str(found.severity),
        message=message(found),
        layer=found.layer,
        dimension=found.dimension,
        size=found.size,
        suggested=found.suggested,
        file=place.file if place is not None else audited.file if placed else None,
        line=None if place is None else place.line,
        saving_ms=None if saving is None else (saving.low / 1e6, saving.mid / 1e6, saving.high / 1e6),
        saving_pct=None if found.saving_pct is None else found.saving_pct.mid,
    )
