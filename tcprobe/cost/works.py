"""`Task`: what an op computes, as kernels for the cost model: sizes and bytes moved, plain or padded.

`Way`: one way to run a task, and its time: products as they are, or padded at run time by XLA or by hand.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.alignment import Misalignment, product_level
from tcprobe.cost.constants import Multiplier
from tcprobe.cost.tiles import Chip, ComputeUnits, Estimate, Work, compute_bound, compute_units_of, estimate
from tcprobe.gemm.conv import CONV_PASSES, Convolution, ConvPass, convolution_of
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import ALIGN_BYTES, next_size
from tcprobe.gemm.torch import torch_kind
from tcprobe.hardware import Gpu
from tcprobe.schema.kinds import Limit
from tcprobe.schema.op import Contiguous, Gemm, OpRecord, product

Arithmetic = Literal["gemm", "conv", "rnn"]
CHANNEL_STEP: Final = 32


class Task(Struct, frozen=True):
    """What one execution of an op computes, and on which units of a GPU."""

    arithmetic: Arithmetic  # how its kernels are chosen
    works: tuple[tuple[Work, int], ...]  # its multiplications, each with the number of runs one after another
    contiguous: tuple[Contiguous, ...]  # innermost dimensions, per group if there are groups
    units: ComputeUnits  # what it runs on if nothing prevents it
    flops: float  # what its GEMMs take, all of their sizes: of a gradient, not the FLOPs that `tcprobe.gemm` counts
    kind: ConvPass | None = None  # pass of a convolution; None for other tasks
    convolution: Convolution | None = None  # the convolution, if the shapes tell
    groups: int = 1  # groups of a convolution; 1 for other tasks

    @property
    def level(self) -> Misalignment | None:
        """The measured class of its sizes (`tcprobe.cost.alignment.product_level`)."""
        return product_level(self.contiguous, self.units.family)

    @property
    def least(self) -> int:
        """The smallest size of its multiplications."""
        return min(min(work.m, work.n, work.k) for work, _ in self.works)

    @property
    def strides_both(self) -> bool:
        """Whether neither operand is contiguous along the contraction: A[K,M]^T B[K,N], a Dense layer's wgrad.

        A convolution's weight gradient contracts over pixels, which channels-last tensors do not hold side by side.
        """
        if self.arithmetic == "conv":
            return self.kind == "wgrad"
        return len(self.contiguous) >= 2 and all(c.role != "k" for c in self.contiguous[:2])

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of convolutions that it belongs to, narrowest first: part of a pass, then the pass.

        On CUDA cores (float32), cuDNN uses Winograd's or Fourier's method for a filter of several taps and unit stride;
        both multiply less than the shapes imply. A pass that no record names counts as forward.
        """
        kind, conv = self.kind or "forward", self.convolution
        plain = self.units.family != "fp32" or conv is None or set(conv.strides) != {1}
        return (kind,) if plain or conv is None or max(t or 1 for t in conv.kernel) == 1 else (f"{kind}:winograd", kind)


def task_of(record: OpRecord, gpu: Gpu, tf32: bool = False, dtype: str | None = None) -> Task | None:
    """Return what an op computes; None if it multiplies nothing, or a size or the rate of its dtype is unknown.

    A convolution whose groups have one channel each is depthwise: it runs in kernels of its own, not as a product per
    channel.

    Args:
        record: one op.
        gpu: what it runs on.
        tf32: whether float32 runs as TF32 where the GPU can.
        dtype: of its operands; the record's by default.
    """
    units = compute_units_of(dtype or record.dtype, gpu, tf32)
    gemms = gemms_of(record) if units else []
    sizes = [(g.m, g.n, g.k, g.batch) for g in gemms]
    if units is None or not gemms or any(product(of_gemm) is None for of_gemm in sizes):
        return None
    assert all(size is not None and size >= 1 for of_gemm in sizes for size in of_gemm), record
    family, width = family_of(record.op_type), units.width
    if family in CONV_PASSES:
        kind = CONV_PASSES[family]
        conv = convolution_of(record, kind)
        deep = conv is not None and conv.group_channels == 1 and (conv.groups or 1) > 1
        return None if conv is None or deep else conv_task(conv, kind, units)
    contiguous = tuple(c for g in gemms for c in g.contiguous)
    useful = math.fsum(g.dense_flops or 0 for g in gemms)
    if family == "hlo_conv" or torch_kind(record.op_type) == "conv":
        if (gemms[0].batch or 1) > 1 and any(c.role == "channels" and c.size == 1 for c in contiguous):
            return None
        return _opaque_conv(gemms[0], record, units)
    # each step's recurrent product needs the previous step, so its `batch` is the steps, one after another
    steps = [g.batch or 1 if family == "rnn" and index else 1 for index, g in enumerate(gemms)]
    works = (gemm_work(replace(g, batch=1) if n > 1 else g, width) for g, n in zip(gemms, steps, strict=True))
    arithmetic: Arithmetic = "rnn" if family == "rnn" else "gemm"
    return Task(arithmetic, tuple(zip(works, steps, strict=True)), contiguous, units, useful)


def conv_task(conv: Convolution, kind: ConvPass, units: ComputeUnits) -> Task | None:
    """Return one pass of a convolution; None if a size is unknown."""
    sizes = tensors(conv)
    gemms = _stepped(conv, kind, units.width).gemms(kind)
    whole = sum(g.dense_flops or 0 for g in gemms)
    if sizes is None or not whole:
        return None
    moved = float(units.width) * sum(sizes)  # image, filters and result, each once
    # the parts of a strided gradient read the same tensors: their bytes are divided in proportion to arithmetic
    works = tuple((_work(g, moved * (g.dense_flops or 0) / whole), 1) for g in gemms)
    useful = math.fsum(g.dense_flops or 0 for g in conv.gemms(kind))
    return Task("conv", works, conv.contiguous, units, useful, kind, conv, conv.groups or 1)


def _stepped(conv: Convolution, kind: ConvPass, width: int) -> Convolution:
    """Return the convolution that a kernel on 2-byte operands computes: whole steps of contracted channels per tap.

    The contraction loop goes tap by tap, `CHANNEL_STEP` channels at a time (CUTLASS, "Implicit GEMM Convolution");
    the rows of a weight gradient are channels, cut in the same way. Source of the step: DeepBench on V100 and T4,
    where convolutions of 8 channels are 1.5-6 times slower than their product, and of 64 and more are not.
    """
    channels, groups = conv.group_channels, conv.groups
    if width != 2 or not channels or not groups:
        return conv
    if kind == "dgrad":
        filters = conv.group_filters
        return conv if not filters else replace(conv, filters=groups * next_size(filters, CHANNEL_STEP))
    wide = next_size(channels, CHANNEL_STEP)
    return replace(conv, channels=groups * wide, group_channels=wide)


def gemm_work(gemm: Gemm, width: int) -> Work:
    """Return the work of a matrix multiplication that reads its operands once and writes its result once.

    With 1-byte operands a result takes 2 bytes, and the left operand is first converted from 2 bytes to 1, which moves
    3 more: float8 layers work like this, and so did the measurements behind their constants.
    """
    m, n, k, batch = _known(gemm)
    left, right, result = (4, 1, 2) if width == 1 else (width, width, width)
    return Work(m, n, k, batch, float(batch) * (left * m * k + right * k * n + result * m * n))


def tensors(conv: Convolution) -> tuple[int, int, int] | None:
    """Return the number of elements of image, filters and result; None if a size is unknown."""
    image = product((conv.batch, *conv.size, conv.channels))
    kernel = product((*conv.kernel, conv.group_channels, conv.filters))
    result = product((conv.batch, *conv.out, conv.filters))
    return None if image is None or kernel is None or result is None else (image, kernel, result)


def padded_work(work: Work, multiple: int, width: int) -> tuple[Work, float, float]:
    """Return a multiplication with every size padded, and the bytes moved to copy the operands and to copy the result.

    XLA pads the last two dimensions of both operands and slices the result.
    """
    m, n, k = (next_size(size, multiple) for size in (work.m, work.n, work.k))
    before = (work.m * work.k, work.k * work.n, work.m * work.n)
    after = (m * k, k * n, m * n)
    *operands, result = (a + b if a != b else 0 for a, b in zip(before, after, strict=True))
    size = float(width) * work.batch
    return Work(m, n, k, work.batch, size * sum(after)), size * sum(operands), size * result


def _work(gemm: Gemm, moved: float) -> Work:
    return Work(*_known(gemm), moved)


def _known(gemm: Gemm) -> tuple[int, int, int, int]:
    assert gemm.m and gemm.n and gemm.k and gemm.batch, "sizes were looked at before"
    return gemm.m, gemm.n, gemm.k, gemm.batch


def _opaque_conv(gemm: Gemm, record: OpRecord, units: ComputeUnits) -> Task:
    """Return a convolution of which only the product and the tensor shapes are known."""
    shapes = [shape for shape in (record.shape(0), record.shape(1), record.output_shape) if shape is not None]
    moved = float(units.width) * sum(product(shape) or 0 for shape in shapes)
    kind: ConvPass | None = next((k for k in CONV_PASSES.values() if k == record.pass_), None)
    works, flops = ((_work(gemm, moved), 1),), float(gemm.dense_flops or 0)
    return Task("conv", works, gemm.contiguous, units, flops, kind, groups=gemm.batch or 1)


XLA_MULTIPLE: Final = 8  # openxla/xla cublas_padding_requirements.h and cudnn_pad_for_convolutions.cc: F16 and BF16
XLA_PADS_FROM: Final = {"float16": (7, 0), "half": (7, 0), "bfloat16": (8, 0)}
"""Compute capability from which XLA pads dots of a dtype: openxla/xla, cublas_padding_requirements.h."""
XLA_GROWTH: Final = 1.35  # cudnn_pad_for_convolutions.cc: not padded if its buffers would grow by more


class Way(Struct, frozen=True):
    """One way to run a task."""

    parts: tuple[Estimate, ...]  # estimates of its products
    empty_ns: float  # time of its kernels if they were empty
    launch_ns: float = 0.0  # time of their launches, in which the GPU waits: not part of `ns`
    extra_ns: float = 0.0  # time of copies, and of kernels that the tile model does not describe
    factor: float = 1.0  # factor on the total
    measured: bool = False  # True if the time is not from the tile model, whose errors then do not apply

    @property
    def ns(self) -> float:
        """Total time of its kernels, in ns."""
        return self.factor * (math.fsum(p.ns for p in self.parts) + self.empty_ns + self.extra_ns)

    @property
    def limit(self) -> Limit:
        """What limits it: copies count as memory, and kernels that the tile model does not describe as compute."""
        if not self.parts:
            return "compute"
        if self.empty_ns + self.launch_ns >= sum(part.ns for part in self.parts) + self.extra_ns:
            return "launch"
        busy = sum(part.compute_ns for part in self.parts)
        return "compute" if busy >= sum(part.memory_ns for part in self.parts) + self.extra_ns else "memory"


Ways: TypeAlias = "tuple[Way, Way, Way]"  # the best, the likely and the worst


def way_of(task: Task, chip: Chip, penalty: tuple[float, float] = (1.0, 1.0)) -> Way:
    """Return how a chip runs a task as it is, with penalties on the compute and memory rates."""
    parts: list[Estimate] = []
    compute, memory = penalty if penalty != (1.0, 1.0) else (chip.layout, 1.0)
    for work, times in task.works:
        part = estimate(work, chip, compute ** compute_bound(work, chip), memory)
        parts += [part] if times == 1 else [replace(part, ns=part.ns * times)]
    steps = max(times for _, times in task.works)
    launches = 1 if task.arithmetic == "conv" else len(task.works)
    # the steps of a recurrent layer partly overlap their launches: half is a judgement
    starts = launches + (steps - 1) / 2
    return Way(tuple(parts), chip.rate.t0_ns * starts, chip.rate.launch_ns * starts)


def slowed(task: Task, chip: Chip, compute: Multiplier, memory: Multiplier) -> Ways:
    """Return how a chip runs a task at these rates of arithmetic and memory, the fastest first."""
    ends = (compute.high, memory.high), (compute.mid, memory.mid), (compute.low, memory.low)
    best, likely, worst = (way_of(task, chip, end) for end in ends)
    return best, likely, worst


def in_order(*ways: Way) -> Ways:
    """Return three ways, fastest first."""
    best, likely, worst = sorted(ways, key=lambda way: way.ns)
    return best, likely, worst


def with_channels(task: Task, channels: int, filters: int) -> Task | None:
    """Return a convolution padded to other channels; None if it cannot be padded."""
    conv, kind = task.convolution, task.kind
    if conv is None or kind is None or task.groups > 1:
        return None
    return conv_task(replace(conv, channels=channels, group_channels=channels, filters=filters), kind, task.units)


def copies_ns(task: Task, padded: Task, chip: Chip) -> float:
    """Return the time to copy the tensors that padding a convolution changes."""
    sizes = [tensors(one.convolution) if one.convolution else None for one in (task, padded)]
    if None in sizes:
        return 0.0
    moved = sum(a + b for a, b in zip(*filter(None, sizes), strict=True) if a != b)
    return copy_ns(float(moved) * task.units.width, chip)


def turning_ns(task: Task, chip: Chip) -> float:
    """Return the time to turn a convolution's tensors between channels-first and channels-last, each once.

    TensorFlow trains float32 convolutions channels-first, TF32 or not (grappler, generic_layout_optimizer.cc), XLA and
    PyTorch by default too. cuDNN's Tensor Core kernels read them channels-last, padded to whole 16 bytes: it copies
    what they read and write.
    """
    multiple, conv = ALIGN_BYTES // task.units.width, task.convolution
    channels, filters = (conv.channels or 0, conv.filters or 0) if conv else (0, 0)
    padded = with_channels(task, next_size(channels or 1, multiple), next_size(filters or 1, multiple)) or task
    return copy_ns(math.fsum(work.moved_bytes for one in (task, padded) for work, _ in one.works), chip)


def copy_ns(moved: float, chip: Chip) -> float:
    """Return the time to read and write `moved` bytes in total."""
    return moved / (chip.bytes_per_ns * chip.rate.bwf)


def padded_by_xla(task: Task, dtype: str, gpu: Gpu, chip: Chip) -> Ways | None:
    """Return how a task runs that XLA pads; None if XLA leaves it as it is.

    XLA pads 16-bit dots, and float16 convolutions unless a buffer would grow much.
    """
    least = XLA_PADS_FROM.get(dtype)
    if least is None or gpu.compute_capability < least or task.arithmetic == "rnn":
        return None
    if task.arithmetic == "gemm":
        return padded_products(task, chip, XLA_MULTIPLE)
    return _convolution(task, chip) if dtype != "bfloat16" else None


def padded_products(task: Task, chip: Chip, multiple: int) -> Ways:
    """Return how products run whose operands are padded with zeros at run time."""
    found = [padded_work(work, multiple, task.units.width) for work, _ in task.works]
    way = way_of(replace(task, works=tuple((work, 1) for work, _, _ in found)), chip)
    operands = copy_ns(math.fsum(moved for _, moved, _ in found), chip)
    results = copy_ns(math.fsum(moved for _, _, moved in found), chip)
    return _copied(way, operands, operands + results, chip)


def _convolution(task: Task, chip: Chip) -> Ways | None:
    conv = task.convolution
    if conv is None or not conv.channels or not conv.filters:
        return None
    few = conv.channels == 3 and conv.filters in (32, 64)
    sizes = (4, conv.filters) if few else tuple(next_size(n, XLA_MULTIPLE) for n in (conv.channels, conv.filters))
    padded = with_channels(task, *sizes)
    before, after = tensors(conv), tensors(padded.convolution) if padded and padded.convolution else None
    if padded is None or before is None or after is None:
        return None
    if not few and any(b > XLA_GROWTH * a for a, b in zip(before, after, strict=True)):
        return None
    copies = copies_ns(task, padded, chip)
    return _copied(way_of(padded, chip), copies, copies, chip)


def _copied(way: Way, likely: float, all_copies: float, chip: Chip) -> Ways:
    """At best the copies are fused into the neighbouring ops; at worst each is a kernel.

    The result of a product is likely sliced by the op that reads it. Padding at run time that copies only the operands
    was measured at 1.09-1.19 times the padded product (autoheuristic-datasets, A100, 16 bits: the gain of a larger
    layer over that of padding, 2.25 / 2.02, 1.49 / 1.25, 2.43 / 2.23, 1.53 / 1.39).
    """
    empty, launch = way.empty_ns + 3 * chip.rate.t0_ns, way.launch_ns + 3 * chip.rate.launch_ns
    worst = replace(way, extra_ns=all_copies, empty_ns=empty, launch_ns=launch)
    return way, replace(way, extra_ns=likely), worst
