"""What to do, in a few words: a title for the first screen, and a line of why, for each kind of advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tcprobe.report import formatting as f
from tcprobe.rules.words import kept, listed, short_name, way
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.waits import HostWork

Words: TypeAlias = tuple[str, str]
"""What to do, and why or how; the second may be empty."""
_FEW_LAUNCHES: Final[dict[str | None, str]] = {
    None: "Fewer launches: a CUDA graph, a larger batch",
    "tensorflow": "Longer kernels: jit_compile=True",
    "pytorch": "Fewer launches: torch.compile, CUDA graphs",
    "jax": "Longer kernels: jax.jit of the whole step",
}
_COMPILED: Final[dict[str | None, str]] = {
    None: "Fewer launches: a larger batch",
    "tensorflow": "Several steps a call: steps_per_execution",
    "jax": "Several steps a call: jax.lax.scan",
}
_WAYS: Final[Mapping[HostWork, dict[str | None, str]]] = {
    "input": {
        None: "Prepare the next batches ahead: prefetch, cache",
        "tensorflow": "Prepare batches ahead: prefetch(AUTOTUNE), cache",
        "pytorch": "Prepare batches ahead: DataLoader(num_workers=...)",
    },
    "copy": {
        None: "Copy the next batch ahead, from pinned memory",
        "tensorflow": "Copy batches ahead: prefetch_to_device",
        "pytorch": "Copy batches ahead: pin_memory, non_blocking",
        "jax": "Copy batches ahead: jax.device_put",
    },
    "set": {None: "Copy and clear less within the GPU"},
    "compile": {None: "Profile after warm-up; keep shapes the same"},
    "profiler": {None: "Record less at a time"},
    "python": {
        None: "Do less in Python between the calls",
        "tensorflow": "Less Python: the whole step in one tf.function",
        "pytorch": "Less Python between the calls: torch.compile",
        "jax": "Less Python: jax.jit of the whole step",
    },
    "communicate": {None: "Send while computing; balance the processes"},
    "synchronise": {None: "Fetch losses and metrics less often"},
    "launch": _FEW_LAUNCHES,
    "executor": {None: "Profile later steps: first calls load kernels"},
    "outside": {
        None: "Do less between the steps: logging, saving",
        "tensorflow": "Do less between the steps: callbacks, logging",
    },
    "copy_call": {None: "Find what holds up the calls that copy"},
    "op": {None: "Move the op on the host out of the step"},
    "queued": {None: "Longer kernels, or a CUDA graph"},
    "range": {None: "Time the parts of the range that it waits in"},
    "unknown": {None: "Find what the GPU waits for"},
}
_WORK: Final[Mapping[HostWork, str]] = {
    "input": "the input pipeline",
    "copy": "copies from and to the host",
    "set": "copies within the GPU",
    "compile": "tracing, compiling or autotuning",
    "profiler": "the profiler itself",
    "python": "Python",
    "communicate": "waiting for other processes",
    "synchronise": "the host waiting for the GPU",
    "launch": "launching",
    "executor": "the executor of ops",
    "outside": "outside the training call",
    "copy_call": "calls that copy, while nothing is copied",
    "op": "an op on the host",
    "queued": "pauses before kernels in the queue",
    "range": "in ranges that the program marks",
    "unknown": "of unknown cause",
}
"""What the waiting is, after ``71 % of the waiting is``."""
_HALF: Final[dict[str | None, str]] = {
    None: "Mixed precision in float16",
    "tensorflow": "mixed_float16 (tf.keras.mixed_precision)",
    "pytorch": "float16: torch.autocast",
}
_MIXED: Final[dict[str | None, str]] = {
    None: "Mixed precision, 16 bits",
    "tensorflow": "mixed_bfloat16 or mixed_float16",
    "pytorch": "16 bits: torch.autocast",
}
_TF32: Final[dict[str | None, str]] = {
    None: "unset NVIDIA_TF32_OVERRIDE",
    "tensorflow": "enable_tensor_float_32_execution(True)",
    "pytorch": "torch.set_float32_matmul_precision('high')",
    "jax": "jax_default_matmul_precision='tensorfloat32'",
}
_FUSE: Final[dict[str | None, str]] = {
    None: "Fuse elementwise ops: a compiler",
    "tensorflow": "Fuse elementwise ops: jit_compile=True",
    "pytorch": "Fuse elementwise ops: torch.compile",
    "jax": "Fuse elementwise ops: jax.jit of the whole step",
}
_LAST: Final[dict[str | None, str]] = {
    None: "Keep images with channels last (NHWC)",
    "pytorch": "Keep images with channels last (channels_last)",
}
_TOP: Final[Mapping[str | None, str]] = {
    "type": "Do less of it, or fuse it with its neighbours",
    "channels": "More channels, or fewer groups",
    "tc_misaligned": "Make its sizes multiples of 8",
    "tc_tiles": "Change its sizes or the batch: fill the tiles",
    "tc_small": "Give it larger products: a larger batch",
    "tc_memory": "Move less memory: 16 bits, or fuse it",
    "tc_slow": "Look at it with Nsight Compute",
    "tf32_unknown": "Find out whether TF32 was on",
}
_AFTER: Final[Mapping[str | None, str]] = {"dtype": "TC303", "tf32": "TC304", "tf32_unknown": "TC304"}
"""What keeps convolutions, around which the layout changes, off the Tensor Cores -> the rule that comes first."""


def words_of(item: Advice) -> Words:
    """Return what to do and why, in a few words each."""
    return _WORDS[item.kind](item, dict(item.says.fields))


def _feed(_: Advice, fields: dict[str, Any]) -> Words:
    work = fields["work"]
    if fields["work_pct"] is None:
        return "Record a timeline: when it waits is unknown", "sums alone were recorded; Nsight Systems has the times"
    ways = _COMPILED if work == "launch" and fields["compiled"] else _WAYS[work]
    gap = f"; longest gap {f.duration(fields['gap_ns'])}" if work == "unknown" and fields["gap_ns"] else ""
    return way(ways, fields["framework"]), f"{_waited(fields)}{gap}"


def _waited(fields: dict[str, Any]) -> str:
    work, pct = fields["work"], fields["work_pct"]
    if work == "unknown":
        return f"{f.whole_percent(pct)} of the waiting: {_no_event(fields)}"
    named = fields["host_op"] if fields["named_pct"] >= 50.0 else None
    what = f"{f.whole_percent(pct)} of the waiting is {_WORK[work]}"
    if work == "copy" and fields["copies"]:
        size, spent = fields["copy_bytes"], fields["copy_ns"]
        rate = f" at {f.rate(size / spent * 1e9)}" if size and spent else ""
        return f"{what}: {f.size(size)}{rate}" if size else what
    return f"{what} ({f.shorten(str(named), 36)})" if named else what


def _no_event(fields: dict[str, Any]) -> str:
    return "no event of the host" if fields["recorded"] else "the host's work was not recorded"


def _place(item: Advice, _: dict[str, Any]) -> str:
    where = item.where
    place = where.layer or where.op
    if place is None:
        return ""
    line = f", {f.source_line(where.source)}" if where.source else ""
    return f"costliest: {place}{f', {where.pass_}' if where.pass_ else ''}{line}"


def _titled(ways: dict[str | None, str]) -> Callable[[Advice, dict[str, Any]], Words]:
    return lambda item, fields: (way(ways, fields.get("framework")), _place(item, fields))


def _plain(title: str) -> Callable[[Advice, dict[str, Any]], Words]:
    return lambda item, fields: (title, _place(item, fields))


def _tf32(title: str) -> Callable[[Advice, dict[str, Any]], Words]:
    return lambda item, fields: (f"{title}: {way(_TF32, fields['framework'])}", _place(item, fields))


def _sizes(item: Advice, fields: dict[str, Any]) -> Words:
    line = f", {f.source_line(item.where.source)}" if item.where.source else ""
    changes = ", ".join(f"{one.dimension} {one.size} -> {one.next_size}" for one in item.sizes)
    if others := fields["others"]:
        return f"{changes} in {others + 1} ops", f"above all {item.where.layer}{line}"
    return f"{changes}: {str(item.where.layer).rpartition('/')[2]}", f"of {item.where.layer}{line}"


def _slice(item: Advice, _: dict[str, Any]) -> Words:
    line = f", {f.source_line(item.where.source)}" if item.where.source else ""
    title = f"filters {item.sizes[0].size} -> 8, keep {kept(item.sizes[0].size)}"
    return f"{title}: {str(item.where.layer).rpartition('/')[2]}", f"of {item.where.layer}{line}"


def _name_ops(_: Advice, fields: dict[str, Any]) -> Words:
    kernel = f": {short_name(str(fields['kernel']))}" if fields["kernel"] else ""
    return "Channels last, channels in multiples of 8", f"16-bit kernels on CUDA cores{kernel}"


def _fuse_kernels(_: Advice, fields: dict[str, Any]) -> Words:
    compiled = fields["compiled"]
    title = "A larger batch: more work for each kernel" if compiled else way(_FEW_LAUNCHES, fields["framework"])
    few = f"{fields['tiny']:,.0f} of {fields['launches']:,.0f} kernels take under {f.duration(fields['limit_ns'])}"
    return title, few


def _keep_layout(item: Advice, fields: dict[str, Any]) -> Words:
    op_type = str(fields["op_type"] or "").lower()
    code = _AFTER.get(fields["kept_off"]) if "conv" in op_type else None
    if not fields["transposes"]:
        title = "One precision, so that nothing is cast"
    elif not fields["convolutions"] or any(word in op_type for word in ("transpose", "permute", "contiguous")):
        title = "Keep one order of dimensions"
        title += " and one precision" if fields["casts"] else ""
    else:
        title = f"Changes of layout: look again after {code}" if code else way(_LAST, fields["framework"])
    return title, _place(item, fields)


def _change_kernel(_: Advice, fields: dict[str, Any]) -> Words:
    if fields["communicates"]:
        title = "Send less between GPUs, and while they compute"
    else:
        title = _TOP.get(fields["cause"], "Find out what it does: Nsight Compute")
    return title, f"{short_name(str(fields['kernel']))} dominates"


def _fuse_chain(_: Advice, fields: dict[str, Any]) -> Words:
    each = " a GPU" if fields["gpus"] > 1 else ""
    return way(_FUSE, fields["framework"]), f"{fields['launches']:,.0f} launches{each}, one after the other"


def _larger_batch(_: Advice, fields: dict[str, Any]) -> Words:
    return "A larger batch", f"{fields['free_gb']:.1f} of {fields['total_gb']:.1f} GB of memory are free"


def _halve(_: Advice, fields: dict[str, Any]) -> Words:
    sliced = fields["sliced"]
    return way(_MIXED, fields["framework"]), f"with 8 filters in {listed(sliced)}, keep the first" if sliced else ""


def _skip(_: Advice, fields: dict[str, Any]) -> Words:
    slow = f"they take up to {f.duration(fields['slowest_ns'])}, later ones {f.duration(fields['usual_ns'])}"
    return f"Leave the first {f.many(fields['slow'], 'step')} out: --iter-start", slow


def _finite(_: Advice, fields: dict[str, Any]) -> Words:
    since = "" if fields["step"] is None else f" since step {fields['step']:,}"
    if fields["half"] and fields["scale"] == "fixed":
        title = f"A loss scale below {fields['scale_value']:,.7g}, or a dynamic one"
    else:
        title = f"Find out why {f.shorten(fields['name'], 16)} is {fields['value']}"
    return title, f"{fields['name']} is {fields['value']}{since}: no step after is of a training"


def _usual(_: Advice, fields: dict[str, Any]) -> Words:
    pct = fields.get("start_pct")
    if pct is None or not fields.get("when"):
        return "Profile later steps, each marked, with their ops", "start-up may be most of this"
    return "Profile several steps after warm-up", f"{f.whole_percent(pct)} of the waiting may be that of a first step"


_WORDS: Final[Mapping[AdviceKind, Callable[[Advice, dict[str, Any]], Words]]] = {
    "feed_gpu": _feed,
    "profile_later": _plain("Profile later steps, after warm-up"),
    "profile_steps": _plain("Profile several later steps, each marked"),
    "profile_usual_steps": _usual,
    "use_float32": _plain("Compute in float32, not in float64"),
    "use_float16": _plain("float16 in place of bfloat16"),
    "mixed_precision": _titled(_HALF),
    "allow_tf32": _tf32("TF32"),
    "check_tf32": _tf32("Make sure of TF32"),
    "use_gpu": _plain("A GPU with Tensor Cores (Volta or later)"),
    "align_sizes": _plain("Make the sizes multiples of 8"),
    "change_size": _sizes,
    "slice_filters": _slice,
    "library": lambda item, fields: (
        "8 or more channels, or channels last" if fields["convolution"] else "Larger sizes, or a larger batch",
        _place(item, fields),
    ),
    "name_ops": _name_ops,
    "fuse_kernels": _fuse_kernels,
    "fill_ops": lambda _, fields: (
        "A larger batch, fewer launches",
        f"the GPU is idle {f.whole_percent(fields['idle_pct'])} of the calls of ops; what that saves is unknown",
    ),
    "keep_layout": _keep_layout,
    "fix_scale": lambda _, fields: ("A fixed loss scale, such as 1024", f"{fields['ops']:,} ops look at the gradients"),
    "finite_loss": _finite,
    "skip_warm_up": _skip,
    "change_kernel": _change_kernel,
    "larger_batch": _larger_batch,
    "key_node": lambda _, fields: (
        "A key node that runs once a step: find-key-node",
        f"most ops run {fields['times']:,} times in each of its steps"
    ),
    "halve_precision": _halve,
    "fuse_chain": _fuse_chain,
    "fill_waves": lambda _, fields: (
        "Fill the last wave of blocks: batch or sizes", f"{fields['waves']:.2f} waves of {fields['tile']}"
    ),
    "align_kernel": lambda _, fields: (
        "Find the odd sizes and align them (multiples of 8)", f"{short_name(str(fields['kernel']))} loads "
        f"{f.many(fields['alignment'], 'element')} at once"
    ),
}  # fmt: skip
