"""TC311: finds transposes and casts that take a noticeable part of the kernel time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import Advice
from tcprobe.schema.kinds import BlockerKind
from tcprobe.schema.statement import say

LEAST_PCT: Final = 5.0  # of the kernel time: a few transposes are in every model
MUCH: Final = 0.25  # of this time: from here on both remedies are named

DOC: Final = RuleDoc(
    code="TC311",
    name="transposes-and-casts",
    summary="Kernels that change layout or type take a noticeable part of the kernel time.",
    explanation=(
        "Such kernels compute nothing: they copy operands into another order of dimensions (NCHW to NHWC, which "
        "convolutions on Tensor Cores want) or another type. A model in one layout and one precision needs hardly "
        "any. Transposes come from images with channels first, from layouts that a library converts around each "
        "convolution, and from attention heads that are split off by transposes. Casts come from layers that compute "
        "in another precision than their neighbours; mixed precision itself casts each weight once a step.\n\n"
        "Where the run holds no convolution there is no layout of images to choose: what is left is not to transpose "
        "between layers.\n\n"
        "Convolutions off the Tensor Cores are run with channels first: TensorFlow converts images and filters for "
        "them though the model has channels last already. There the precision comes first, which brings them onto the "
        "Tensor Cores; on a GPU without any, channels first is the layout to keep.\n\n"
        f"Less than {LEAST_PCT:g} % of the kernel time is not listed. XLA fuses many of them with their neighbours: "
        "those have no kernel of their own and do not count."
    ),
    severity="it counts the time of these kernels, at most.",
    bad="images = keras.layers.Conv2D(64, 3, data_format='channels_first')(images)\n",
    good="images = keras.layers.Conv2D(64, 3, data_format='channels_last')(images)\n",
    sources=(
        "NVIDIA Deep Learning Performance, Convolutional Layers User's Guide, section Tensor Layouts: NHWC avoids "
        "transposes around Tensor Core kernels",
        "PyTorch tutorials, Channels Last Memory Format",
        "TensorFlow, core/kernels, ComputeInNhwcEnabled: fp16 on Volta and later, bf16 and TF32 on Ampere and later "
        "compute in NHWC, all other configurations in NCHW",
    ),
)
LAYOUT: Final[dict[str | None, str]] = {
    None: "Keep images with channels last (NHWC) through the whole model",
    "tensorflow": "Keep images with channels last (NHWC, data_format='channels_last') through the whole model",
    "pytorch": "Keep images with channels last through the whole model "
    "(model.to(memory_format=torch.channels_last), and the batches likewise)",
}
CASTS: Final[dict[str | None, str]] = {
    None: "Compute neighbouring layers in one precision, so that nothing casts between them",
    "tensorflow": "Compute neighbouring layers in one precision (a float32 layer among float16 ones casts twice), and "
    "feed batches in the type that the first layer takes",
}


LOWER: Final = (
    "Lower the precision first ({code}), then measure again: convolutions off the Tensor Cores are run with channels "
    "first, and images and filters converted for them"
)
FIRST: Final = (
    "Keep images with channels first (NCHW), the layout of kernels without Tensor Cores, where the model allows"
)
ORDER: Final = (
    "Keep one order of dimensions through the whole model: images with channels last (NHWC), nothing transposed "
    "between layers"
)
"""Where the model transposes most itself, as attention does around its heads."""
ONE_ORDER: Final[dict[str | None, str]] = {
    None: "Keep one order of dimensions through the whole model, so that nothing is transposed between layers",
    "pytorch": "Keep one order of dimensions through the whole model: contiguous() of a permuted tensor copies it",
}
"""Where the model holds no convolution, whose layout there would be to choose."""
TRANSPOSES: Final = ("transpose", "permute", "contiguous")
RULE_OF: Final[Mapping[BlockerKind, str]] = {"dtype": "TC303", "tf32": "TC304", "tf32_unknown": "TC304"}
NONE_HERE: Final[tuple[BlockerKind, ...]] = ("gpu", "not_nvidia")


def _layout(fields: Mapping[str, Any]) -> str:
    """Return what to do about a layout: by what keeps the op, around which it changes, off the Tensor Cores."""
    kept_off: BlockerKind | None = fields["kept_off"]
    op_type = (fields["op_type"] or "").lower()
    if not fields["convolutions"]:
        return words.said(ONE_ORDER, fields["framework"])
    if any(word in op_type for word in TRANSPOSES):
        return ORDER
    if "conv" in op_type and kept_off in NONE_HERE:
        return FIRST
    code = RULE_OF.get(kept_off) if kept_off and "conv" in op_type else None
    return LOWER.format(code=code) if code else words.said(LAYOUT, fields["framework"])


def _says(fields: Mapping[str, Any]) -> Template:
    ways = [_layout(fields)] if fields["transposes"] else []
    ways += [words.said(CASTS, fields["framework"])] if fields["casts"] else []
    order = ". ".join(ways)
    what = "change layout and type" if len(ways) > 1 else "change type" if fields["casts"] else "change layout"
    kind = " ({op_type})" if fields["op_type"] not in (None, fields["op"]) else ""
    place = "{layer}" if fields["has_layer"] else f"{{op!n}}{kind}" if fields["op"] else ""
    each = " a step" if fields["of_a_step"] else ""
    most = f", {{op_ns!d}}{each} of it in {place}{{line}}" if fields["op_ns"] and place else ""
    if place and fields["whole"]:
        most = f", all in {place}{{line}}"
    return order, f"kernels only {what}{most}"


SAYS: Final[Says] = {"keep_layout": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where such kernels take a noticeable part of the kernel time; none of steps with autotuning."""
    found = subject.facts.layout
    if found is None or subject.kernel_ns <= 0 or subject.tuning is not None:
        return
    share = 100.0 * found.ns / subject.kernel_ns
    if share < LEAST_PCT:
        return
    yield Advice(
        DOC.code,
        say(
            "keep_layout",
            framework=subject.framework,
            transposes=found.ns - found.casts_ns >= MUCH * found.ns,
            casts=found.casts_ns >= MUCH * found.ns,
            has_layer=found.where.layer is not None,
            op=found.where.op,
            op_type=found.op_type,
            convolutions=found.convolutions,
            kept_off=next((op.blocker.kind for op in subject.off if op.row["op"] == found.where.op), None),
            whole=found.op_ns >= found.ns,
            op_ns=found.op_ns / subject.steps if subject.steps else None,
            of_a_step=subject.waiting is None or subject.waiting.length != "capture",
        ),
        subject.concern(min(share, 100.0), "kernel_time", found.ns),
        found.where,
        draws_on=frozenset(name for name in (found.where.op, found.where.layer) if name),
    )
