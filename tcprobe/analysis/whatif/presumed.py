"""Predict the step of a run without a GPU on the one that it is judged for: as it is, and in mixed precision."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.rules.model.bad import shared_out
from tcprobe.rules.model.settled import settled_sizes, with_changes
from tcprobe.rules.model.step import Step
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import PredictedStep, Prediction


def predicted_steps(profile: Profile, judged: JudgedStep | None) -> Prediction | None:
    """Return what a step of the products takes on the GPU of the prediction; None where too little of it is known.

    Args:
        profile: of a run that is known to have used no GPU; of any other nothing is returned.
        judged: the products of its step, in the batch that it would take on a GPU where it logs that.
    """
    if judged is None or profile.metadata.gpu_used is not False or judged.step.gpu.target is None:
        return None
    step = judged.step
    if not step.is_mostly_known or not (steps := tuple(_steps(profile, judged))):
        return None
    at_least = any(product.at_least for product in judged.run.timed)
    evidence = step.evidence_of(range(len(step.model.products)))
    return Prediction(step.target.gpu.name, judged.batch, steps, at_least, evidence)


def _steps(profile: Profile, judged: JudgedStep) -> Iterator[PredictedStep]:
    step = judged.step
    dtypes = {step.dtype_of(index) for index in range(len(step.model.products))}
    if step.ns is not None:
        yield PredictedStep(None, step.ns, step.gpu.runs_tf32 and "float32" in dtypes)
    gpu = step.target.gpu
    lowered = (profile.metadata.precision or "").startswith("mixed") or "float32" not in dtypes
    mixed: ChangeKind = "mixed_float16"
    if not lowered and gpu.tensor_cores and gpu.peak_flop_per_s("float16") is not None:
        then = step.computing("float16", step.gpu.tf32)
        if then.ns is not None:
            yield PredictedStep(mixed, then.ns)
            yield from _resized(then, then.ns, mixed)


def _resized(step: Step, ns: Range, change: ChangeKind) -> Iterator[PredictedStep]:
    """Yield the step with the sizes changed that cost it most; none where none likely costs `SMALLEST_PCT`."""
    linked = [bad.linked for bad in settled_sizes(step) if bad.linked is not None and bad.linked.reason is None]
    saved = shared_out(step, linked)
    paying = [one for one in linked if one in saved and 100.0 * saved[one].ns.mid >= SMALLEST_PCT * ns.mid]
    changes = step.links.settled(tuple(dict.fromkeys(change for one in paying for change in one.changes)))
    then = with_changes(step, changes).ns
    if paying and then is not None and then.mid < ns.mid:
        first = [one.changes[0] for one in paying]
        yield PredictedStep(change, then, sizes=tuple((c.layer, c.dimension, c.old, c.new) for c in first))
