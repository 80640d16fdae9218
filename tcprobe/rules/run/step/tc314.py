"""TC314: finds one kernel that dominates, where no other item speaks of its op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run.base import VECTOR, RunSubject, to_change
from tcprobe.rules.run.facts import TopKernel
from tcprobe.schema.advice import Advice
from tcprobe.schema.kinds import BlockerKind, CauseKind
from tcprobe.schema.statement import say

LEAST_PCT: Final = 25.0  # of the kernel time: below that other kernels matter as much
FINE: Final[tuple[CauseKind | None, ...]] = ("tc_well", "none", None)
"""Causes of which there is nothing to say: it uses Tensor Cores, or nobody knows why its time is spent."""
ELSEWHERE: Final[tuple[CauseKind, ...]] = ("layout", "other_step", "gpu", "not_nvidia")
"""Causes of which TC311 and TC305 speak, or of which there is nothing to do."""
OF_OPS: Final[tuple[BlockerKind, ...]] = ("dtype", "tf32", "tf32_unknown", "gpu", "shape", "shape_required", "library")
"""What keeps ops off the Tensor Cores, of which TC303 to TC308 speak."""

DOC: Final = RuleDoc(
    code="TC314",
    name="one-kernel-dominates",
    summary="One kernel takes a quarter of the kernel time or more, and nothing else here speaks of it.",
    explanation=(
        "Where one kernel dominates, nothing else is worth as much. Often it is one op of one layer that a library "
        "runs by a slow kernel, as the weight gradient of a convolution of one filter (TC307), or an element-wise op "
        "over a large tensor. The item names kernel, op, layer and line, why its time is spent so, and what to try.\n\n"
        "A kernel that uses Tensor Cores well is not listed: it is what the time is there for. Neither is one of an op "
        "of which another item speaks."
    ),
    severity="it counts the time of that kernel, at most.",
    bad="tensor = tf.cumsum(large, axis=-1)\n",
    good="tensor = tf.cumsum(large[:, :needed], axis=-1)\n",
    sources=("docs/figures.md: causes of time, and what each rests on",),
)
WAYS: Final[Mapping[CauseKind | None, str]] = {
    "type": "Do less of this op, or have a compiler fuse it with its neighbours",
    "channels": "Give the convolution more channels, or fewer groups; compute 8 filters and keep the first ones",
    "tc_misaligned": "Make its sizes multiples of 8",
    "tc_tiles": "Change its sizes, or the batch, so that tiles fill and their last wave is full",
    "tc_small": "Give it a larger product: a larger batch, or several products in one",
    "tc_memory": "Move less memory: 16 bits, a larger batch, or fusing it with what follows",
    "tc_slow": "Look at it with Nsight Compute (ncu), which tells what it waits for",
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
    "op_unknown": "the source names no op for it",
    "kernels_unknown": "whether it uses Tensor Cores is not known",
}
ALL_LAUNCHES: Final = "Record all of what launches it: no slice of the recording, or a longer window"
"""Where the source names an op for some of its launches alone."""
COMPILED: Final = "Do less of this op: XLA compiled the step already"
TALKS: Final = "Send less between GPUs, in fewer and larger messages, and while they compute"


def _says(fields: Mapping[str, Any]) -> Template:
    cause: CauseKind | None = fields["cause"]
    order = TALKS if fields["communicates"] else WAYS.get(cause, WAYS["kernels_unknown"])
    if cause == "type" and fields["compiled"] and not fields["communicates"]:
        order = COMPILED
    if cause == "op_unknown" and 0 < fields["unnamed_pct"] < 100:
        return ALL_LAUNCHES, "{kernel!n} dominates; the source names no op for {unnamed_pct!p} of its time"
    at = " in {layer}{line}" if fields["has_layer"] else "{line}"
    op = f", most of it for {{op!n}}{at}" if fields["op"] else ""
    if fields["communicates"]:
        return order, f"{{kernel!n}}, which moves data between GPUs, dominates{op}"
    why = f"; {WHY[cause]}" if cause in WHY else ""
    return order, f"{{kernel!n}} dominates{op}{why}"


SAYS: Final[Says] = {"change_kernel": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where a kernel dominates, does not use Tensor Cores well, and is of no op spoken of elsewhere."""
    top = subject.facts.top
    if top is None or top.share_pct < LEAST_PCT or subject.tuning is not None or _spoken_of(subject, top):
        return
    yield Advice(
        DOC.code,
        say(
            "change_kernel",
            kernel=top.name,
            has_layer=top.where.layer is not None,
            op=top.where.op,
            op_type=top.op_type,
            cause=top.cause,
            communicates=top.communicates,
            compiled=subject.compiled,
            unnamed_pct=top.unnamed_pct,
        ),
        subject.concern(min(top.share_pct, 100.0), "kernel_time", top.ns),
        top.where,
        draws_on=frozenset(name for name in (top.where.op, top.where.layer) if name),
    )


def _spoken_of(subject: RunSubject, top: TopKernel) -> bool:
    """Return whether there is nothing to say of it, or another item says it."""
    if top.cause in ELSEWHERE or (top.cause in FINE and not top.communicates):
        return True
    if top.where.op is None and not top.communicates:
        return subject.unnamed_ns > 0 or top.uses_tc != "no"  # TC309 says it, or nothing is known of it
    sized = {row["layer"] for row in (*subject.few_filters(), *filter(to_change, subject.sizes))}
    if top.where.layer in sized or (subject.facts.scaling is not None and top.op_type in ("IsFinite", "All")):
        return True
    return any(
        op.blocker.kind in OF_OPS and op.row["op"] == top.where.op and not VECTOR.search(op.blocker.kernel or "")
        for op in subject.off
    )
