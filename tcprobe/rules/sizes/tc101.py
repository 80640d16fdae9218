"""TC101: finds a contiguous dimension that is not a multiple of 16 bytes' worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.sizes.unaligned import finding_on
from tcprobe.schema.finding import Finding

DOC = RuleDoc(
    code="TC101",
    name="unaligned-dimension",
    summary="A size that is innermost in memory (units, filters, inputs, channels) is not a multiple of 8.",
    explanation=(
        "Tensor Cores are fed in units of 16 bytes: 8 elements of float16 or bfloat16, 4 of TF32, 16 of float8 or "
        "int8. A layer whose units, filters, inputs or channels do not fill whole units still runs on Tensor Cores "
        "since cuBLAS 11 and cuDNN 7.6.3, but with slower kernels. Measured on large products on an A100, relative "
        "to an aligned one: in 16 bits 63 % for an even size and 40 % for an odd one, 60 and 34 % in a Dense layer's "
        "input gradient, where both operands are contiguous along the contraction; in TF32 61 % for a size that is "
        "not a multiple of 4; on an H100 43 % and 22 % in 16 bits, from few products. float32 without TF32 does not "
        "care. With cuBLAS 10 Tensor Cores are not used at all. XLA pads float16 and bfloat16 products and "
        "float16 convolutions by itself; what is left is the cost of the copies. No public measurement of "
        "unaligned convolutions is known: their figures lie between no loss and that of a product.\n\nThe batch, "
        "the size of an image and, outside attention, the length of a sequence are not contiguous in any pass and "
        "do not matter. A size that a layer takes from another one is told once, where it is set; what must change "
        "with it is named. Where the next multiple of 8 lies just past a tile, the tile's size is "
        "suggested at once (2048 for 2049, not 2056 first). A size that costs nothing is a note, with the "
        "reason. A convolution of 1 to 4 "
        "filters is a case of its own: in 16 bits cuDNN may run its weight gradient on CUDA cores, which took 42 % "
        "of a GAN's step on an A100; compute 8 filters there and keep the first. Channels of images and small "
        "heads are TC104, channels of a group TC103, vocabularies TC105, heads of attention TC106."
    ),
    severity=(
        "From the predicted saving: error from 5 % of the step, warning where it may be 1 % or more, else note. Of "
        "unknown cost: warning from a size of 128 up that a layer sets, but for convolutions and recurrent layers; "
        "else note. Of 1 to 4 filters: note, but for one filter of an ordinary convolution in 16 bits."
    ),
    bad="layers.Dense(7 * 7 * 63)\nlayers.Reshape((7, 7, 63))\nlayers.Conv2D(31, 5)",
    good="layers.Dense(7 * 7 * 64)\nlayers.Reshape((7, 7, 64))\nlayers.Conv2D(32, 5)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide, table 1",
        "cuBLAS 12 documentation, Tensor Core Usage",
        "TensorFlow, Mixed precision guide: Ensuring GPU Tensor Cores are used",
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100, H100): the percentages",
        "openxla/xla, cublas_padding_requirements.h and cudnn_pad_for_convolutions.cc: what XLA pads",
        "NVIDIA Deep Learning Examples, a GAN profiled on an A100: the weight gradient on CUDA cores",
    ),
    fixable=True,
)
SAYS: Final[Says] = {}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield each bad size that a layer sets itself and that no other rule reports."""
    for bad in settled_sizes(subject.step):
        if bad.code == DOC.code:
            yield finding_on(subject.step, bad)
