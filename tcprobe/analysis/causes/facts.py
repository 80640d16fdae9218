"""What the rules on runs read beside the tables: kernels that stand out, layouts, loss scaling, warm-up, memory."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.causes.losses import diverged, loss_scaling
from tcprobe.analysis.context import forbids_tf32, identified, parse_capability
from tcprobe.analysis.iterations import counted
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.analysis.phases import leading_slow
from tcprobe.cost.alignment import RATE_FAMILIES, slowest_published
from tcprobe.gemm.ops import conv_like
from tcprobe.hardware import Gpu
from tcprobe.rules.run.base import (
    TINY_NS,
    ChainWork,
    Facts,
    LayoutWork,
    MemoryUse,
    Misaligned,
    Tail,
    Tf32Off,
    TinyKernels,
    TopKernel,
    WarmUp,
    summed,
)
from tcprobe.rules.words import Framework, framework_of
from tcprobe.schema.advice import Where
from tcprobe.schema.columns import FloatArray, Row, Table
from tcprobe.schema.kinds import PRODUCTS, CauseKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of

K = TypeVar("K")
CASTS: Final = ("Cast", "convert", "aten::to", "aten::_to_copy")
"""Types of ops that change the type of numbers: of TensorFlow, XLA and PyTorch."""
TRANSPOSES: Final = ("Transpose", "transpose", "aten::contiguous", "aten::transpose", "aten::permute")
"""Likewise, of ops that change the order of dimensions."""
COPIES: Final = "aten::copy_"
"""PyTorch's casts and changes of layout (.to(), .contiguous()) all launch their kernels here; what keeps both is a copy
of memory, and no kernel."""
_CONVOLVES: Final = re.compile(r"(?i:conv(?!er)|nchw|nhwc|winograd)|(?<![A-Za-z])(?:fprop|[dw]grad)")
"""Convolutions of cuDNN and CUTLASS, and what cuDNN runs around them, by a kernel's name; no conversion."""
_COPIES: Final = re.compile(r"(?:direct|b?float\d+)_copy_kernel")
_CASTS: Final = re.compile(r"b?float\d+_copy_kernel|LoadWithCast|StoreWithCast")  # aten/src/ATen/native/cuda/Copy.cu
_OF_PRODUCTS: Final = frozenset({*PRODUCTS, "helper", "unknown"})
"""Kinds of kernels that may be of a product, which could use Tensor Cores."""
_BYTES: Final = ("moved_bytes", "again_bytes")
_TYPES: Final[dict[Framework, re.Pattern[str]]] = {
    "pytorch": re.compile(r"(?:aten|c10d)::\w+"),
    "tensorflow": re.compile(
        r"Resource(?:Sparse)?Apply\w+|(?:Assign\w*|Read)VariableOp|_Fused(?:Conv2D|MatMul)|FusedBatchNorm(?:Grad)?V\d"
        r"|(?:Depthwise)?Conv[23]D(?:Native)?Backprop\w+|BiasAddGrad|_?XlaRun"
    ),
}
"""Types of ops that no other framework has. ONNX has MatMul and Conv too: they tell nothing."""
_KERNELS: Final[dict[Framework, re.Pattern[str]]] = {
    "pytorch": re.compile(r"\bat::native::"),
    "tensorflow": re.compile(r"\btensorflow::"),
}
"""Names of kernels that a framework brings itself; of a source without ops they tell as much."""
_JAX: Final = re.compile(r"(?:p?jit|pmap|xmap)\(")
"""How JAX begins the names of what it compiles: ``jit(train_step)/jit(main)/dot_general``."""


def facts_of(profile: Profile) -> Facts:
    """Return what the rules read of an analysed profile beside its tables."""
    steps = profile.counted_steps or profile.value("iterations_in_window")
    unnamed_ns, unnamed_kernel = unnamed(profile)
    chains = chain_work(profile)
    return Facts(
        tiny=tiny_kernels(profile),
        layout=layout_work(profile),
        scaling=loss_scaling(profile),
        diverged=diverged(profile),
        warm_up=warm_up(profile, None if steps is None else round(steps)),
        top=top_kernel(profile),
        memory=memory_use(profile),
        small_ns=small_ns(profile),
        epoch_steps=epoch_steps(profile, steps),
        tf32_off=tf32_off(profile),
        gpu=_gpu(profile),
        framework=framework(profile),
        unnamed_ns=unnamed_ns,
        unnamed_kernel=unnamed_kernel,
        chains=chains,
        tail=tail(profile),
        misaligned=misaligned_work(profile),
    )


def sums_of(keys: Iterable[K], times: FloatArray) -> dict[K, float]:
    """Return the sum of the times of each key."""
    sums = dict[K, float]()
    for key, ns in zip(keys, times.tolist(), strict=True):
        sums[key] = sums.get(key, 0.0) + ns
    return sums


def costliest(sums: dict[K, float]) -> K:
    """Return the key with the largest sum; of equal ones the first by name."""

    def rank(key: K) -> tuple[float, list[Any]]:
        names = key if isinstance(key, tuple) else (key,)
        return -sums[key], [name or "" for name in names]

    return min(sums, key=rank)


def framework(profile: Profile) -> Framework | None:
    """Return what the user's code is written with; None where neither the source nor the ops tell, or ops disagree."""
    if (name := profile.metadata.framework) is not None:
        return framework_of(name)
    ops = profile.require("ops")
    ran = ops.take(ops.numbers("sum_ns") > 0)  # of ops without kernels, a loader of data may have run some
    types, names = ({str(name) for name in ran.names(column).tolist()} for column in ("op_type", "op"))
    named = [name for name, pattern in _TYPES.items() if any(map(pattern.fullmatch, types))]
    named += ["jax"] if any(map(_JAX.match, names)) else []
    if not named:
        kernels = {str(name) for name in profile.require("kernels").names("kernel").names}
        named = [name for name, pattern in _KERNELS.items() if any(map(pattern.search, kernels))]
    return named[0] if len(named) == 1 else None


def tiny_kernels(profile: Profile) -> TinyKernels | None:
    """Return the launches of the window; None where neither launches nor calls of kernels are known."""
    launches = profile.require("launches")
    if len(launches):
        mine = counted(profile.metadata.window, launches.numbers("iteration"))
        spent = launches.numbers("duration_ns")[mine]
        short, graphs = spent < TINY_NS, ~np.isnan(launches.numbers("cuda_graph")[mine])
        tiny = float(short.sum()), float(spent[short].sum())
        return TinyKernels(len(spent), *tiny, bool(2 * graphs.sum() > len(spent))) if len(spent) else None
    kernels = profile.require("kernels")
    calls, sums = kernels.numbers("calls"), kernels.numbers("sum_ns")
    if not len(kernels) or np.isnan(calls).any() or np.isnan(sums).any() or not calls.sum() > 0:
        return None
    short = sums < TINY_NS * calls
    return TinyKernels(float(calls.sum()), float(calls[short].sum()), float(sums[short].sum()))


class _Place(NamedTuple):
    """Where kernels stand: the op, its type, its row of `ops` (None without one), and the time in it."""

    where: Where
    op_type: str | None
    row: Row | None
    ns: float


def _costliest_op(profile: Profile, kernels: Table, spent: FloatArray) -> _Place:
    """Return the op in which rows of `kernels` spend most of their times; of equal ones the first by name."""
    pairs = zip(kernels.names("op").tolist(), kernels.names("op_type").tolist(), strict=True)
    sums = sums_of(pairs, spent)
    op, op_type = key = costliest(sums)
    if op is None:
        return _Place(Where(), op_type, None, sums[key])
    ops = profile.require("ops")
    for row in ops.take(ops.names("op").among(op)).rows():
        if op_type is None or row["op_type"] == op_type:
            line = row["source"] or row["called_from"]
            where = Where(text_of(row["layer"]), op, text_of(row["pass"]), text_of(line))
            return _Place(where, op_type, row, sums[key])
    return _Place(Where(op=op), op_type, None, sums[key])


def top_kernel(profile: Profile) -> TopKernel | None:
    """Return the kernel, by its name alone, that takes most of the time of all.

    None where no time is known, or where another vendor's GPU ran: nothing that tcprobe knows of kernels holds there.
    """
    if not {gpu["vendor"] for gpu in profile.active_gpus} <= {None, "Nvidia"}:
        return None
    kernels = profile.require("kernels")
    names, times = kernels.names("kernel"), np.nan_to_num(kernels.numbers("sum_ns"))
    total = float(times.sum())
    if not total > 0:
        return None
    name = str(costliest(sums_of(names.tolist(), times)))
    mine = names.among(name) & (times > 0)
    table, spent = kernels.take(mine), times[mine]
    ns = float(spent.sum())
    cause, uses_tc = (_main(table, column, spent) for column in ("cause", "uses_tc"))
    place = _costliest_op(profile, table, spent)
    return TopKernel(
        name=name,
        ns=ns,
        share_pct=100.0 * ns / total,
        cause=cause or _cause_of_op(place, uses_tc),
        uses_tc=uses_tc or "unknown",
        where=place.where,
        op_type=place.op_type,
        communicates=by_name(name).rule in COMMUNICATES,
        unnamed_pct=100.0 * float(spent[table.names("op").ids < 0].sum()) / ns,
    )


def _main(kernels: Table, column: str, spent: FloatArray) -> Any:
    """Return the value with the largest time; None where that is of rows without a value."""
    return costliest(sums_of(kernels.names(column).tolist(), spent))


def _cause_of_op(place: _Place, uses_tc: Any) -> CauseKind | None:
    """Return why its time is spent as it is, where no cause is recorded: by what keeps its op off the Tensor Cores."""
    if uses_tc == "yes":
        return "none"
    if place.row is None:
        return "op_unknown" if place.where.op is None else None
    if place.row["tc_capable"] == "no":
        return "type"
    blocker: Any = "kernels_unknown" if uses_tc == "unknown" else place.row["tc_blocker_kind"]
    return None if blocker == "none" else blocker


def small_ns(profile: Profile) -> float:
    """Return the kernel time of products that are too small to fill the GPU, as far as causes are known."""
    kernels = profile.require("kernels")
    return float(np.nansum(kernels.numbers("sum_ns")[kernels.names("cause").among("tc_small")]))


def layout_work(profile: Profile) -> LayoutWork | None:
    """Return the kernels whose cause is the layout, and those of ops that do nothing else; None without any."""
    kernels = profile.require("kernels")
    kernels = kernels.take(kernels.numbers("sum_ns") > 0)
    types, spent = kernels.names("op_type"), kernels.numbers("sum_ns")
    copies = types.among(COPIES)
    casts = types.among(*CASTS) | (copies & _named(kernels, _CASTS))
    moves = types.among(*TRANSPOSES) | (copies & _named(kernels, _COPIES))
    mine = kernels.names("cause").among("layout") | casts | moves
    if not mine.any():
        return None
    place = _costliest_op(profile, kernels.take(mine), spent[mine])
    convolves = any(map(conv_like, set(types.tolist()))) or bool(_named(kernels, _CONVOLVES).any())
    return LayoutWork(
        float(spent[mine].sum()), float(spent[casts].sum()), place.where, place.op_type, place.ns, convolves
    )


def _named(kernels: Table, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Return which kernels have a name in which the pattern is found."""
    names = kernels.names("kernel")
    return names.among(*filter(pattern.search, names.names))


def warm_up(profile: Profile, steps: int | None) -> WarmUp | None:
    """Return how many steps count, and how many of the first are slow; None without kernels or of counters alone.

    Args:
        profile: with its iterations.
        steps: that count; None if no step is marked.
    """
    spent = np.nansum(profile.require("kernels").numbers("sum_ns")) or profile.value("kernel_time_ns")
    if "serialises_kernels" in profile.traits or not spent:
        return None
    table = profile.require("iterations")
    table = table.take(table.numbers("in_window") == 1)
    order = np.argsort(table.numbers("iteration"), kind="stable")
    lengths = (table.numbers("duration_ns") / table.numbers("steps"))[order]
    lengths = lengths[~np.isnan(lengths)]
    if slow := leading_slow(lengths):
        return WarmUp(steps, slow, float(lengths[:slow].max()), float(np.median(lengths[slow:])))
    return WarmUp(steps)


def epoch_steps(profile: Profile, steps: float | None) -> int | None:
    """Return how often most ops ran in what a key node of DLProf's counts as one step, where that is 2 or more.

    Args:
        profile: of any source; where the record of the run names the key node, its calls are the steps.
        steps: that DLProf counted; None if unknown.
    """
    if "key_node" not in profile.traits:
        return None
    from tcprobe.analysis.key_node import find_steps, series_of

    series = series_of(profile)
    key = profile.metadata.run.get("key_node")
    steps = next((float(one.fired.calls) for one in series if one.fired.name == key), steps)
    usual = find_steps(profile, series)
    if steps is None or steps < 2 or usual is None or usual.basis != "calls":
        return None
    fits = [usual.count // n for n in (round(steps), round(steps) - 1) if usual.count % n == 0]
    return fits[0] if fits and fits[0] >= 2 else None


def tf32_off(profile: Profile) -> Tf32Off | None:
    """Return why TF32 was off; None where nothing recorded says so."""
    if profile.metadata.precision == "float32":
        return "asked"
    if forbids_tf32(profile) or any(note.code == "tf32-override" for note in profile.metadata.notes):
        return "environment"
    return "script" if profile.metadata.policy is not None and profile.metadata.policy.tf32_off else None


def memory_use(profile: Profile) -> MemoryUse | None:
    """Return the memory of the only GPU that ran kernels; None where its peak or its size is not known."""
    if len(gpus := profile.active_gpus) != 1:
        return None
    peak, total = (float(gpus[0][name] or 0) for name in ("peak_memory_bytes", "memory_bytes"))
    return MemoryUse(peak, total) if 0 < peak <= total else None


def unnamed(profile: Profile) -> tuple[float, str | None]:
    """Return the window's kernel time off the Tensor Cores that may be of products, and the costliest that multiplies.

    0 where the source names ops. What helps a product (im2col) counts, unless all products are on the Tensor Cores:
    with another kernel it may go as well; so does what a name does not tell. Of a source without kernels all time off
    the Tensor Cores counts.
    """
    row = profile.figure("tc_kernel_time_pct")
    most = None if row is None else row["value"] if row["high"] is None else row["high"]
    if most is None or len(profile.require("ops")):
        return 0.0, None
    off_ns = (profile.value("kernel_time_ns") or 0.0) * (100.0 - float(most)) / 100.0
    kernels = profile.require("kernels")
    if not len(kernels):
        return off_ns, None
    off = kernels.take(kernels.names("uses_tc").among("no") & ~kernels.names("cause").among("none"))
    sums = sums_of(map(str, off.names("kernel").tolist()), np.nan_to_num(off.numbers("sum_ns")))
    kinds: dict[Any, Any] = dict(zip(off.names("kernel").tolist(), off.names("kind").tolist(), strict=True))
    spent = {name: ns for name, ns in sums.items() if ns and (kinds[name] or kind_of(name)) in _OF_PRODUCTS}
    multiply = {name: ns for name, ns in spent.items() if (kinds[name] or kind_of(name)) in PRODUCTS}
    return min(off_ns, sum(spent.values())), costliest(multiply) if multiply else None


def chain_work(profile: Profile) -> ChainWork | None:
    """Return the chains that no compiler made; None without any, and where nothing in the window multiplies.

    Without a product the window is no step of training: its casts belong to what was not recorded.
    """
    table = profile.require("chains")
    rows = list(table.take(table.numbers("compiled") == 0).rows())
    if not rows or PRODUCTS.isdisjoint(profile.require("kernels").values("kind")):
        return None
    kinds = Counter[Any]()
    for row in rows:
        for kind, count in json.loads(str(row["kinds"])).items():
            kinds[kind] += int(count) * int(row["calls"] or 0)
    ns, at_most, launches, chains = (summed(rows, name) for name in ("sum_ns", "at_most_ns", "launches", "calls"))
    moved, again = (summed(rows, name) if all(row[name] is not None for row in rows) else None for name in _BYTES)
    first = rows[0]
    where = Where(*(text_of(first[name]) for name in ("layer", "op", "pass", "source")))
    named = frozenset(str(row[name]) for row in rows for name in ("op", "layer") if row[name] is not None)
    ordered = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    return ChainWork(ns, at_most, launches, chains, tuple(ordered), moved, again, where, named)


def tail(profile: Profile) -> Tail | None:
    """Return what the empty part of the last waves of Tensor Core kernels takes; None where no grid tells of any."""
    kernels = profile.require("kernels")
    kernels = kernels.take(kernels.names("uses_tc").among("yes") & (np.nan_to_num(kernels.numbers("tail_ns")) > 0))
    kernels = kernels.take(~np.isnan(kernels.numbers("waves")))
    if not len(kernels):
        return None
    spent = kernels.numbers("tail_ns")
    name = str(costliest(sums_of(kernels.names("kernel").tolist(), spent)))
    mine = kernels.names("kernel").among(name)
    row = next(kernels.take(np.flatnonzero(mine)[[int(np.argmax(spent[mine]))]]).rows())
    place = _costliest_op(profile, kernels.take(mine), spent[mine])
    waves, fit = float(row["waves"] or 0), int(row["blocks_per_sm"] or 0)
    return Tail(float(spent.sum()), name, waves, fit, str(row["tile"]), place.where)


def misaligned_work(profile: Profile) -> Misaligned | None:
    """Return the Tensor Core kernels that are misaligned by their names and belong to no op; None without any.

    What an aligned one saves at most follows from the lowest rate that was published for such large products
    (`cost.alignment`): a product that memory or its launch limits gains less, or nothing.
    """
    kernels = profile.require("kernels")
    mine = kernels.take(kernels.names("cause").among("tc_misaligned") & (kernels.names("op").ids < 0))
    capabilities = {row["device"]: parse_capability(row["compute_capability"]) for row in profile.active_gpus}
    found = list[tuple[float, float, str, int, str, int]]()
    for row in mine.rows():
        family, size = RATE_FAMILIES.get(str(row["precision"])), row["alignment"]
        if family is not None and size is not None and row["sum_ns"]:
            rate, timed = slowest_published(int(size), family, capabilities.get(row["device"]))
            saved = float(row["sum_ns"]) * (1.0 - rate)
            found.append((float(row["sum_ns"]), saved, str(row["kernel"]), round(100 * rate), timed.id, int(size)))
    if not found:
        return None
    return Misaligned(sum(one[0] for one in found), sum(one[1] for one in found), *max(found)[2:])


def _gpu(profile: Profile) -> Gpu | None:
    """Return the GPU that ran; None if it is unknown or if several models ran."""
    models = {gpu.id: gpu for row in profile.active_gpus if (gpu := identified(row).gpu)}
    return next(iter(models.values())) if len(models) == 1 else None
