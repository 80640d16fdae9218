"""TC304: finds float32 products that ran without TF32 on a GPU that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import RunSubject
from tcprobe.rules.run.facts import Tf32Off
from tcprobe.rules.run.savings import of_run
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.kinds import BlockerKind

DOC: Final = RuleDoc(
    code="TC304",
    name="tf32-off",
    summary="float32 products ran without TF32, on a GPU whose Tensor Cores take it.",
    explanation=(
        "From Ampere on, Tensor Cores multiply float32 operands rounded to 10 bits of mantissa (TF32), eight times as "
        "fast as the CUDA cores multiply float32. TensorFlow allows it by default, PyTorch allows it in convolutions "
        "and not in matrix products, and NVIDIA_TF32_OVERRIDE=0 forbids it everywhere: where that was set, the "
        "item says so.\n\n"
        "The bound is that of float16, to which mixed precision leads from there."
    ),
    severity=(
        "it counts the predicted saving; where none is predicted, at most the kernel time concerned times 1 - float32 "
        "rate / float16 rate of the GPU."
    ),
    bad="tf.config.experimental.enable_tensor_float_32_execution(False)\n",
    good="tf.config.experimental.enable_tensor_float_32_execution(True)\n",
    sources=(
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0",
        "PyTorch notes, Numerical accuracy and CUDA semantics: TF32 in matrix products off by default since 1.12",
        "tcprobe/gpus.csv: peak rates of each GPU, with their sources",
    ),
)
SWITCH: Final[dict[Tf32Off, tuple[str, str]]] = {
    "environment": (
        "TF32 (unset NVIDIA_TF32_OVERRIDE, which stands before what the script asks for)",
        "the environment of the run holds NVIDIA_TF32_OVERRIDE=0",
    ),
    "asked": ("TF32 (tcprobe profile --precision tf32)", "the run was profiled with --precision float32"),
}
"""Where the profile tells why TF32 was off: how to allow it, and what tells."""


def _allow(fields: Mapping[str, Any]) -> Template:
    off: Tf32Off | None = fields["tf32_off"]
    way = SWITCH[off][0] if off else words.said(words.TF32, fields["framework"])
    return f"Allow {way} first; then try {words.said(words.MIXED, fields['framework'])}", SWITCH[off][1] if off else ""


SAYS: Final[Says] = {
    "allow_tf32": _allow,
    "check_tf32": lambda fields: f"Make sure that the run allows {words.said(words.TF32, fields['framework'])}",
}
KINDS: Final[tuple[tuple[BlockerKind, AdviceKind], ...]] = (("tf32", "allow_tf32"), ("tf32_unknown", "check_tf32"))


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where TF32 was off, and one where that is not recorded."""
    for blocker, kind in KINDS:
        if ops := subject.blocked(blocker):
            said = {"framework": subject.framework, "tf32_off": subject.facts.tf32_off}
            item = subject.item(DOC.code, kind, ops, subject.on_tensor_cores(), **said)
            yield replace(item, saving=of_run(subject, "allow_tf32", ops) if kind == "allow_tf32" else None)
