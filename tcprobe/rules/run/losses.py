"""TC321: a loss that ends as NaN or an infinity: since which step, after which update, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import Run
from tcprobe.schema.advice import Advice, AdviceKind, Concern
from tcprobe.schema.statement import Both, Statement, say

LARGEST_HALF: Final = 65_504
"""The largest finite float16. Source: IEEE 754-2008, binary16."""
_IN_FLOAT32: Final = "train as many steps in float32 with the same seed"
_HALF: Final[dict[str | None, str]] = {
    "dynamic": f"Find what overflows float16 ({LARGEST_HALF:,}) in the forward pass: a dynamic loss scale leaves out "
    "updates that are not finite",
    "none": f"Find out whether float16 overflows ({LARGEST_HALF:,}), in the forward pass or in a scale that the script "
    f"applies itself: {_IN_FLOAT32}",
    None: f"Find out whether float16 overflows ({LARGEST_HALF:,}): {_IN_FLOAT32}",
}
_OTHER: Final = "Find out why before these times count: a learning rate, the data, a division or logarithm of 0"


def _finite_loss(name: str, value: str, step: int | None, before: int | None, **f: Any) -> Both:
    if f["half"] and f["scale"] == "fixed":
        most = f"gradients times the scale must stay below {LARGEST_HALF:,} in float16"
        order = f"Take a smaller loss scale than {f['scale_value']:,.7g}, or a dynamic one: {most}"
    else:
        order = _HALF[f["scale"]] if f["half"] else _OTHER
    since = f"{name} is {value}" + ("" if step is None else f" since step {step:,}, the first that logs it")
    if step is None or before is None:
        return Both(order, f"{since}, with no finite value before")
    value = f"logged {f['before_value']:.4g}"
    if step - before == 1:
        return Both(order, f"{since}; the update before is that of step {before:,}, which {value}")
    return Both(
        order, f"{since}; before lie the updates of steps {before:,} to {step - 1:,}, and step {before:,} {value}"
    )


SAYS: Final[Says] = {"finite_loss": _finite_loss}


def tc321(run: Run) -> Iterator[Advice]:
    """Yield one item where a loss that the workload logged is no finite number from some step on."""
    found = run.facts.diverged
    if found is None:
        return
    said: Statement[AdviceKind] = say("finite_loss", **{name: getattr(found, name) for name in found.__struct_fields__})
    yield Advice("TC321", said, Concern(100.0, "step", None, None, run.step_ns, run.length))
