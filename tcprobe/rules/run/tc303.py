"""TC303: finds ops whose precision the GPU's Tensor Cores do not multiply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run import words
from tcprobe.rules.run.base import OffOp, RunSubject
from tcprobe.rules.run.savings import of_run
from tcprobe.schema.advice import Advice, AdviceKind

DOC: Final = RuleDoc(
    code="TC303",
    name="precision-off-tensor-cores",
    summary="Ops compute in a precision that this GPU's Tensor Cores do not multiply.",
    explanation=(
        "Volta and Turing multiply float16 on Tensor Cores, and neither float32 nor bfloat16; Ampere and later take "
        "bfloat16 and TF32 too; float64 runs on Tensor Cores of data-centre GPUs alone, far slower than less. Mixed "
        "precision keeps the weights in float32 and multiplies in 16 bits.\n\n"
        "What it saves of the step is bounded: by the time of those kernels in a step, less what it would take at the "
        "ratio of the two peak rates. Where the GPU waits most of the time this is little, and below 1 % of "
        "the step nothing is said."
    ),
    severity=(
        "it counts the predicted saving; where none is predicted, at most the kernel time concerned times 1 - float32 "
        "rate / float16 rate of the GPU."
    ),
    bad="model = keras.Sequential([keras.layers.Dense(1024), keras.layers.Dense(1024)])\n",
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'model = keras.Sequential([keras.layers.Dense(1024), keras.layers.Dense(1024, dtype="float32")])\n'
    ),
    sources=(
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0",
        "tcprobe/gpus.csv: peak rates of each GPU, with their sources",
    ),
)
SAYS: Final[Says] = {
    "use_float32": "Compute in float32 or less",
    "use_float16": "Use mixed_float16: this GPU's Tensor Cores take float16",
    "mixed_precision": lambda fields: f"Compute in {words.said(words.HALF, fields['framework'])}",
}
LOWER: Final[dict[str | None, AdviceKind]] = {
    "float64": "use_float32",
    "bfloat16": "use_float16",
    "float32": "mixed_precision",  # before compute capability 8.0, which has no bfloat16
}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item for each precision to change."""
    groups: dict[AdviceKind, list[OffOp]] = {}
    for op in subject.blocked("dtype"):
        if kind := LOWER.get(op.blocker.dtype):
            groups.setdefault(kind, []).append(op)
    for kind, ops in groups.items():
        shrinks = subject.on_tensor_cores() if kind == "mixed_precision" else 1.0
        item = subject.item(DOC.code, kind, ops, shrinks, framework=subject.framework)
        yield replace(item, saving=None if kind == "use_float32" else of_run(subject, "mixed_float16", ops))
