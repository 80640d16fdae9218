"""TC104: notes image channels and tiny output layers, which are best left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.words import finding_of
from tcprobe.rules.sizes.words import subject as named
from tcprobe.schema.finding import Finding
from tcprobe.schema.finding_kinds import WhyKind
from tcprobe.schema.statement import Statement, say

DOC = RuleDoc(
    code="TC104",
    name="image-channels-or-tiny-head",
    summary="A convolution over 1 to 4 channels, or a head of up to 16 units: not aligned, and best left so.",
    explanation=(
        "The channels of an image and the classes of a small head break the rule of 8, and padding them gains "
        "nothing. Measured (DeepBench, V100 and T4, float16): a first convolution over 1 channel padded to 8 ran 5 "
        "to 8 times slower than float32 without padding, over 3 channels no faster. XLA pads 3 channels to 4 by "
        "itself where that pays. A head of 10 classes, or a table of 13 columns, is read once and is bound by "
        "memory and by its launch. The rule is there so that no size goes unmentioned, and so that nobody pads "
        "these."
    ),
    severity="Always a note.",
    level="note",
    bad="layers.Conv2D(64, 7, input_shape=(224, 224, 3))\nlayers.Dense(10)",
    good="# the same: leave them alone\nlayers.Conv2D(64, 7, input_shape=(224, 224, 3))\nlayers.Dense(10)",
    sources=(
        "DeepBench, V100 and T4, cuDNN 7.6.2: forward and weight gradient of first convolutions",
        "openxla/xla, cudnn_pad_for_convolutions.cc: 3 channels to 4",
    ),
)
SAYS: Final[Says] = {
    "best_left": ("{subject} is not a multiple of {multiple}, leave it", "{why}"),
    "tiny_product": "a product with so small a dimension is bound by memory and launches, not by arithmetic",
    "few_channels_slower": (
        "padding so few input channels to 8 ran slower where it was measured (1 and 3 channels, V100 and T4)"
    ),
}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a note for each such size."""
    step = subject.step
    for bad in settled_sizes(step):
        if bad.code == DOC.code:
            why = _why(step, bad)
            about = named(step, bad.dimension)
            yield finding_of(step, bad, say("best_left", subject=about, multiple=bad.multiple, why=why), why, "note")


def _why(step: Step, bad: Bad) -> Statement[WhyKind]:
    return say("few_channels_slower" if convolves(step, bad.dimension) else "tiny_product")
