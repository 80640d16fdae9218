"""Say why the time of the counted steps is spent as it is: a cause for every kernel, op, layer and GPU.

Tell causes by kernels' own names and counters: of kernels of no op, and of Tensor Core kernels without shapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from tcprobe.analysis.capability import NONE, dtype_blocker
from tcprobe.analysis.causes.bar import Split, around_ns, build_causes, off_of_steps, split_of
from tcprobe.analysis.causes.kernels import (
    WELL_PCT,
    Kernel,
    Kernels,
    OpFacts,
    Speed,
    Speeds,
    by_op,
    few_of,
    few_of_gradients,
    kernels_of,
    layout_ns,
    set_causes,
)
from tcprobe.analysis.context import tf32_asked
from tcprobe.analysis.kernels.counters import Counters
from tcprobe.analysis.kernels.details import details_of
from tcprobe.analysis.kernels.kinds import part_of, transforms
from tcprobe.analysis.kernels.table import Device, devices_of
from tcprobe.analysis.kernels.verdict import by_name, may_multiply
from tcprobe.analysis.ops.gemms import NO_LAYER
from tcprobe.analysis.ops.table import NO_OP, OpIdentity, identity_of
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.gemm.record import is_aligned
from tcprobe.hardware import Capability
from tcprobe.rules.model.step import KnownGpu
from tcprobe.rules.words import short_name
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import PRODUCTS, CauseKind
from tcprobe.schema.profile import Profile

# precision of a kernel -> dtype of its op
_DTYPES: Final = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64", "int8": "int8",
    "fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn",
}  # fmt: skip
# The least compute capability of a GPU that runs a kernel built for these; older kernels run on any GPU
_PROVES: Final[dict[str, Capability]] = {
    "ampere": (8, 0), "ada": (8, 9), "hopper": (9, 0), "blackwell": (10, 0),
}  # fmt: skip


def set_causes_by_name(kernels: Sequence[Kernel], profile: Profile) -> None:
    """Set the causes that no op tells: why a product is off the Tensor Cores, and how well others use them.

    Args:
        kernels: with the causes that their ops tell.
        profile: for its GPUs and counters.
    """
    devices, counters, tf32 = devices_of(profile), Counters.of(profile), tf32_asked(profile)
    only = next(iter(devices.values())) if len(devices) == 1 else Device()
    proved: dict[int | None, Capability] = {}
    for kernel in kernels:
        if least := _PROVES.get(details_of(kernel.name).generation or ""):
            proved[kernel.device] = max(least, proved.get(kernel.device, least))
    rounded = {(one.device, one.kind) for one in kernels if one.precision == "tf32" and one.uses_tc == "yes"}
    for kernel in kernels:
        least = proved.get(kernel.device)
        if kernel.cause == "op_unknown" or (kernel.cause == "gpu_unknown" and kernel.kind in PRODUCTS and least):
            device = only if kernel.device is None else devices.get(kernel.device, only)
            # a product in TF32 ran: it is allowed for its kind, and the library that chose float32 had the choice
            rounds = True if (kernel.device, kernel.kind) in rounded else tf32
            kernel.cause = _without_op(kernel, device, least, rounds)
        elif kernel.cause == "none" and kernel.uses_tc == "yes":
            kernel.cause = _on_tensor_cores(kernel, counters)
    _set_causes_of_transforms(kernels)
    _set_causes_of_helpers(kernels)


def _set_causes_of_helpers(kernels: Sequence[Kernel]) -> None:
    """Count helpers of no op with the products on Tensor Cores, on GPUs on which all products are there."""
    multiply = [one for one in kernels if one.kind in PRODUCTS or (one.kind == "unknown" and one.uses_tc != "no")]
    off = {one.device for one in multiply if one.uses_tc != "yes"}
    on = {one.device for one in multiply} - off
    for kernel in kernels:
        if kernel.cause == "op_unknown" and kernel.kind == "helper" and kernel.device in on:
            kernel.cause = "none"


def _set_causes_of_transforms(kernels: Sequence[Kernel]) -> None:
    """Give what only transforms operands of convolutions (im2col, Winograd, FFT) the cause of the GPU's costliest one.

    That is of convolutions without op off the Tensor Cores; where none is known, they stay unknown.
    """
    costliest: dict[int | None, Kernel] = {}
    for kernel in kernels:
        if kernel.op[0] == NO_OP and kernel.kind == "convolution" and kernel.uses_tc == "no":
            costliest[kernel.device] = max(kernel, costliest.get(kernel.device, kernel), key=lambda one: one.rank)
    for kernel in kernels:
        if kernel.cause == "op_unknown" and kernel.kind == "helper" and transforms(kernel.name):
            kernel.cause = costliest[kernel.device].cause if kernel.device in costliest else "op_unknown"


def _without_op(kernel: Kernel, device: Device, proved: Capability | None, tf32: bool | None) -> CauseKind:
    """Return why a kernel of no op does not use Tensor Cores, as far as its name and the GPU tell.

    Args:
        kernel: of class no or unknown.
        device: that ran it.
        proved: least compute capability of that GPU, by the kernels that it ran.
        tf32: whether float32 may be rounded to TF32.
    """
    if kernel.uses_tc == "unknown":
        return "kernels_unknown"
    if kernel.kind not in PRODUCTS:
        if device.tensor_cores != "no" and _is_layout_of_cudnn(kernel.name):
            return "layout"
        unknown = kernel.kind == "unknown" and may_multiply(by_name(kernel.name))
        return "op_unknown" if unknown or kernel.kind == "helper" else "type"
    if device.vendor is not None and device.vendor.lower() != "nvidia":
        return "not_nvidia"
    if device.tensor_cores == "no":
        return "gpu"
    capability = device.capability or proved
    if capability is None:
        return "gpu_unknown"
    blocker = dtype_blocker(_DTYPES.get(kernel.precision or ""), device.gpu, capability, tf32)
    if device.capability is None and blocker.kind == "dtype":
        return "gpu_unknown"  # a later GPU may take it
    return "library" if blocker == NONE else blocker.kind


def _is_layout_of_cudnn(name: str) -> bool:
    """Say whether a kernel is cuDNN's own change of layout, which it launches around its convolutions alone."""
    return details_of(name).library == "cudnn" and part_of(name) == "layout"


def _on_tensor_cores(kernel: Kernel, counters: Counters) -> CauseKind:
    """Return how well a kernel uses Tensor Cores, by its counters, else by the alignment in its name."""
    active = counters.pipe_pct(kernel.name, kernel.device)
    if active is not None and active >= WELL_PCT:
        return "tc_well"
    if misaligned(kernel):
        return "tc_misaligned"
    return "none" if active is None else "tc_slow"


def misaligned(kernel: Kernel) -> bool:
    """Say whether a Tensor Core kernel loads less than 16 bytes at once: the library had to choose it for a size.

    Those of float64 always load 8.
    """
    return (
        kernel.precision != "fp64"
        and is_aligned(details_of(kernel.name).alignment, _DTYPES.get(kernel.precision or "")) is False
    )


def with_causes(profile: Profile, inputs: SummaryInputs, gpu: KnownGpu, judged: JudgedStep | None = None) -> Profile:
    """Add causes, rates and parts of the window to `kernels`, `ops`, `gemms`, `layers`; and tables `causes`, `kinds`.

    Args:
        profile: with all other derived tables.
        inputs: what the summary was computed from.
        gpu: the GPU to predict for.
        judged: the products of a step with their costs; None where there are none.
    """
    table, ops = profile.table("kernels"), profile.require("ops")
    reason = "the source has no kernel times"
    if table is None or not len(table):
        reason = profile.absent.get("kernels", reason)
        return profile.with_absent(causes=reason, kinds=reason)
    rows: dict[OpIdentity, Row] = {identity_of(row): row for row in ops.rows()}
    every = kernels_of(table, rows)
    kernels = by_op(every)
    speeds = Speeds(inputs, gpu, layout_ns(kernels), judged)
    facts = few_of_gradients({op: _facts(op, row, speeds) for op, row in rows.items()})
    set_causes(kernels, facts)
    set_causes_by_name(every, profile)
    split, around = split_of(profile, every, inputs.launched), around_ns(kernels, rows)
    made = {op: {**_op(facts[op], kernels.get(op, ()), split), "around_ns": around.get(op)} for op in rows}
    tables = [table.with_columns(cause=[one.cause for one in every])]
    if any(one.ns is not None for one in every):
        tables += build_causes(profile, every, split, rows)
    else:
        profile = profile.with_absent(causes=reason, kinds=reason)
    if made:
        tables.append(Table.from_rows(ops.spec, [*made.values()]))
    if len(steps := profile.require("iterations")) and inputs.launched is not None:
        tables.append(steps.with_columns(off_ns=off_of_steps(profile, every, inputs.launched)))
    if (gemms := profile.table("gemms")) is not None:
        tables.append(_gemms(gemms, made, speeds, inputs))
    if (layers := profile.table("layers")) is not None:
        tables.append(_layers(layers, made, kernels, speeds, inputs))
    return profile.with_tables(*tables)


def _facts(op: OpIdentity, row: Row, speeds: Speeds) -> OpFacts:
    speed, record = speeds.facts(op)
    return OpFacts(row, speed, few_of(record, op[1]), op in speeds.odd)


def _op(fact: OpFacts, kernels: Sequence[Kernel], split: Split | None) -> Row:
    """Return a row of `ops` with the cause of most of its time, layout changes apart, and its part of the window."""
    members = defaultdict[str, list[Kernel]](list)
    for kernel in kernels:
        members[kernel.cause].append(kernel)
    causes: Collection[str] = members.keys() - {"layout"} or members.keys()
    cause = min(causes, key=lambda one: (-sum(k.ns or 0 for k in members[one]), one), default=None)
    speed, part = fact.speed, None if split is None else split.ops.get(identity_of(fact.row), 0)
    row: Row = {**fact.row, "cause": cause, "split_ns": part}
    if speed is not None:
        row |= {**speed.columns(), "predicted_ns": speed.predicted_ns, "flop_per_byte": speed.flop_per_byte}
    if cause is not None and cause not in ("type", "op_unknown"):
        row["cause_kernel"] = short_name(max(members[cause], key=lambda one: one.rank).name)
    if cause == "channels" and fact.few is not None:
        row |= {"cause_dimension": fact.few.dimension, "cause_size": fact.few.size}
    elif speed is not None and cause == speed.cause:
        row |= {"cause_dimension": speed.dimension, "cause_size": speed.size}
        if cause in ("tc_tiles", "tc_small"):
            row |= {"tile": speed.tile, "waves": speed.waves}
    return row


def _gemms(gemms: Table, ops: dict[OpIdentity, Row], speeds: Speeds, inputs: SummaryInputs) -> Table:
    """Add to each product its rate, and the cause and kernel of the op that it is, of several the costliest."""
    by_number: dict[int, Row] = {}
    for op, row in sorted(ops.items(), key=lambda item: -float(item[1]["sum_ns"] or 0)):
        if op in speeds.numbers:
            by_number.setdefault(speeds.numbers[op], row)
    columns: dict[str, list[Value]] = {}
    for number in inputs.gemms.records:
        of_op, speed = by_number.get(number, {}), speeds.by_number.get(number)
        rate: Row = dict.fromkeys(("achieved_tflop_per_s", "peak_pct", "limit")) if speed is None else speed.columns()
        rate |= {"cause": of_op.get("cause"), "kernel": of_op.get("cause_kernel")}
        for name, value in rate.items():
            columns.setdefault(name, []).append(value)
    return gemms.with_columns(**columns)


def _layers(
    layers: Table, ops: dict[OpIdentity, Row], kernels: Kernels, speeds: Speeds, inputs: SummaryInputs
) -> Table:
    """Add to each layer the cause of most of its capable ops' time, its rate, and its part of the window."""
    members = defaultdict[str, list[OpIdentity]](list)
    for op, row in ops.items():
        members[str(row["layer"] or NO_LAYER)].append(op)
    products = defaultdict[str, set[int]](set)
    for number, layer in zip(inputs.gemms.records, inputs.gemms.table.values("layer"), strict=True):
        products[str(layer or NO_LAYER)].add(number)
    made: list[Row] = []
    for row in layers.rows():
        layer = str(row["layer"])
        spent = defaultdict[str, int](int)
        for op in members[layer]:
            for kernel in kernels.get(op, ()) if ops[op]["tc_capable"] == "yes" else ():
                if kernel.cause != "layout":
                    spent[kernel.cause] += kernel.ns or 0
        cause = min(spent, key=lambda one: (-spent[one], one), default=None)
        rate = _rate([speeds.by_number[number] for number in products[layer] if number in speeds.by_number])
        splits, around = ([ops[op][name] for op in members[layer]] for name in ("split_ns", "around_ns"))
        made.append({
            **row, **rate, "cause": cause, "cause_ns": None if cause is None else spent[cause],
            "split_ns": None if not splits or None in splits else sum(int(ns or 0) for ns in splits),
            "around_ns": sum(int(ns or 0) for ns in around) if {*around} - {None} else None,
        })  # fmt: skip
    return Table.from_rows(layers.spec, made)


def _rate(speeds: Sequence[Speed]) -> Row:
    """Return the rate of several products together; NA where one of them is a lower bound or has no peak."""
    if not speeds or any(speed.at_least for speed in speeds):
        return {}
    ideal = [speed.ideal_ns for speed in speeds]
    limits = {speed.limit for speed in speeds}
    together = Speed(
        sum(speed.flops for speed in speeds),
        sum(speed.ns for speed in speeds),
        None if None in ideal else sum(ns or 0.0 for ns in ideal),
        limit=limits.pop() if len(limits) == 1 else None,
    )
    return together.columns()
