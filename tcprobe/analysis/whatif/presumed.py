"""Predict the step of a run without a GPU on the one that it is judged for: as it is, and in mixed precision."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.analysis.sizes.run import JudgedStep
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
        yield _of(None, step.ns, step.gpu.runs_tf32 and "float32" in dtypes)
    gpu = step.target.gpu
    lowered = (profile.metadata.precision or "").startswith("mixed") or "float32" not in dtypes
    mixed: ChangeKind = "mixed_float16"
    if not lowered and gpu.tensor_cores and gpu.peak_flop_per_s("float16") is not None:
        then = step.computing("float16", step.gpu.tf32).ns
        if then is not None:
            yield _of(mixed, then, False)


def _of(change: ChangeKind | None, ns: Range, tf32: bool) -> PredictedStep:
    return PredictedStep(change, ns, tf32)
