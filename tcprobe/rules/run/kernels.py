"""TC309-311, TC314, TC318-320: kernels of no named op, tiny ones, changes of layout, chains, waves and alignment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.formatting import duration, many, percent, shorten, whole_percent
from tcprobe.rules.run.base import TINY_NS, VECTOR, ChainWork, Run, RunSays, TopKernel, names_in, to_change
from tcprobe.rules.run.waiting import FEWER, LONGER, bounded, named_work, of_step, saves, usual_step, waiting_of
from tcprobe.rules.words import NAME_WIDTH, Act, Ways, listed, short_name, way
from tcprobe.schema.advice import COPIES, LAUNCHES, Advice, AdviceKind, Concern
from tcprobe.schema.kinds import BlockerKind, CauseKind, KernelKind
from tcprobe.schema.statement import Statement, say

LEAST_PCT: Final = 5.0  # of the kernel time
MOST_KINDS: Final = 3  # that the sentence names
FUSE: Final[Ways] = {
    None: ("a compiler",),
    "tensorflow": ("jit_compile=True",),
    "pytorch": ("torch.compile",),
    "jax": ("jax.jit of the whole step",),
}
PLURALS: Final[dict[KernelKind, str]] = {
    "elementwise": "elementwise kernels", "copy": "copies", "normalisation": "norms", "softmax": "softmax",
    "reduction": "reductions", "random": "random numbers",
}  # fmt: skip


def _fuse_chain(
    _: Advice, framework: str | None, kinds: tuple[KernelKind, ...], launches: float, chains: float, **f: Any
) -> Act:
    norm = ("a fused norm",) if "normalisation" in kinds and framework in (None, "pytorch") else ()
    when = f"{' a GPU' if f['gpus'] > 1 else ''}{' a step' if f['of_a_step'] else ''}"
    why = [f"{launches:,.0f} launches{when}, one after the other in {chains:,.0f} chains"]
    why.append(listed(PLURALS[kind] for kind in kinds[:MOST_KINDS]))
    if f["moved_bytes"]:
        why.append(
            f"up to {100.0 * f['again_bytes'] / f['moved_bytes']:.0f} % of the bytes moved only pass between them"
        )
    return Act("Fuse elementwise ops", (*way(FUSE, framework), *norm), tuple(why))


def _said_of_launches(run: Run, found: ChainWork) -> bool:
    """Return whether these kernels are tiny, and TC301 or TC310 says already that a compiler fuses such kernels."""
    tiny = found.ns < TINY_NS * found.launches
    return tiny and ("launch" in named_work(run) or any(True for _ in tc310(run)))


def tc318(run: Run) -> Iterator[Advice]:
    """Yield one item where such chains take a noticeable part of the kernel time; none of steps with autotuning."""
    found = run.facts.chains
    if found is None or run.kernel_ns <= 0 or run.tuning is not None or run.compiled:
        return
    share = 100.0 * found.ns / run.kernel_ns
    if share < LEAST_PCT or _said_of_launches(run, found):
        return
    concern = run.part_of(found.ns, found.at_most_ns, "bandwidth" if found.at_most_ns < found.ns else "kernel time")
    steps = (run.steps or 1.0) * run.gpus
    yield Advice(
        "TC318",
        say(
            "fuse_chain",
            framework=run.facts.framework,
            kinds=found.kinds,
            launches=found.launches / steps,
            chains=found.chains / steps,
            gpus=run.gpus,
            moved_bytes=found.moved_bytes,
            again_bytes=found.again_bytes,
            of_a_step=run.steps is not None and (run.waiting is None or run.waiting.length != "capture"),
        ),
        concern,
        found.where,
        draws_on=found.ops | {LAUNCHES} | ({COPIES} if "copy" in found.kinds else set()),
    )


ALIGN: Final = ("views and leading dimensions too", "tcprobe profile or NVTX ranges with shapes tell which")


def _fill_waves(_: Advice, kernel: str, waves: float, blocks_per_sm: int, tile: str) -> Act:
    each = f"{many(blocks_per_sm, 'block')} of {tile} on each SM"
    why = f"{waves:.2f} waves of {each}: the last is partly empty, above all of {shorten(kernel, NAME_WIDTH)}"
    return Act("Fill the last wave of blocks", ("batch or sizes", "larger products"), (why,))


def _align_kernel(_: Advice, kernel: str, alignment: int, rate_pct: int, timed: str) -> Act:
    loads = f"{short_name(kernel)} loads {many(alignment, 'element')} at once"
    rate = f"large products of such sizes were timed at {rate_pct} % of an aligned one's rate ({timed})"
    return Act("Align the odd sizes: multiples of 8 (TF32: 4)", ALIGN, (loads, rate))


def tc319(run: Run) -> Iterator[Advice]:
    """Yield one item where the empty part of last waves may take a noticeable part of the kernel time."""
    found = run.facts.tail
    if found is None or run.kernel_ns <= 0 or run.tuning is not None or 100.0 * found.ns < LEAST_PCT * run.kernel_ns:
        return
    concern = run.part_of(found.ns, found.ns, "full waves")
    said: Statement[AdviceKind] = say(
        "fill_waves", kernel=found.kernel, waves=found.waves, blocks_per_sm=found.blocks_per_sm, tile=found.tile
    )
    yield Advice("TC319", said, concern, found.where, draws_on=names_in(found.where))


def tc320(run: Run) -> Iterator[Advice]:
    """Yield one item where Tensor Core kernels of no op are misaligned; TC306 speaks of those with shapes."""
    found = run.facts.misaligned
    if found is None or run.kernel_ns <= 0 or run.tuning is not None:
        return
    concern = run.part_of(found.ns, found.at_most_ns, "aligned rates")
    said: Statement[AdviceKind] = say(
        "align_kernel", kernel=found.kernel, alignment=found.alignment, rate_pct=found.rate_pct, timed=found.timed
    )
    yield Advice("TC320", said, concern)


LEAST_TINY: Final = 50  # tiny kernels in a step: fewer take less than a millisecond of launches
MUCH_IDLE_PCT: Final = 25.0  # of the calls of ops on the GPU
MANY: Final = 0.5  # of the launches
DOMINATES_PCT: Final = 25.0  # of the kernel time: below that other kernels matter as much
MUCH: Final = 0.25  # of this time: from here on both remedies are named
LAYOUT: Final[Ways] = {
    None: (),
    "tensorflow": ("data_format='channels_last'",),
    "pytorch": ("memory_format=torch.channels_last, of model and batches",),
}
CASTS: Final[Ways] = {
    None: (),
    "tensorflow": ("a float32 layer among float16 ones casts twice", "batches in the type of the first layer"),
}
TRANSPOSES: Final = ("transpose", "permute", "contiguous")
RULE_OF: Final[Mapping[BlockerKind, str]] = {"dtype": "TC303", "tf32": "TC304", "tf32_unknown": "TC304"}
NONE_HERE: Final[tuple[BlockerKind, ...]] = ("gpu", "not_nvidia")
FINE: Final[tuple[CauseKind | None, ...]] = ("tc_well", "none", None)
"""Causes of which there is nothing to say: it uses Tensor Cores, or nobody knows why its time is spent."""
ELSEWHERE: Final[tuple[CauseKind, ...]] = ("layout", "other_step", "gpu", "not_nvidia")
"""Causes of which TC311 and TC305 speak, or of which there is nothing to do."""
OF_OPS: Final[tuple[BlockerKind, ...]] = ("dtype", "tf32", "tf32_unknown", "gpu", "shape", "shape_required", "library")
"""What keeps ops off the Tensor Cores, of which TC303 to TC308 speak."""
RECORD: Final = ("tcprobe profile", "NVTX ranges under Nsight Systems", "all reports of DLProf in its framework mode")
"""What names the ops of kernels."""
SLOWLY: Final = "it uses Tensor Cores slowly: "
UNSEEN: Final = "Find out what it does: Nsight Compute"
TOP: Final[Mapping[CauseKind | None, tuple[str, str]]] = {
    "type": (
        "Fewer of these kernels, or fuse them",
        "no library has a Tensor Core kernel for ops of its type",
    ),
    "channels": (
        "More channels, or fewer groups",
        "the library has CUDA-core kernels alone for so few channels, or so many groups",
    ),
    "tc_misaligned": (
        "Make its sizes multiples of 8",
        f"{SLOWLY}a contiguous dimension is no multiple of 16 bytes",
    ),
    "tc_tiles": (
        "Change its sizes or the batch: fill the tiles",
        f"{SLOWLY}tiles or the last wave of them are partly empty",
    ),
    "tc_small": (
        "Give it larger products: a larger batch",
        f"{SLOWLY}the product is too small to fill the GPU",
    ),
    "tc_memory": (
        "Move less memory: 16 bits, or fuse it",
        f"{SLOWLY}moving the operands takes longer than multiplying them",
    ),
    "tc_slow": ("Look at it with Nsight Compute", f"{SLOWLY}nothing that is known of the product tells why"),
    "tf32_unknown": ("Turn TF32 on, if it was off", "it multiplies float32 on CUDA cores, on a GPU that has TF32"),
    "op_unknown": ("Record which op launches it", "the source names no op for it"),
    "kernels_unknown": (UNSEEN, "whether it uses Tensor Cores is not known"),
}
"""What to do about a kernel that dominates, and what is known of it."""


def _name_ops(_: Advice, kernel: str | None, sixteen_bit: bool) -> Act:
    if sixteen_bit:
        why = f"16-bit kernels on CUDA cores{f': {short_name(kernel)}' if kernel else ''}"
        return Act(
            "Channels last, channels in multiples of 8", (), (why, f"which ops they are of: {' or '.join(RECORD[:2])}")
        )
    most = f" (costliest: {shorten(kernel, NAME_WIDTH)})" if kernel else ""
    why = f"kernels without an op name{most} ran without Tensor Cores"
    return Act("Record which ops these kernels belong to", RECORD, (why,))


def _fuse_kernels(_: Advice, framework: str | None, compiled: bool, tiny: float, launches: float, **f: Any) -> Act:
    paced = f"the GPU waits {duration(f['launching_ns'])} for launches" if f["launching_ns"] else ""
    tiny_ns = f", {duration(f['tiny_ns'])} in all"
    few = f"{tiny:,.0f} of {launches:,.0f} kernels take under {duration(f['limit_ns'])}{tiny_ns}"
    why = tuple(filter(None, (few, paced, of_step(**f))))
    if compiled:
        return Act("More work for each kernel", ("a larger batch", "wider layers"), why)
    return Act(FEWER, way(LONGER, framework), why)


def _fill_ops(_: Advice, framework: str | None, idle_ns: float, idle_pct: float) -> Act:
    why = f"the GPU is idle {whole_percent(idle_pct)} of the calls of ops; what that saves is unknown"
    return Act(FEWER, way(LONGER, framework), (why, f"{duration(idle_ns)} in all"))


def _keep_layout(
    item: Advice, framework: str | None, op_type: str | None, casts: bool, transposes: bool, **f: Any
) -> Act:
    kind, kept_off = (op_type or "").lower(), f["kept_off"]
    code = RULE_OF.get(kept_off) if "conv" in kind else None
    ways, also = way(CASTS, framework) if casts else (), " and one precision" if casts else ""
    if not transposes:
        title = "One precision, so that nothing is cast"
    elif not f["convolutions"] or any(word in kind for word in TRANSPOSES):
        title = f"Keep one order of dimensions{also}"
    elif "conv" in kind and kept_off in NONE_HERE:
        title = "Keep images with channels first (NCHW)"
    elif code:
        title, ways = f"Changes of layout: look again after {code}", ()
    else:
        title, ways = "Keep images with channels last (NHWC)", (*way(LAYOUT, framework), *ways)
    what = "layout and type" if transposes and casts else "type" if casts else "layout"
    place = item.where.layer or (item.where.op and shorten(item.where.op, NAME_WIDTH))
    part = f", {duration(f['op_ns'])}{' a step' if f['of_a_step'] else ''}" if f["op_ns"] else ""
    why = f"all in {place}" if f["whole"] else f"costliest: {place}{part}"
    turned = "convolutions off the Tensor Cores run with channels first, and their images are converted" if code else ""
    return Act(title, ways, tuple(filter(None, (why if place else "", f"kernels only change {what}", turned))))


def _change_kernel(
    _: Advice, kernel: str, cause: CauseKind | None, communicates: bool, compiled: bool, **f: Any
) -> Act:
    dominates, unnamed_pct = f"{short_name(kernel)} dominates", f["unnamed_pct"]
    if cause == "op_unknown" and 0 < unnamed_pct < 100:
        part = f"the source names no op for {percent(unnamed_pct)} of its time"
        return Act("Record all of what launches it", ("no slice", "a longer window"), (dominates, part))
    if communicates:
        return Act("Send less between GPUs, and while they compute", ("fewer and larger messages",), (dominates,))
    title, why = TOP.get(cause, (UNSEEN, ""))
    if cause == "type" and compiled:
        title, why = "Fewer of these kernels", f"{why}; XLA compiled the step already"
    return Act(title, (), tuple(filter(None, (dominates, why))))


SAYS: Final[RunSays] = {
    "name_ops": _name_ops,
    "fuse_kernels": _fuse_kernels,
    "fill_ops": _fill_ops,
    "keep_layout": _keep_layout,
    "change_kernel": _change_kernel,
    "fuse_chain": _fuse_chain,
    "fill_waves": _fill_waves,
    "align_kernel": _align_kernel,
}


def tc309(run: Run) -> Iterator[Advice]:
    """Yield one item where kernels without Tensor Cores belong to no op that the source names; none of autotuning."""
    sixteen_bit = run.lowered == "tensor_cores"  # of another precision TC303 and TC304 speak
    if run.facts.unnamed_ns > 0 and run.kernel_ns > 0 and run.tuning is None and (sixteen_bit or not run.lowered):
        concern = run.unnamed("tensor_cores") or run.of_kernels(run.facts.unnamed_ns)
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
    spent, paced = run.in_step(found.tiny_ns), run.waits_in_step(run.launching_ns)
    concern = saves(waiting, spent + paced, "launches", found.tiny_ns / run.steps)
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
            launching_ns=paced,
            **bounded(concern),
        ),
        concern,
        draws_on=frozenset([LAUNCHES]) | (waiting_of("launch", "queued") if paced else frozenset()),
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
