"""TC321: a loss that ends as NaN or an infinity: since which step, after which update, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.formatting import shorten
from tcprobe.rules.run.base import Run, RunSays
from tcprobe.rules.words import Act
from tcprobe.schema.advice import Advice, AdviceKind, Concern
from tcprobe.schema.statement import Statement, say

LARGEST_HALF: Final = 65_504
"""The largest finite float16. Source: IEEE 754-2008, binary16."""
_IN_FLOAT32: Final = "train as many steps in float32 with the same seed"
_OVERFLOW: Final = f"find whether float16 overflows ({LARGEST_HALF:,})"
_HALF: Final[dict[str | None, tuple[str, ...]]] = {
    "dynamic": (f"find what overflows float16 ({LARGEST_HALF:,}) in the forward pass",),
    "none": (_OVERFLOW, "the forward pass, or a scale that the script applies", _IN_FLOAT32),
    None: (_OVERFLOW, _IN_FLOAT32),
}
_OTHER: Final = ("the learning rate", "the data", "a division or logarithm of 0")
_NAME: Final = 16  # columns of a loss


def _finite_loss(_: Advice, name: str, value: str, step: int | None, before: int | None, **f: Any) -> Act:
    since = "" if step is None else f" since step {step:,}"
    if f["half"] and f["scale"] == "fixed":
        title = f"A loss scale below {f['scale_value']:,.7g}, or a dynamic one"
        how: tuple[str, ...] = (f"gradients times the scale stay below {LARGEST_HALF:,}",)
    else:
        title, how = f"Find out why {shorten(name, _NAME)} is {value}", _HALF[f["scale"]] if f["half"] else _OTHER
    updates = "with no finite value before"
    if step is not None and before is not None:
        last = "" if step - before == 1 else f" to {step - 1:,}"
        updates = f"{'updates' if last else 'the update'} before: step{'s' if last else ''} {before:,}{last}"
        updates += f"; step {before:,} logged {f['before_value']:.4g}"
    return Act(title, how, (f"{name} is {value}{since}: no step after is of a training", updates))


SAYS: Final[RunSays] = {"finite_loss": _finite_loss}


def tc321(run: Run) -> Iterator[Advice]:
    """Yield one item where a loss that the workload logged is no finite number from some step on."""
    found = run.facts.diverged
    if found is None:
        return
    said: Statement[AdviceKind] = say("finite_loss", **{name: getattr(found, name) for name in found.__struct_fields__})
    yield Advice("TC321", said, Concern(100.0, "step", None, None, run.step_ns, run.length))
