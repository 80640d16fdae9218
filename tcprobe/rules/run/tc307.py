"""TC307: finds convolutions of few filters that a library runs without Tensor Cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import OffOp, RunSubject, SizeRow, names_of, text
from tcprobe.rules.run.savings import may_pay, of_layer, saving_of_rows, share_of, sized
from tcprobe.schema.advice import Advice, Where
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC307",
    name="few-filters",
    summary="A convolution has so few filters that cuDNN leaves the Tensor Cores for it.",
    explanation=(
        "For a convolution of one to four filters, such as the last layer of a generator of grey images, cuDNN often "
        "has no Tensor Core kernel for the weight gradient and takes one that runs on CUDA cores, several times "
        "slower than 8 filters would be. Computing 8 filters and keeping the first ones costs little more "
        "arithmetic.\n\n"
        "The other filters train on nothing. Measure: the gain depends on GPU, cuDNN and sizes."
    ),
    severity="it counts the predicted saving; where none is predicted, the time of those kernels at most.",
    bad="images = keras.layers.Conv2DTranspose(1, 5, padding='same')(features)\n",
    good="images = keras.layers.Conv2DTranspose(8, 5, padding='same')(features)[..., :1]\n",
    sources=("docs/cost-model.md: a weight gradient of one filter, measured in a GAN's step on an A100",),
)
PASSES: Final = {"wgrad": "weight gradient", "dgrad": "input gradient", "forward": "forward pass"}


def _sliced(fields: Mapping[str, Any]) -> Template:
    count, blocker, effect = fields["sizes"][0].size, fields["blocker"], fields["effect"]
    order = f"Give {{layer}} 8 filters, keep {words.kept(count)} (slice) and measure{{line}}"
    channels = words.output_channels(count)
    if blocker is None:
        return order, f"{channels}{f': {words.MAY_LEAVE}' if effect and effect.sixteen_bit else ''}"
    ran = f"{channels}: cuDNN runs its {PASSES.get(fields['pass_'], 'convolution')} on a CUDA-core kernel"
    return order, ran + (", {blocker.kernel}" if blocker.kernel else "")


SAYS: Final[Says] = {"slice_filters": _sliced}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item for each such convolution: by its kernels if these were measured, else by prediction."""
    for row in subject.few_filters():
        off = [op for op in subject.off if op.place == row["layer"] and op.chosen]
        if off and subject.measured and subject.total:
            yield _measured(subject, row, off)
        elif row["kernel_ns"] is None and row["saving_ns"] is not None and may_pay([row]):
            concern = subject.concern(float(row["saving_pct"] or 0), share_of([row]), None)
            where = Where(layer=text(row["layer"]), source=text(row["source"]))
            saving = of_layer(subject, "slice_filters", [row]) or saving_of_rows(subject, [row])
            yield Advice(DOC.code, say("slice_filters"), concern, where, saving, None, *sized([row]), _layer(row))


def _measured(subject: RunSubject, row: SizeRow, off: list[OffOp]) -> Advice:
    """Return the item on a convolution whose kernels ran without Tensor Cores, in its costliest pass."""
    worst = off[0]
    concern = subject.concern_of([op for op in off if op.row["pass"] == worst.row["pass"]])
    where = Where(text(row["layer"]), text(worst.row["op"]), text(worst.row["pass"]), text(row["source"]))
    saving = of_layer(subject, "slice_filters", [row]) or saving_of_rows(subject, [row])
    drawn = _layer(row) | names_of(off)
    return Advice(DOC.code, say("slice_filters"), concern, where, saving, worst.blocker, *sized([row]), drawn)


def _layer(row: SizeRow) -> frozenset[str]:
    return frozenset([str(row["layer"])])
