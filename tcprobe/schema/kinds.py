"""The kinds of things tcprobe reports on a run, as closed lists with their meanings and typed fields.

What keeps an op off the Tensor Cores and what to do about a size: each is a kind plus the fields that its sentence
needs. Only `tcprobe.report` turns a kind into a sentence, and no code parses a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from tcprobe.schema.records import text_of

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

WindowBasis = Literal[
    "whole capture", "given", "detected", "all steps", "profiled by the probe", "aggregated by DLProf"
]
"""How the counted iterations were chosen."""

ReasonKind = Literal[
    "no_gpu",  # the run used no GPU
    "no_record",  # no kernel was recorded, and nobody knows whether a GPU was used
    "no_kernels",  # the source has no kernel times
    "not_nvidia",  # the GPU is another vendor's
    "no_tensor_cores",  # the GPU has no Tensor Cores
    "no_step",  # which part of the record is one step is not known
    "tuned",  # the step holds autotuning
    "no_flops",  # no FLOPs of a step are known
    "flops_bound",  # what is known of the FLOPs is no bound of those that are asked for
    "gpu_unknown",  # which GPU ran is not known, or several models ran
    "no_peak",  # the GPU's peak for a dtype is not known
]
REASONS: Final[tuple[ReasonKind, ...]] = get_args(ReasonKind)
"""Why a profile has no figures of the Tensor Cores at all, none of a step, or none of its FLOPs over its length."""

FlopsGap = Literal[
    "not_recorded",  # the graph has no part of it: it began when the probe recorded no more
    "no_product",  # what was recorded of it holds no product
    "several_sizes",  # its functions were traced for several sizes, and which ran how often was not seen
    "unknown_product",  # of no product are size, number and execution all known
]
FLOPS_GAPS: Final[tuple[FlopsGap, ...]] = get_args(FlopsGap)
"""Why the FLOPs of a step of a phase are not known."""

RangeNumbers = Literal["rising", "recurring", "none"]
"""Whether a number in the names of ranges rises from each to the next, comes again, or none differs."""
RANGE_NUMBERS: Final[tuple[RangeNumbers, ...]] = get_args(RangeNumbers)
NoStep = Literal["number_recurs", "part", "few", "few_kernels", "uneven", "irregular", "other_chosen"]
NO_STEPS: Final[Mapping[NoStep, str]] = {
    "number_recurs": "its number comes again, as that of a layer or a rank does",
    "part": "its name is that of a part of a step or of a run",
    "few": "there are too few",
    "few_kernels": "most kernels lie outside",
    "uneven": "they hold very different numbers of kernels",
    "irregular": "now and then far more kernels lie between two, as after the last layer of several",
    "other_chosen": "others count as steps",
}
"""Why ranges do not count as steps where nobody says that they are."""

NoWhatIf = Literal[
    "no_gpu",  # no GPU ran
    "not_nvidia",  # the GPU is another vendor's
    "no_tensor_cores",  # the GPU has none
    "gpu_unknown",  # which GPU ran is not known, or several models ran
    "tuned",  # the window holds autotuning
    "incomplete",  # the profiler lost events
    "no_products",  # no kernel multiplies off the Tensor Cores, and no shape is known
    "no_gain",  # no change gains 1 % of a step
]
"""Why no changed step is predicted."""

UsesTc = Literal["yes", "no", "unknown"]
"""Whether a kernel runs on Tensor Cores."""

KernelKind = Literal[
    "matmul",  # multiplies matrices
    "matrix_vector",  # multiplies a matrix and a vector, or two vectors
    "convolution",  # convolves
    "attention",  # attention, or what stands for it: linear attention, state spaces
    "recurrent",  # a step of a recurrent layer
    "helper",  # prepares, routes, transforms or reduces for a product
    "normalisation",  # normalises
    "softmax",  # softmax, or a loss on it
    "elementwise",  # each element from those in its place
    "reduction",  # sums, extrema, scans
    "pooling",  # pools or resizes images
    "copy",  # copies, fills, casts, quantises or changes the layout
    "gather",  # gathers or scatters by index
    "embedding",  # looks up embeddings, or their gradient
    "random",  # draws random numbers, dropout too
    "sort",  # sorts, or picks the largest
    "optimizer",  # updates weights
    "fourier",  # a Fourier transform
    "communication",  # moves data between GPUs
    "autotuning",  # checks or delays others while they are tried
    "fusion",  # several ops that a compiler (Triton, XLA, TensorRT) put into one kernel; none of them a product
    "unknown",  # the name does not tell
]
KERNEL_KINDS: Final[tuple[KernelKind, ...]] = get_args(KernelKind)
"""What a kernel does, as its name tells."""


class NamedKernel(Struct, frozen=True):
    """What a user says of kernels whose names do not tell; pyproject.toml, [[tool.tcprobe.kernels]]."""

    pattern: str  # of their names or functions, as of files: * and ?
    uses_tc: UsesTc  # unknown: nothing is said of it
    kind: KernelKind  # unknown: likewise
    why: str  # in the user's words


KernelLibrary = Literal[
    "cublas", "cudnn", "cutlass", "flash-attention", "tensorrt", "pytorch", "tensorflow", "eigen", "cub", "curand",
    "triton", "xla", "nccl",
]  # fmt: skip
KERNEL_LIBRARIES: Final[tuple[KernelLibrary, ...]] = get_args(KernelLibrary)
"""Whose kernel it is, as its name tells; cuBLAS runs CUTLASS's too."""
GENERATIONS: Final = ("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")
"""Of GPUs, oldest first."""
PRODUCTS: Final[frozenset[KernelKind]] = frozenset({"matmul", "convolution", "attention", "recurrent"})
"""Kinds that Tensor Cores are made for."""

BlockerKind = Literal[
    "none",  # nothing: its kernels use them, or could
    "not_nvidia",  # the GPU is another vendor's
    "gpu",  # the GPU has none
    "gpu_unknown",  # not known: the GPU is not
    "type",  # no library has a Tensor Core kernel for the op's type
    "type_unknown",  # not known: the op may hold ops of any kind
    "dtype",  # the GPU's Tensor Cores do not multiply the dtype of an operand
    "dtype_missing",  # not known: the dtype is not recorded
    "dtype_unknown",  # not known: whether Tensor Cores take the dtype is not
    "tf32",  # float32 without TF32
    "tf32_unknown",  # not known: whether TF32 was allowed is not recorded
    "shape",  # a contiguous dimension is no multiple of 16 bytes, and the library chose another kernel
    "shape_required",  # a contiguous dimension is no multiple of 16 bytes, without which the dtype has no kernel
    "library",  # the library chose another kernel
    "kernels_unknown",  # not known: whether its kernels use them is not
]
BLOCKERS: Final[tuple[BlockerKind, ...]] = get_args(BlockerKind)
"""What keeps an op off the Tensor Cores."""
NOT_BLOCKED: Final[frozenset[str | None]] = frozenset({None, "none", "not_nvidia"})
"""Blockers about which there is nothing to say or do."""

_OtherCause = Literal[
    "tc_well",  # they are used well
    "tc_misaligned",  # they are used slowly: a contiguous dimension is no multiple of 16 bytes
    "tc_tiles",  # they are used slowly: tiles or the last wave of them are partly empty
    "tc_small",  # they are used slowly: the product is too small to fill the GPU
    "tc_memory",  # they are used slowly: moving the operands takes longer than multiplying them
    "tc_slow",  # they are used slowly, and nothing that is known of the product tells why
    "channels",  # so few channels, or so many groups, that the library has CUDA-core kernels alone
    "layout",  # kernels that change layout or type for an op that could use them
    "op_unknown",  # not known: the kernels belong to no op that the source names
    "other_step",  # kernels of steps that do not count, which ran among those that do
    "copy",  # copies and sets while no kernel ran
    "idle",  # nothing ran
]
CauseKind: TypeAlias = BlockerKind | _OtherCause
CAUSES: Final[tuple[CauseKind, ...]] = (*BLOCKERS, *get_args(_OtherCause))
"""Why the time of a step is spent as it is: every microsecond has one cause. Those of `BLOCKERS` mean the same
here, and `none` that they are used; how well is not known."""
CauseGroup = Literal["well", "slowly", "used", "off", "never", "layout", "unknown", "copy", "idle"]
CAUSE_GROUPS: Final[Mapping[CauseGroup, tuple[CauseKind, ...]]] = {
    "well": ("tc_well",),
    "slowly": ("tc_misaligned", "tc_tiles", "tc_small", "tc_memory", "tc_slow"),
    "used": ("none",),
    "off": ("channels", "shape", "shape_required", "library", "dtype", "tf32", "gpu"),
    "layout": ("layout",),
    "never": ("type", "not_nvidia"),
    "unknown": (
        "kernels_unknown", "dtype_missing", "dtype_unknown", "tf32_unknown", "gpu_unknown", "type_unknown",
        "op_unknown", "other_step",
    ),
    "copy": ("copy",),
    "idle": ("idle",),
}  # fmt: skip
"""The parts of a step's bar, in their order, and the causes in each: every cause is in one."""
GROUP_OF: Final[Mapping[CauseKind, CauseGroup]] = {
    cause: group for group, causes in CAUSE_GROUPS.items() for cause in causes
}

ChangeKind = Literal[
    "mixed_float16",  # compute in mixed precision, float16
    "mixed_bfloat16",  # compute in mixed precision, bfloat16
    "allow_tf32",  # allow TF32
    "change_size",  # change a size of a layer, and what must change with it
    "slice_filters",  # compute 8 filters of a convolution and keep the first ones
    "tensor_cores",  # run products on Tensor Cores that compute in a dtype they take: another kernel of the library
    "together",  # all changes that go together, each product counted once
]
CHANGES: Final[tuple[ChangeKind, ...]] = get_args(ChangeKind)
"""What a prediction of a changed run assumes."""

SizeAdviceKind = Literal[
    "change",  # take the next size
    "change_before",  # it follows from what feeds the layer: change it there
    "fewer_groups",  # make fewer groups of 8 channels or more
    "slice",  # compute 8 filters, keep the first ones, and measure
    "measured_free",  # measured, and predicted to cost next to nothing
    "image",  # leave it: an image's channels
    "small_head",  # leave it: so small a head is bound by memory and launches
    "small_dimension",  # leave it: a product with so small a dimension is bound by memory and launches
    "fixed",  # leave it: what it multiplies or what follows sets it
    "tf32_aligned",  # leave it: aligned for TF32
    "slice_in_vain",  # leave it: 8 filters would cost as much as they gain
    "free",  # leave it: it costs next to nothing
    "no_tensor_cores",  # no effect: the GPU has no Tensor Cores
    "off_tensor_cores",  # no effect: its products do not use Tensor Cores on the GPU
    "float64",  # no effect while the layer computes in float64
    "float32",  # no effect while the layer computes in float32 without TF32
]
SIZE_ADVICE: Final[tuple[SizeAdviceKind, ...]] = get_args(SizeAdviceKind)
"""What to do about a size that is not aligned."""
HARMLESS: Final[frozenset[SizeAdviceKind]] = frozenset(
    {"image", "small_head", "small_dimension", "fixed", "tf32_aligned", "slice_in_vain", "free"}
)
LEAVE: Final[frozenset[SizeAdviceKind]] = HARMLESS | {"no_tensor_cores", "off_tensor_cores"}
"""Advice for sizes to leave as they are, even if the layer's precision changes."""
GAINLESS: Final[frozenset[SizeAdviceKind]] = LEAVE | {"float64", "float32"}
"""Advice for sizes that gain nothing from a change at the present precision."""

RateBasis = Literal[
    "predicted",  # predicted for these ops
    "estimated",  # predicted for these ops, where unaligned convolutions were never measured
    "published",  # of large products of such a size, where no size of the op's own tells
    "published products",  # likewise, of a convolution, for which none is published
]
RATE_BASES: Final[tuple[RateBasis, ...]] = get_args(RateBasis)
"""What the rate of an unaligned product, relative to an aligned one, is based on."""
Evidence = Literal["timed", "between", "judged"]
"""What a predicted time rests on: kernels of its class that someone timed, on any GPU (``timed``); two classes between
which it must lie, both of them timed (``between``: an unaligned convolution, the padded one and an unaligned product);
or a judgement, for at least one end of its range (``judged``)."""
Limit = Literal["compute", "memory", "launch"]
"""What limits the speed of a product."""


class Blocker(Struct, frozen=True):
    """What keeps an op off the Tensor Cores; only the fields that matter for its kind are set."""

    kind: BlockerKind  # one of `BLOCKERS`
    op_type: str | None = None  # type of the op
    dtype: str | None = None  # dtype of the operand
    gpu: str | None = None  # name of the GPU; None if it is unknown or if several models ran
    compute_capability: str | None = None  # that of the GPU, as ``8.0``, if its name is unknown
    kernel: str | None = None  # short name of the costliest kernel that ran off the Tensor Cores, if known

    @classmethod
    def of(cls, row: Row) -> Blocker | None:
        """Return the blocker in a row of `ops` or `gemms`; None if it has none."""
        kind: Any = row["tc_blocker_kind"]
        if kind is None:
            return None
        op_type = row["op_type"] if kind in ("type", "type_unknown") else None
        named = (row[f"tc_blocker_{name}"] for name in ("dtype", "gpu", "capability", "kernel"))
        return cls(kind, *(text_of(value) for value in (op_type, *named)))

    def columns(self) -> Row:
        """Return the columns of `ops` and `gemms` that store it; the op's type is in them already."""
        return {
            "tc_blocker_kind": self.kind,
            "tc_blocker_dtype": self.dtype,
            "tc_blocker_gpu": self.gpu,
            "tc_blocker_capability": self.compute_capability,
            "tc_blocker_kernel": self.kernel,
        }


class SizeAdvice(Struct, frozen=True):
    """What to do about an unaligned size; only the fields that its sentence needs are set."""

    kind: SizeAdviceKind  # one of `SIZE_ADVICE`
    gpu: str | None = None  # name of the GPU that the rates are for, or that has no Tensor Cores
    # rate_low_pct, rate_high_pct: speed of its products relative to aligned ones, in whole percent; None if unknown.
    rate_low_pct: int | None = None
    rate_high_pct: int | None = None
    rate_basis: RateBasis | None = None  # what the rates are based on
    limit: Limit | None = None  # what limits the speed of its products, if the size costs next to nothing
    xla_pads: bool | None = None  # whether XLA pads its products
    image_channels: int | None = None  # channels of the images that the units may be reshaped to
    # whether zeros around its operands at run time, which are copied, may cost more than they gain; None if unknown
    padding_may_lose: bool | None = None
    # size, passes: from its row of `bad_sizes`.
    size: int | None = None
    passes: str | None = None
    sixteen_bit: bool | None = None  # whether the dtype of that row has 16 bits

    @classmethod
    def of(cls, row: Row) -> SizeAdvice | None:
        """Return the advice in a row of `bad_sizes`, equal for rows with the same sentence; None if it has none."""
        kind: Any = row["advice_kind"]
        if kind is None:
            return None
        found: dict[str, Any] = {"gpu": row["advice_gpu"], **{name: row[name] for name in _OF_SIZES}}
        basis = found["rate_basis"]
        told: dict[str, Any] = {}
        if kind in ("image", "slice", "slice_in_vain") or found["image_channels"] is not None:
            told["size"] = row["size"]
        if kind == "off_tensor_cores" or basis in ("predicted", "estimated"):
            told["passes"] = row["passes"]
        if kind == "slice" or basis in ("published", "published products"):
            told["sixteen_bit"] = row["dtype"] in SIXTEEN_BIT
        return cls(kind, **found, **told)

    def columns(self) -> Row:
        """Return the columns of `bad_sizes` that store it, besides those of the size itself."""
        return {"advice_kind": self.kind, "advice_gpu": self.gpu, **{name: getattr(self, name) for name in _OF_SIZES}}


SIXTEEN_BIT: Final = ("float16", "bfloat16", "half")
_OF_SIZES: Final = (
    "rate_low_pct", "rate_high_pct", "rate_basis", "limit", "xla_pads", "image_channels", "padding_may_lose",
)  # fmt: skip
