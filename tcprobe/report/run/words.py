"""The words of a run's report: for each kind of blocker and of size advice, and for the steps that a table is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from tcprobe import formatting as f
from tcprobe.gemm.record import next_size
from tcprobe.hardware import lookup_gpu, spoken_name
from tcprobe.rules.words import (
    BOUND,
    ESTIMATED,
    MAY_LEAVE,
    MAY_LOSE,
    UNHURT,
    kept,
    listed,
    output_channels,
    with_article,
)
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import Blocker, BlockerKind, KernelKind, SizeAdvice, SizeAdviceKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of

KIND_WORDS: Final[Mapping[KernelKind, str]] = {
    "matmul": "matrix product",
    "matrix_vector": "matrix x vector",
    "convolution": "convolution",
    "attention": "attention",
    "recurrent": "recurrent step",
    "helper": "helper of a product",
    "normalisation": "normalisation",
    "softmax": "softmax, loss",
    "elementwise": "elementwise",
    "reduction": "reduction, scan",
    "pooling": "pooling, resizing",
    "copy": "copy, cast, layout",
    "gather": "gather, scatter",
    "embedding": "embedding",
    "random": "random numbers",
    "sort": "sorting",
    "optimizer": "optimizer",
    "fourier": "Fourier transform",
    "communication": "communication",
    "autotuning": "autotuning",
    "fusion": "fused ops",
    "unknown": f.NA,
}
"""Each kind of kernel in a word or two."""
FEWEST_PHASES: Final = 2  # of a run of one phase all figures are, and none of this is said


def kind_label(kind: Value) -> str:
    """Return what a kernel does in a word or two."""
    return f.NA if kind is None else KIND_WORDS[cast(KernelKind, kind)]


def blocker_of(row: Row) -> str | None:
    """Return what keeps an op off the Tensor Cores, from a row of `ops` or `gemms`; None if unsaid."""
    found = Blocker.of(row)
    return text_of(row["tc_blocker"]) or (None if found is None else blocker(found))


def advice_of(row: Row) -> str | None:
    """Return what to do about a size, from a row of `bad_sizes`; None if unsaid."""
    found = SizeAdvice.of(row)
    return text_of(row["advice"]) or (None if found is None else size_advice(found))


def blocker(found: Blocker) -> str:
    """Return what keeps an op off the Tensor Cores."""
    return BLOCKER_WORDS[found.kind](found)


def size_advice(found: SizeAdvice, predicted: bool = False) -> str:
    """Return what to do about a size, and what it costs; with `predicted`, without saying that this is a prediction."""
    rated = found.rate_basis in ("predicted", "estimated") and not predicted
    return f"{'predicted: ' if rated else ''}{SIZE_WORDS[found.kind](found)}{_images(found)}"


def _possessive(found: Blocker) -> str:
    if found.gpu is None:
        return f"the Tensor Cores of compute capability {found.compute_capability}"
    return f"{spoken_name(found.gpu)}'s Tensor Cores"


def _ran(found: Blocker) -> str:
    return f"ran {found.kernel or 'a kernel without them'}"


BLOCKER_WORDS: Final[Mapping[BlockerKind, Callable[[Blocker], str]]] = {
    "none": lambda _: "none",
    "not_nvidia": lambda _: "not an NVIDIA GPU",
    "gpu": lambda _: "GPU has no Tensor Cores",
    "gpu_unknown": lambda _: "the GPU is not known",
    "type": lambda b: f"{b.op_type} has no Tensor Core kernel",
    "type_unknown": lambda b: f"{b.op_type or 'an op without a type'} may hold ops of any kind",
    "dtype": lambda b: f"{b.dtype} cannot use {_possessive(b)}",
    "dtype_missing": lambda _: "the dtype of the op is not recorded",
    "dtype_unknown": lambda b: f"whether Tensor Cores take {b.dtype} is not known",
    "tf32": lambda _: "TF32 off",
    "tf32_unknown": lambda _: "whether TF32 was allowed is not recorded",
    "shape": lambda b: f"a contiguous dimension is no multiple of 16 bytes, and the library {_ran(b)}",
    "shape_required": lambda b: f"{b.dtype} needs contiguous dimensions that are multiples of 16 bytes",
    "library": lambda b: f"library choice: {_ran(b)}",
    "kernels_unknown": lambda _: "whether its kernels use Tensor Cores is not known",
}


def where(layer: Value, op: Value, pass_: Value) -> str:
    """Return the layer with the pass, or the op if no layer is known."""
    place = f.any_text(layer or op)
    return f"{place} ({pass_})" if layer and pass_ else place


def where_of(row: Row) -> str:
    """Return the same of a row with these."""
    return where(row["layer"], row["op"], row["pass"])


def on_gpu(name: str | None) -> str:
    """Return a GPU's name for use in a sentence, ``an A100``; unchanged if gpus.csv lacks it."""
    gpu = lookup_gpu(name or "")
    return with_article(gpu.name) if gpu else name or "this GPU"


def _slice(found: SizeAdvice) -> str:
    count = found.size or 0
    how = f"give the convolution 8 filters, keep {kept(count)} (slice) and measure"
    return f"{output_channels(count)}: {f'{MAY_LEAVE}; ' if found.sixteen_bit else ''}{how}"


def _image(found: SizeAdvice) -> str:
    count = found.size or 0
    padding = f"{count} input channels are an image's, and padding them"
    padding = padding if count > 1 else "1 input channel is an image's, and padding it"
    return f"nothing: {padding} to 8 ran slower where it was measured (V100, T4)"


def _off(found: SizeAdvice) -> str:
    passes, use = _passes(found, "do", "does")
    return f"no effect: {passes} {use} not use Tensor Cores on {on_gpu(found.gpu)}"


def _passes(found: SizeAdvice, many: str, one: str) -> tuple[str, str]:
    """Return the passes that have the size, and the verb form for their number."""
    passes = (found.passes or "").split(", ") if found.passes else []
    return listed(passes) or "its products", one if len(passes) == 1 else many


def _free(found: SizeAdvice) -> str:
    return f"next to nothing: {UNHURT[BOUND[found.limit or 'compute']]}"


def _rates(found: SizeAdvice) -> str:
    """Return what the size costs: the rates of its products relative to aligned ones."""
    if found.rate_basis in ("predicted", "estimated"):
        padded = "XLA pads it, at the cost of copies: " if found.xla_pads else ""
        passes, run = _passes(found, "run", "runs")
        rate = f"{found.rate_low_pct}-{found.rate_high_pct} % of an aligned one"
        apart = f" ({ESTIMATED})" if found.rate_basis == "estimated" else ""
        loses = MAY_LOSE if found.padding_may_lose else ""
        return f"{padded}{passes} {run} at {rate} on {on_gpu(found.gpu)}{apart}{loses}"
    kind = "16-bit" if found.sixteen_bit else "TF32"
    rate = f"about {found.rate_low_pct} % of the aligned rate ({kind}, large products on {on_gpu(found.gpu)})"
    if found.rate_basis == "published":
        return f"runs on Tensor Cores at {rate}"
    if found.rate_basis == "published products":
        return f"runs on Tensor Cores more slowly: not measured for convolutions; matrix products reach {rate}"
    return "runs on Tensor Cores more slowly; how much is not measured for this dtype"


def _images(found: SizeAdvice) -> str:
    """Return which setting to change if the units become an image's channels."""
    count, size = found.image_channels, found.size or 0
    if not count:
        return ""
    pixels, better = size // count, next_size(count, 8)
    return (
        f"; if it is reshaped to images of {count} channels ({size} = {pixels} x {count}), give them {better}: "
        f"{pixels} x {better} = {pixels * better} units"
    )


SIZE_WORDS: Final[Mapping[SizeAdviceKind, Callable[[SizeAdvice], str]]] = {
    "change": _rates,
    "change_before": lambda a: f"{_rates(a)}; it follows from what feeds this layer: change it there",
    "fewer_groups": lambda a: f"{_rates(a)}; fewer groups of 8 channels or more would be aligned",
    "slice": _slice,
    "measured_free": lambda a: f"predicted to cost {_free(a)}",
    "image": _image,
    "fixed": lambda _: "nothing here: what it multiplies (rows, positions) or what follows sets it",
    "small_head": lambda _: "nothing: so small a head is bound by memory and launches, not by arithmetic",
    "small_dimension": lambda _: (
        "nothing: a product with so small a dimension is bound by memory and launches, not by arithmetic"
    ),
    "tf32_aligned": lambda _: "nothing for TF32, which asks for multiples of 4; float16 asks for 8",
    "slice_in_vain": lambda a: (
        f"nothing: {output_channels(a.size or 0)}, and 8 filters would cost as much as they gain"
    ),
    "free": _free,
    "no_tensor_cores": lambda a: f"no effect: {a.gpu or 'this GPU'} has no Tensor Cores",
    "off_tensor_cores": _off,
    "float64": lambda _: "no effect while this layer computes in float64",
    "float32": lambda _: (
        "no effect while this layer computes in float32 without TF32; it counts once precision is lowered"
    ),
}


def step_known(profile: Profile) -> bool:
    """Say whether FLOPs are those of a step; else they are of one execution of the graph, each of its programs once."""
    row = profile.figure("flops_per_step")
    return row is None or row["reason_kind"] != "no_step"


def of_a_step(profile: Profile) -> str:
    """Return the heading of a column of FLOPs."""
    return "FLOP/step" if step_known(profile) else "FLOP/execution"


def summed(profile: Profile, each_gpu: bool = False) -> str:
    """Return which steps and GPUs a table's kernel times add up, in words; empty if that is unknown, or but one GPU.

    Args:
        profile: for its steps and GPUs.
        each_gpu: whether the table has rows for each GPU, so that nothing is a sum over several.
    """
    sums, steps, tuned = added(profile, each_gpu), profile.counted_steps, " with autotuning" if profile.tuning else ""
    if steps == 1:
        return f"kernel time of 1 step{tuned}{f', {sums}' if sums else ''}"
    return f"kernel time: {sums}{tuned}" if sums else ""


def added(profile: Profile, each_gpu: bool = False) -> str:
    """Return over which steps and GPUs a time of all of them is a sum; empty where it is of one, as far as known."""
    steps, gpus = profile.counted_steps or 1, 1 if each_gpu else profile.busiest_gpu[0]
    over = [text for text, many in ((f"{steps:,} steps", steps), (f"{gpus} GPUs", gpus)) if many > 1]
    return f"sum of {' on '.join(over)}" if over else ""


def counted_phase(profile: Profile) -> tuple[str, Row] | None:
    """Return which phase the figures are of, as ``phase 2 of 2``, and its row; None where the run has but one."""
    phases = list(profile.require("phases").rows())
    mine = next((row for row in phases if row["in_window"]), None)
    if mine is None or len(phases) < FEWEST_PHASES:
        return None
    return f"phase {int(mine['phase'] or 0) + 1} of {len(phases)}", mine


def phase_steps(row: Row) -> str:
    """Return the first and last step of a phase."""
    return f"{row['first_step']} to {row['last_step']}"


IS_STEP: Final = {
    ("yes", "updates"): "each a step, by its update of the weights",
    ("no", "updates"): "no step: what updates the weights lies outside",
    ("no", "marks"): "no step: those that the profile marks hold several, or parts of one",
}
NOT_KNOWN: Final = "nothing says whether that is a step"


def start_text(profile: Profile) -> str:
    """Return what was cut off at the beginning of a capture; empty where nothing was."""
    cut = profile.start_up
    if cut is None:
        return ""
    held = f"{f.many(cut.kernels, 'kernel')}, {f.count(cut.copies)} copies and sets"
    ends = (
        "it ends where what repeats begins, and keeps its pace" if cut.basis == "units" else "it ends with a long pause"
    )
    return f"the first {f.duration(cut.length_ns)} ({held}) are left out: {ends}"


def step_text(profile: Profile) -> str:
    """Return which ranges count as steps though nobody says that they are; empty where none do."""
    row = next((row for row in profile.require("step_ranges").rows() if row["why_not"] is None), None)
    if row is None:
        return ""
    why = "their number rises" if row["numbers"] == "rising" else "they come one after the other"
    held = f"each holds about as many kernels, together {f.percent(row['share_pct'])}"
    return f"nobody marks any; ranges {row['pattern']} count: {why}, {held} (--step-range names others)"


def unit_text(profile: Profile) -> str:
    """Return what repeats most: kernels in a unit, how often, how long each; empty where the steps are known."""
    rows = list(profile.require("units").rows())
    if not rows or profile.counted_steps is not None:
        return ""
    first = rows[0]
    alike = {row["device"] for row in rows if _same(row, first)}
    on = f" on each of {len(alike)} GPUs" if len(alike) > 1 else ""
    each = "" if first["unit_ns"] is None else f", {f.duration(first['unit_ns'])} each"
    whether = IS_STEP.get((str(first["is_step"]), str(first["basis"])), NOT_KNOWN)
    return f"a unit of {f.count(first['kernels'])} kernels {f.count(first['repeats'])} times{on}{each}: {whether}"


def _same(row: Row, other: Row) -> bool:
    return all(row[name] == other[name] for name in ("kernels", "repeats", "is_step", "basis"))
