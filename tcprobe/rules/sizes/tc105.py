"""TC105: finds a vocabulary size that is not a multiple of 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.sizes.unaligned import finding_on
from tcprobe.schema.finding import Finding
from tcprobe.schema.statement import say

DOC = RuleDoc(
    code="TC105",
    name="unaligned-vocabulary",
    summary="The projection to a vocabulary, or to 1,000 classes or more, is not a multiple of 8.",
    explanation=(
        "The projection to the vocabulary is often the largest product of a language model, and vocabularies are "
        "odd numbers: 50257, 30522. Round them up and leave the last entries unused: no token has their number, "
        "and the loss teaches the model never to choose them. Up to 1 % more entries, a multiple of 64 is "
        "suggested (50257 to 50304), as trained models use; beyond 8 no further gain was measured on large "
        "products. Padding only the stride in memory mends it on an A100 but not on an H100, where the size itself "
        "counts. An embedding alone is a look-up and has no rule; one that is tied to the projection must grow "
        "with it."
    ),
    severity=(
        "From the predicted saving: error from 5 % of the step, warning where it may be 1 % or more, else note. Of "
        "unknown cost: warning from a size of 128 up that a layer sets, else note."
    ),
    bad="layers.Dense(50257)",
    good="layers.Dense(50304)  # 50257 tokens, 47 unused",
    sources=(
        "EleutherAI, The Case for Co-Designing Model Architectures with Hardware, 2024: vocabulary, multiple of 64",
        "autoheuristic padmm measurements, 2024: 50257 with a padded stride at full rate on an A100; 50265, 30522 and "
        "128100 at 22-45 % of an aligned one on an H100",
    ),
)
SAYS: Final[Says] = {"labels_unused": "; no label uses the entries added"}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield each vocabulary size that breaks the rule."""
    for bad in settled_sizes(subject.step):
        if bad.code == DOC.code:
            yield finding_on(subject.step, bad, say("labels_unused"))
