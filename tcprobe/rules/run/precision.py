"""TC303, TC304, TC305, TC317: precisions that Tensor Cores do not multiply, GPUs without any, and 16 bits that pay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.formatting import shorten
from tcprobe.rules.model.links import is_image
from tcprobe.rules.model.sizes import grouped
from tcprobe.rules.run.base import Run, RunSays, Tf32Off
from tcprobe.rules.run.savings import SMALLEST_PCT, of_run, predicted
from tcprobe.rules.words import NAME_WIDTH, Act, Ways, kept, listed, way
from tcprobe.schema.advice import Advice, AdviceKind, Concern, Saving
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import BlockerKind, ChangeKind
from tcprobe.schema.statement import Statement, say
from tcprobe.schema.whatif import WhatIf

LOWER: Final[dict[str | None, AdviceKind]] = {
    "float64": "use_float32",
    "bfloat16": "use_float16",
    "float32": "mixed_precision",  # before compute capability 8.0, which has no bfloat16
}
KERAS: Final = ("tf.keras.mixed_precision", "tcprobe profile --precision")
HALF: Final[Mapping[str | None, Act]] = {
    None: Act("Mixed precision in float16"),
    "tensorflow": Act("mixed_float16", KERAS),
    "pytorch": Act("Mixed precision in float16", ("torch.autocast",)),
}
MIXED: Final[Mapping[str | None, Act]] = {
    None: Act("Mixed precision, 16 bits"),
    "tensorflow": Act("mixed_bfloat16 or mixed_float16", KERAS),
    "pytorch": Act("Mixed precision, 16 bits", ("torch.autocast",)),
}
UNSET: Final = "unset NVIDIA_TF32_OVERRIDE"
TF32: Final[Ways] = {
    None: (UNSET,),
    "tensorflow": ("enable_tensor_float_32_execution(True)", UNSET),
    "pytorch": ("torch.set_float32_matmul_precision('high')", UNSET),
    "jax": ("jax_default_matmul_precision='tensorfloat32'", "no precision of 'highest'", UNSET),
}
SWITCH: Final[dict[Tf32Off, tuple[str, str]]] = {
    "environment": (UNSET, "the environment of the run holds NVIDIA_TF32_OVERRIDE=0"),
    "asked": ("tcprobe profile --precision tf32", "the run was profiled with --precision float32"),
    "script": ("enable_tensor_float_32_execution(True)", "the script turns TF32 off"),
}
"""Where the profile tells why TF32 was off: how to allow it, and what tells."""
KINDS: Final[tuple[tuple[BlockerKind, AdviceKind], ...]] = (("tf32", "allow_tf32"), ("tf32_unknown", "check_tf32"))
SIXTEEN: Final[tuple[ChangeKind, ...]] = ("mixed_bfloat16", "mixed_float16")
PRECISIONS: Final[tuple[BlockerKind, ...]] = ("dtype", "tf32", "tf32_unknown", "gpu", "not_nvidia")
"""What keeps ops off the Tensor Cores so that TC303 to TC305 speak of precision and GPU, and there first."""
FASTER: Final = "float32 products may run on Tensor Cores as TF32 already; 16 bits run there twice as fast"
TWICE: Final = "16 bits run there twice as fast as TF32"
ALONE: Final = "alone they are not predicted to pay: a library may leave the Tensor Cores for so few filters"


def _allow_tf32(_: Advice, framework: str | None, tf32_off: Tf32Off | None) -> Act:
    if tf32_off is None:
        return Act("TF32", (*way(TF32, framework), "then 16 bits"))
    allow, why = SWITCH[tf32_off]
    return Act("TF32", (allow, "then 16 bits"), (why,))


def _check_tf32(_: Advice, framework: str | None, kernel: str | None = None, **__: Any) -> Act:
    return Act("TF32", (*way(TF32, framework), "then 16 bits"), _costliest(kernel))


def _mixed_precision(_: Advice, framework: str | None, bfloat16: bool = False, kernel: str | None = None) -> Act:
    return way(MIXED if bfloat16 else HALF, framework)._replace(why=_costliest(kernel))


def _costliest(kernel: str | None) -> tuple[str, ...]:
    return (f"costliest: {shorten(kernel, NAME_WIDTH)}",) if kernel else ()


def _halve_precision(
    _: Advice, framework: str | None, sliced: Sequence[str], sized: bool, resized: Sequence[str] = (), **f: Any
) -> Act:
    if f["predicted"]:
        many = f"{len(resized)} changes of sizes" if len(resized) > 1 else "".join(resized)
        why = (f"with {many}", *([f"these are {listed(resized)}"] if len(resized) > 1 else []), ALONE)
        return way(HALF, framework)._replace(why=why if resized else (TWICE,))
    act = way(MIXED, framework)
    if not sliced:
        return act._replace(why=(FASTER,))
    ways = (*act.ways, *(("sizes as under What if",) if sized else ()))
    return Act(act.title, ways, (f"with 8 filters in {listed(sliced)}, keep the first", FASTER, ALONE))


SAYS: Final[RunSays] = {
    "use_float32": lambda _, **__: Act("Compute in float32, not in float64"),
    "use_float16": lambda _, **__: Act("float16 in place of bfloat16"),
    "mixed_precision": _mixed_precision,
    "allow_tf32": _allow_tf32,
    "check_tf32": _check_tf32,
    "use_gpu": lambda _: Act("A GPU with Tensor Cores", ("Volta or later", "no GTX 16xx")),
    "halve_precision": _halve_precision,
}


def tc303(run: Run) -> Iterator[Advice]:
    """Yield one item for each precision to change."""
    kinds = ((LOWER.get(op.blocker.dtype), op) for op in run.blocked("dtype"))
    for kind, ops in grouped((kind, op) for kind, op in kinds if kind).items():
        shrinks = run.on_tensor_cores() if kind == "mixed_precision" else 1.0
        item = run.item("TC303", kind, ops, shrinks, framework=run.facts.framework)
        item = run.as_what_if(item, "mixed_float16") if kind == "mixed_precision" else item
        yield replace(item, saving=None if kind == "use_float32" else of_run(run, "mixed_float16", ops))
    if run.lowered == "mixed_float16" and (concern := run.unnamed(run.lowered)) is not None:
        bfloat16 = run.unnamed("mixed_bfloat16") is not None
        lower: Statement[AdviceKind] = say(
            "mixed_precision", framework=run.facts.framework, bfloat16=bfloat16, kernel=run.facts.unnamed_kernel
        )
        yield Advice("TC303", lower, concern)


def tc304(run: Run) -> Iterator[Advice]:
    """Yield one item where TF32 was off, and one where that is not recorded."""
    said = {"framework": run.facts.framework, "tf32_off": run.facts.tf32_off}
    for blocker, kind in KINDS:
        if ops := run.blocked(blocker):
            item = run.item("TC304", kind, ops, run.on_tensor_cores(), **said)
            item = run.as_what_if(item, "mixed_float16")
            yield replace(item, saving=of_run(run, "allow_tf32", ops) if kind == "allow_tf32" else None)
    if run.lowered == "allow_tf32" and (concern := run.unnamed("mixed_float16")) is not None:
        of = run.facts.unnamed_kernel
        yield Advice(
            "TC304", say("allow_tf32", **said) if run.facts.tf32_off else say("check_tf32", kernel=of, **said), concern
        )


def tc305(run: Run) -> Iterator[Advice]:
    """Yield one item where ops ran that another GPU would run on Tensor Cores."""
    if ops := run.blocked("gpu"):
        yield run.item("TC305", "use_gpu", ops)


def tc317(run: Run) -> Iterator[Advice]:
    """Yield one item where a what-if says that 16 bits pay, and no op is kept off the Tensor Cores by its precision."""
    if any(op.blocker.kind in PRECISIONS for op in run.off):
        return
    yield from _of_prediction(run)
    found = [change for change in run.what_ifs if change.change in SIXTEEN]
    best = max(found or _with_slices(run), key=_worth, default=None)
    saving = None if best is None else predicted(run, (best,))
    if best is None or saving is None or saving.ns.mid <= 0:
        return
    spent = best.spent_ns * run.steps if run.steps else None
    share = 100.0 * spent / run.kernel_ns if spent and run.kernel_ns > 0 else 0.0
    concern = run.concern(min(share, 100.0), "kernel_time", spent)
    sized = {str(row["layer"]) for row in run.sizes if row["layer"] is not None}
    drawn = frozenset({op for op, _ in best.op_names} | sized)  # all products are concerned, those of these layers too
    yield Advice(
        "TC317",
        say(
            "halve_precision",
            framework=run.facts.framework,
            change=_precision(best),
            sliced=_sliced(best),
            sized=any(kind == "change_size" for kind, _ in best.holds),
            predicted=False,
        ),
        concern,
        saving=saving,
        draws_on=drawn,
    )


def _of_prediction(run: Run) -> Iterator[Advice]:
    """Yield an item where a run without a GPU is predicted to take shorter steps in 16 bits on one.

    The ends of the saving are those of the two steps, as if nothing were common to their errors.
    """
    if (prediction := run.profile.predicted) is None or prediction.steps[0].change is not None:
        return
    now, best = prediction.steps[0].ns, min(prediction.steps, key=lambda step: step.ns.mid)
    saved = Range(max(0.0, now.low - best.ns.high), now.mid - best.ns.mid, now.high - best.ns.low)
    pct = 100.0 * saved.mid / now.mid
    if best.change is None or pct < SMALLEST_PCT:
        return
    resized = [f"{d} {old} -> {new} of {layer.rpartition('/')[2]}{_keep(d, old)}" for layer, d, old, new in best.sizes]
    says: Statement[AdviceKind] = say(
        "halve_precision", framework=run.facts.framework, change=best.change, sliced=(), sized=False,
        resized=tuple(resized), predicted=True,
    )  # fmt: skip
    saving = Saving(saved, pct, "products", False, now.low < best.ns.high)
    drawn = frozenset(str(row["layer"]) for row in run.sizes if row["layer"] is not None)  # all products are concerned
    yield Advice("TC317", says, Concern(100.0, "products"), saving=saving, draws_on=drawn)


def _keep(dimension: str, size: int) -> str:
    return f", keep {kept(size)}" if is_image(dimension, size) else ""


def _with_slices(run: Run) -> list[WhatIf]:
    """Return all changes together where they hold 16 bits and slices: these keep 16 bits from costing more."""
    return [one for one in run.what_ifs if one.change == "together" and _precision(one) in SIXTEEN and _sliced(one)]


def _precision(change: WhatIf) -> ChangeKind:
    return next((kind for kind, layer in change.holds if layer is None), change.change)


def _sliced(change: WhatIf) -> tuple[str, ...]:
    """Return the layers whose few filters are computed as 8."""
    return tuple(str(layer) for kind, layer in change.holds if kind == "slice_filters")


def _worth(change: WhatIf) -> tuple[float, str]:
    return change.gain_ns.mid, change.change
