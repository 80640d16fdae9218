"""TC106: finds a badly sized attention head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.sizes.unaligned import finding_on
from tcprobe.schema.finding import Finding

DOC = RuleDoc(
    code="TC106",
    name="unaligned-head",
    summary="The size of one attention head (key_dim, value_dim) is not a multiple of 8.",
    explanation=(
        "Queries and keys are multiplied head by head, over key_dim; the scores and the values likewise, into "
        "value_dim. There the size of one head is innermost in memory, not heads x key_dim, so 12 heads of 25 are "
        "slow though the projections to 300 were mended by padding. Choose the number of heads so that a head is a "
        "multiple of 8, best 64 or 128. Fused attention kernels pad a head by themselves; Keras' TensorFlow "
        "backend multiplies as said. The length of the sequence is the data's and no finding."
    ),
    severity=(
        "From the predicted saving: error from 5 % of the step, warning where it may be 1 % or more, else note. Of "
        "unknown cost: warning from a size of 128 up that a layer sets, else note."
    ),
    bad="layers.MultiHeadAttention(num_heads=10, key_dim=25)",
    good="layers.MultiHeadAttention(num_heads=8, key_dim=32)",
    sources=(
        "EleutherAI, The Case for Co-Designing Model Architectures with Hardware, 2024: size of a head",
        "cuBLAS 12 documentation, Tensor Core Usage",
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100, H100)",
    ),
    fixable=True,
)
SAYS: Final[Says] = {}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield each size of an attention head that breaks the rule of 8."""
    for bad in settled_sizes(subject.step):
        if bad.code == DOC.code:
            yield finding_on(subject.step, bad)
