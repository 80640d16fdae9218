"""TC309, TC310, TC311, TC314: kernels of no op that is named, tiny ones, those of layouts, and one that dominates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import TINY_NS, VECTOR, Run, TopKernel, names_in, to_change
from tcprobe.rules.run.waiting import WAYS as HOST_WAYS
from tcprobe.rules.run.waiting import Parts, bounded, named_work, of_step, saves, usual_step, waiting_of
from tcprobe.rules.words import way
from tcprobe.schema.advice import COPIES, LAUNCHES, Advice, AdviceKind, Concern
from tcprobe.schema.kinds import BlockerKind, CauseKind
from tcprobe.schema.statement import Both, Duration, Name, Share, Statement, say

LEAST_TINY: Final = 50  # tiny kernels in a step: fewer take less than a millisecond of launches
LEAST_PCT: Final = 5.0  # of the step
MUCH_IDLE_PCT: Final = 25.0  # of the calls of ops on the GPU
MANY: Final = 0.5  # of the launches
DOMINATES_PCT: Final = 25.0  # of the kernel time: below that other kernels matter as much
NAME_OPS: Final = (
    "Record which ops these kernels belong to (tcprobe profile; under Nsight Systems their NVTX ranges; with DLProf "
    "all reports, in its framework mode)"
)
MULTIPLES: Final = (
    "Try sizes and channels in multiples of 8 and, for convolutions, channels last (NHWC), so that the library takes "
    "kernels on Tensor Cores"
)
"""Where the dtype allows Tensor Cores already."""
FUSE: Final[dict[str | None, str]] = {
    None: "Launch fewer and longer kernels: let a compiler fuse them, or launch them by CUDA graphs",
    "tensorflow": "Launch fewer and longer kernels: let XLA fuse them (jit_compile=True)",
    "pytorch": "Launch fewer and longer kernels: torch.compile fuses them, CUDA graphs launch many at once "
    "(torch.compile(mode='reduce-overhead'))",
    "jax": "Launch fewer and longer kernels: jax.jit of the whole step fuses them",
}
DONE: Final = "Give each kernel more work: a larger batch, or fewer and wider layers"
"""Where kernels were fused, or are launched together, already."""
MUCH: Final = 0.25  # of this time: from here on both remedies are named
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
FINE: Final[tuple[CauseKind | None, ...]] = ("tc_well", "none", None)
"""Causes of which there is nothing to say: it uses Tensor Cores, or nobody knows why its time is spent."""
ELSEWHERE: Final[tuple[CauseKind, ...]] = ("layout", "other_step", "gpu", "not_nvidia")
"""Causes of which TC311 and TC305 speak, or of which there is nothing to do."""
OF_OPS: Final[tuple[BlockerKind, ...]] = ("dtype", "tf32", "tf32_unknown", "gpu", "shape", "shape_required", "library")
"""What keeps ops off the Tensor Cores, of which TC303 to TC308 speak."""
WAYS: Final[Mapping[CauseKind | None, str]] = {
    "type": "Do less of this op, or have a compiler fuse it with its neighbours",
    "channels": "Give the convolution more channels, or fewer groups; compute 8 filters and keep the first ones",
    "tc_misaligned": "Make its sizes multiples of 8",
    "tc_tiles": "Change its sizes, or the batch, so that tiles fill and their last wave is full",
    "tc_small": "Give it a larger product: a larger batch, or several products in one",
    "tc_memory": "Move less memory: 16 bits, a larger batch, or fusing it with what follows",
    "tc_slow": "Look at it with Nsight Compute (ncu), which tells what it waits for",
    "tf32_unknown": "Find out whether TF32 was on, and switch it on; small products stay on CUDA cores even so",
    "op_unknown": "Record which op launches it (tcprobe profile; under Nsight Systems its NVTX ranges)",
    "kernels_unknown": "Find out what it does: record ops and layers with it (tcprobe profile), or look at it with "
    "Nsight Compute",
}
WHY: Final[Mapping[CauseKind | None, str]] = {
    "type": "no library has a Tensor Core kernel for ops of its type",
    "channels": "the library has CUDA-core kernels alone for so few channels, or so many groups",
    "tc_misaligned": "it uses Tensor Cores slowly: a contiguous dimension is no multiple of 16 bytes",
    "tc_tiles": "it uses Tensor Cores slowly: tiles or the last wave of them are partly empty",
    "tc_small": "it uses Tensor Cores slowly: the product is too small to fill the GPU",
    "tc_memory": "it uses Tensor Cores slowly: moving the operands takes longer than multiplying them",
    "tc_slow": "it uses Tensor Cores slowly, and nothing that is known of the product tells why",
    "tf32_unknown": "it multiplies float32 on CUDA cores, on a GPU that has TF32",
    "op_unknown": "the source names no op for it",
    "kernels_unknown": "whether it uses Tensor Cores is not known",
}
ALL_LAUNCHES: Final = "Record all of what launches it: no slice of the recording, or a longer window"
"""Where the source names an op for some of its launches alone."""
COMPILED: Final = "Do less of this op: XLA compiled the step already"
TALKS: Final = "Send less between GPUs, in fewer and larger messages, and while they compute"


def _name_ops(kernel: str | None, sixteen_bit: bool, **_: Any) -> Both:
    most: Parts = (", the costliest that multiplies ", Name(kernel)) if kernel else ()
    if sixteen_bit:
        return Both(f"{MULTIPLES}. {NAME_OPS}", ("kernels of unnamed ops compute in 16 bits on CUDA cores", *most))
    return Both(NAME_OPS, ("kernels of unnamed ops ran without Tensor Cores", *most))


def _fuse_kernels(
    framework: str | None, compiled: bool, tiny: float, launches: float, short_ns: float, **f: Any
) -> Both:
    many = f"{tiny:,.0f} of {launches:,.0f} kernels of a step take less than "
    short: Parts = (", and the GPU waits ", Duration(short_ns), " in stretches between kernels") if short_ns else ()
    kernels: Parts = (many, Duration(f["limit_ns"]), " each, ", Duration(f["tiny_ns"]), " in all")
    return Both(DONE if compiled else way(FUSE, framework), (*kernels, *short, ": at most ", *of_step("", **f)))


def _fill_ops(framework: str | None, idle_ns: float, idle_pct: float, **_: Any) -> Both:
    most: Parts = (Share(idle_pct), " of their calls (", Duration(idle_ns), ")")
    return Both(
        way(HOST_WAYS["launch"], framework),
        ("within ops that use it, the GPU is idle for ", *most, ", as the profiler says"),
    )


def _layout(framework: str | None, kept_off: BlockerKind | None, op_type: str | None, convolutions: bool) -> str:
    """Return what to do about a layout: by what keeps the op, around which it changes, off the Tensor Cores."""
    op_type = (op_type or "").lower()
    if not convolutions:
        return way(ONE_ORDER, framework)
    if any(word in op_type for word in TRANSPOSES):
        return ORDER
    if "conv" in op_type and kept_off in NONE_HERE:
        return FIRST
    code = RULE_OF.get(kept_off) if kept_off and "conv" in op_type else None
    return LOWER.format(code=code) if code else way(LAYOUT, framework)


def _keep_layout(framework: str | None, op: str | None, op_type: str | None, line: str, **f: Any) -> Both:
    ways = [_layout(framework, f["kept_off"], op_type, f["convolutions"])] if f["transposes"] else []
    ways += [way(CASTS, framework)] if f["casts"] else []
    what = "change layout and type" if len(ways) > 1 else "change type" if f["casts"] else "change layout"
    kind = f" ({op_type})" if op_type not in (None, op) else ""
    place: Parts = (f["layer"],) if f["has_layer"] else (Name(op), kind) if op else ()
    most: Parts = ()
    if place and f["whole"]:
        most = (", all in ", *place, line)
    elif place and f["op_ns"]:
        most = (", ", Duration(f["op_ns"]), f"{' a step' if f['of_a_step'] else ''} of it in ", *place, line)
    return Both(". ".join(ways), (f"kernels only {what}", *most))


def _change_kernel(kernel: str, cause: CauseKind | None, communicates: bool, unnamed_pct: float, **f: Any) -> Both:
    name = Name(kernel)
    if cause == "op_unknown" and 0 < unnamed_pct < 100:
        of_part = (name, " dominates; the source names no op for ", Share(unnamed_pct), " of its time")
        return Both(ALL_LAUNCHES, of_part)
    at = f" in {f['layer']}{f['line']}" if f["has_layer"] else f["line"]
    most: Parts = (", most of it for ", Name(f["op"]), at) if f["op"] else ()
    if communicates:
        return Both(TALKS, (name, ", which moves data between GPUs, dominates", *most))
    order = COMPILED if cause == "type" and f["compiled"] else WAYS.get(cause, WAYS["kernels_unknown"])
    return Both(order, (name, " dominates", *most, f"; {WHY[cause]}" if cause in WHY else ""))


SAYS: Final[Says] = {
    "name_ops": _name_ops,
    "fuse_kernels": _fuse_kernels,
    "fill_ops": _fill_ops,
    "keep_layout": _keep_layout,
    "change_kernel": _change_kernel,
}


def tc309(run: Run) -> Iterator[Advice]:
    """Yield one item where kernels without Tensor Cores belong to no op that the source names; none of autotuning."""
    if run.facts.unnamed_ns > 0 and run.kernel_ns > 0 and run.tuning is None:
        concern, bound = run.of_kernels(run.facts.unnamed_ns), run.library_bound
        sixteen_bit = bound is not None and 2 * bound.spent_ns >= (concern.at_most_ns or math.inf)
        if bound is not None and sixteen_bit and concern.at_most_ns is not None:
            rest = max(0.0, concern.at_most_ns - bound.spent_ns)
            concern = replace(concern, at_most_ns=rest + bound.gain_ns.high, bound="tile rates")
        kernel = run.facts.unnamed_kernel
        yield Advice("TC309", say("name_ops", kernel=kernel, sixteen_bit=sixteen_bit), concern)


def tc310(run: Run) -> Iterator[Advice]:
    """Yield one item where most kernels of a step are tiny, and they and the waiting between kernels cost time.

    Of a source without kernels and clock, where the GPU is idle for much of the calls of its ops: what that saves of a
    step is not known.
    """
    idle_ns, idle_pct = (run.profile.value(f"ops_idle_{unit}") for unit in ("ns", "pct"))
    if run.waiting is None and idle_pct is not None and idle_pct >= MUCH_IDLE_PCT:
        said: Statement[AdviceKind] = say("fill_ops", framework=run.facts.framework, idle_ns=idle_ns, idle_pct=idle_pct)
        yield Advice("TC310", said, Concern(idle_pct, "op_spans"))
    found, waiting = run.facts.tiny, usual_step(run)
    if found is None or waiting is None or not run.steps:
        return
    tiny, launches = found.tiny / run.steps, found.launches / run.steps
    if tiny < LEAST_TINY or tiny < MANY * launches or "launch" in named_work(run):
        return
    spent, short = run.in_step(found.tiny_ns), run.waits_in_step(run.short_ns)
    concern = saves(waiting, spent + short, "launches", found.tiny_ns / run.steps)
    if concern.share_pct < LEAST_PCT:
        return
    yield Advice(
        "TC310",
        say(
            "fuse_kernels",
            framework=run.facts.framework,
            compiled=run.compiled or found.graphs,
            tiny=tiny,
            launches=launches,
            limit_ns=TINY_NS,
            tiny_ns=found.tiny_ns / run.steps,
            short_ns=short,
            **bounded(concern),
        ),
        concern,
        draws_on=frozenset([LAUNCHES]) | (waiting_of("launch", "queued") if short else frozenset()),
    )


def tc311(run: Run) -> Iterator[Advice]:
    """Yield one item where such kernels take a noticeable part of the kernel time; none of steps with autotuning."""
    found = run.facts.layout
    if found is None or run.kernel_ns <= 0 or run.tuning is not None:
        return
    concern = run.of_kernels(found.ns)
    if concern.share_pct < LEAST_PCT:
        return
    yield Advice(
        "TC311",
        say(
            "keep_layout",
            framework=run.facts.framework,
            transposes=found.ns - found.casts_ns >= MUCH * found.ns,
            casts=found.casts_ns >= MUCH * found.ns,
            has_layer=found.where.layer is not None,
            op=found.where.op,
            op_type=found.op_type,
            convolutions=found.convolutions,
            kept_off=next((op.blocker.kind for op in run.off if op.row["op"] == found.where.op), None),
            whole=found.op_ns >= found.ns,
            op_ns=found.op_ns / run.steps if run.steps else None,
            of_a_step=run.waiting is None or run.waiting.length != "capture",
        ),
        concern,
        found.where,
        draws_on=frozenset([COPIES]) | names_in(found.where),
    )


def tc314(run: Run) -> Iterator[Advice]:
    """Yield one item where a kernel dominates, does not use Tensor Cores well, and is of no op spoken of elsewhere."""
    top = run.facts.top
    if top is None or top.share_pct < DOMINATES_PCT or run.tuning is not None or _spoken_of(run, top):
        return
    concern = run.concern(min(top.share_pct, 100.0), "kernel_time", top.ns)
    if top.communicates:  # its time holds the waiting for the slowest GPU: what of it can go is not known
        concern = replace(concern, at_most_ns=None)
    yield Advice(
        "TC314",
        say(
            "change_kernel",
            kernel=top.name,
            has_layer=top.where.layer is not None,
            op=top.where.op,
            op_type=top.op_type,
            cause=top.cause,
            communicates=top.communicates,
            compiled=run.compiled,
            unnamed_pct=top.unnamed_pct,
        ),
        concern,
        top.where,
        draws_on=names_in(top.where),
    )


def _spoken_of(run: Run, top: TopKernel) -> bool:
    """Return whether there is nothing to say of it, or another item says it."""
    if top.cause in ELSEWHERE or (top.cause in FINE and not top.communicates):
        return True
    if top.where.op is None and not top.communicates:
        # TC309 says it, or nothing is known of it; under ncu the user chose which kernels to look at
        chosen = top.cause == "type" and "serialises_kernels" in run.profile.traits
        return chosen or run.facts.unnamed_ns > 0 or top.uses_tc != "no"
    sized = {row["layer"] for row in (*run.few_filters(), *filter(to_change, run.sizes))}
    if top.where.layer in sized or (run.facts.scaling is not None and top.op_type in ("IsFinite", "All")):
        return True
    return any(
        op.blocker.kind in OF_OPS and op.row["op"] == top.where.op and not VECTOR.search(op.blocker.kernel or "")
        for op in run.off
    )
