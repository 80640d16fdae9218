"""Judge how well a run uses the Tensor Cores: one of a few words, and why, by where its step goes.

The first that holds: what needs no times; kernels of unknown class; waiting, from half of the step on; then the time
of products on and off the Tensor Cores.

Divide a step among a few rows that add up to it: on Tensor Cores, off them, other kernels, copies, nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.causes.facts import costliest, sums_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import GROUP_OF, PRODUCTS, CauseGroup, CauseKind, KernelKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.screen import (
    KERNELS,
    OFF_CAUSES,
    ON,
    ROW_KINDS,
    WAITS,
    Answer,
    AnswerKind,
    Bar,
    BarOf,
    BarRow,
    RowKind,
    VerdictWord,
)
from tcprobe.schema.statement import FieldValue, Statement, say

ROW_OF_GROUP: Final[Mapping[CauseGroup, RowKind]] = {
    "well": "used", "used": "used", "slowly": "slowly", "off": "off", "never": "others", "layout": "layout",
    "unknown": "unknown", "copy": "copy", "idle": "idle",
}  # fmt: skip
ROW_OF_CAUSE: Final[Mapping[CauseKind, RowKind]] = {
    **dict.fromkeys(OFF_CAUSES, "off"),
    "tc_misaligned": "misaligned",
    "gpu": "matmul",
    "not_nvidia": "matmul",
    "op_unknown": "others",  # kernels whose names tell that they do not multiply
}
"""Causes that are not in the row of their group."""


def bar_of(profile: Profile) -> Bar | None:
    """Return where the time goes, the mean over GPUs; None where no time of a GPU is known.

    Kernels that run at once share their time equally, so that rows add up to a step of one GPU. Where the step is one
    outside the profiler, its waiting is what its kernels leave of it.
    """
    causes, waiting = list(profile.require("causes").rows()), profile.waiting
    gpus = len({row["device"] for row in causes} - {None}) or profile.busiest_gpu[0]
    if waiting is not None:
        of: BarOf = "capture" if waiting.length == "capture" else "step"
        if not any(row["split_ns"] is not None for row in causes):
            return _bar(profile, of, {"kernels": waiting.busy_ns, "wait": waiting.idle_ns}, gpus)
        spent = _by_row(causes, "split_ns")
        kernels = {kind: ns for kind, ns in spent.items() if kind in KERNELS}
        waits = {kind: ns for kind, ns in spent.items() if kind in WAITS} or {"idle": 1.0}
        parts = {**_scaled(kernels, waiting.busy_ns), **_scaled(waits, waiting.idle_ns)}
        return _bar(profile, of, parts, gpus)
    if causes:
        return _bar(profile, "kernel_time", {kind: ns / gpus for kind, ns in _by_row(causes, "sum_ns").items()}, gpus)
    idle, pct = (profile.value(f"ops_idle_{unit}") for unit in ("ns", "pct"))
    if not idle or not pct:
        return None
    return _bar(profile, "op_calls", {"kernels": idle * (100.0 - pct) / pct, "wait": idle}, 1)


def row_kind(cause: Value) -> RowKind:
    """Return the row of the bar that time of a cause, one of `CauseKind`, stands in."""
    return ROW_OF_CAUSE.get(cause) or ROW_OF_GROUP[GROUP_OF[cause]]  # type: ignore[call-overload, index]


def _by_row(causes: Iterable[Row], column: str) -> dict[RowKind, float]:
    spent = defaultdict[RowKind, float](float)
    for row in causes:
        spent[row_kind(row["cause"])] += float(row[column] or 0)
    return dict(spent)


def _scaled(parts: Mapping[RowKind, float], total: float) -> dict[RowKind, float]:
    """Return parts that add up to `total`, in the same proportions."""
    whole = sum(parts.values())
    return {kind: ns * total / whole for kind, ns in parts.items()} if whole else {}


def _bar(profile: Profile, of: BarOf, spent: Mapping[RowKind, float], gpus: int) -> Bar | None:
    """Return the bar of these times; what its kernels do, and that communication is a row of its own, `kinds` tells."""
    total, kinds = sum(spent.values()), _kinds_by_row(profile)
    if not total > 0:
        return None
    rows = list[BarRow]()
    for kind in (kind for kind in ROW_KINDS if spent.get(kind)):
        parts = _of_kinds(spent[kind], kinds.get(kind, {}))
        moved = parts.pop("communication", 0.0) if kind == "others" else 0.0
        if moved:
            rows.append(BarRow("communication", moved, 100.0 * moved / total))
        if (ns := spent[kind] - moved) > 0:
            ordered = tuple(sorted(parts.items(), key=lambda part: (-part[1], part[0])))
            rows.append(BarRow(kind, ns, 100.0 * ns / total, ordered))
    return Bar(of, total, tuple(rows), gpus)


def _of_kinds(ns: float, shares: Mapping[KernelKind, float]) -> dict[KernelKind, float]:
    whole = sum(shares.values())
    return {kind: ns * share / whole for kind, share in shares.items()} if whole else {}


def _kinds_by_row(profile: Profile) -> dict[RowKind, dict[KernelKind, float]]:
    """Return of each row the time of each kind of kernels, in any unit."""
    shares = defaultdict[RowKind, dict[KernelKind, float]](dict)
    for row in profile.require("kinds").rows():
        kind: KernelKind = row["kind"]  # type: ignore[assignment]
        mine = shares[row_kind(row["cause"])]
        mine[kind] = mine.get(kind, 0.0) + (float(row["split_ns"] or 0) or float(row["sum_ns"] or 0))
    return shares


Judged: TypeAlias = tuple[VerdictWord, Statement[AnswerKind]]
WAITING_PCT: Final = 50.0  # of the step, without a kernel: from here on that decides, and not what the kernels do
NOTICEABLE_PCT: Final = 25.0  # of the step: waiting that is worth a word beside another verdict
USED_PCT: Final = 95.0  # of the time of products: from here on they count as on Tensor Cores, all but a rest
UNUSED_PCT: Final = 1.0  # likewise as off them
KNOWN_PCT: Final = 75.0  # of the kernel time: below it nothing is concluded from the kernels whose class is known
MISALIGNED_PCT: Final = 25.0  # of the time on Tensor Cores
SLOW_PCT: Final = 50.0  # likewise
MOST_UNREPEATED: Final = 2  # launches of a kernel: a step, and most benchmarks, run some kernel more often
ALL_PCT: Final = 95.0  # of the waiting: one kind of work from here on is what the GPU waits for
MOST_KINDS: Final = 3  # that a sentence names


def answer_of(profile: Profile, bar: Bar | None) -> Answer:
    """Return the verdict on a run.

    Args:
        profile: with its advice.
        bar: where its time goes.
    """
    if (early := _without_times(profile)) is not None:
        return replace(early, more=_while_tuning(profile, bar)) if early.says.kind == "autotuning" else early
    if bar is None:
        return Answer("NOT MEASURED", say("no_kernels", reason=_reason(profile)))
    if bar.of == "op_calls":
        using, off = (profile.value(f"ops_{name}_time_pct") for name in ("using_tc", "eligible_not_using"))
        return Answer("WAITING", say("idle_ops", idle_pct=bar.pct("wait"), using_pct=using, off_pct=off))
    word, says = _usage(profile, bar)
    idle = bar.pct(*WAITS)
    if idle >= WAITING_PCT and word != "CANNOT TELL":
        if launches := _unrepeated(profile, bar):
            return Answer("CANNOT TELL", say("unrepeated", launches=launches), (says,))
        return Answer("WAITING", _waiting(profile, bar), (says,))
    if idle >= NOTICEABLE_PCT:
        return Answer(word, says, (_waiting(profile, bar),))
    busy = word in ("NOT USED", "CANNOT TELL") and bar.of != "kernel_time"
    return Answer(word, says, (say("busy", pct=100.0 - idle, of=bar.of),) if busy else ())


def _without_times(profile: Profile) -> Answer | None:
    """Return the verdict that follows without looking where the time goes; None where none does."""
    figure = profile.figure("tc_kernel_time_pct")
    reason = None if figure is None else figure["reason_kind"]
    if profile.metadata.gpu_used is False:
        return Answer("NOT MEASURED", say("no_gpu"))
    if figure is None or reason in ("no_gpu", "no_record"):
        return Answer("NOT MEASURED", say("no_kernels", reason=_reason(profile)))
    gpu = next(iter(profile.active_gpus), {})
    if reason == "not_nvidia":
        return Answer("NOT APPLICABLE", say("not_nvidia", vendor=text_of(gpu.get("vendor"))), _busy(profile))
    if reason == "no_tensor_cores":
        return Answer("NOT APPLICABLE", say("no_tensor_cores", gpu=text_of(gpu.get("name"))), _busy(profile))
    if (tuning := profile.tuning) is not None:
        kernels, share = profile.value("kernels"), tuning.share_pct
        says: Statement[AnswerKind] = say("autotuning", kernels=tuning.kernels, of=kernels, pct=share, ops=tuning.ops,
                                          by_op=tuning.worst_op is not None)  # fmt: skip
        return Answer("CANNOT TELL", says)
    if any(item.kind == "profile_usual_steps" and not item.says.get("when") for item in profile.advice):
        return Answer("CANNOT TELL", say("start_up", pct=figure["value"]))
    return _nothing_multiplies(profile)


def _while_tuning(profile: Profile, bar: Bar | None) -> tuple[Statement[AnswerKind], ...]:
    """Return what the products' time says of a step in which a library tries its kernels; empty where nothing."""
    if bar is None or bar.of == "op_calls":
        return ()
    word, says = _usage(profile, bar)
    return (says,) if word in ("NOT USED", "PARTLY", "GOOD") else ()


def _unrepeated(profile: Profile, bar: Bar) -> int:
    """Return how many kernels were launched, where no step is known and none of them ran more than twice; else 0."""
    calls = defaultdict[str, int](int)
    for row in profile.require("kernels").rows():
        calls[str(row["kernel"])] += int(row["calls"] or 0)
    return sum(calls.values()) if bar.of == "capture" and calls and max(calls.values()) <= MOST_UNREPEATED else 0


def _nothing_multiplies(profile: Profile) -> Answer | None:
    """Return the verdict on kernels none of which multiplies, if the names of all tell that."""
    kernels, spent = profile.require("kernels"), _kinds(profile)
    if not spent or spent.keys() & {*PRODUCTS, "matrix_vector", "helper", "unknown", None}:
        return None
    kinds = _most(spent)
    if "serialises_kernels" not in profile.traits:  # what records steps may have missed theirs
        return Answer("CANNOT TELL", say("no_products", kinds=kinds))
    reached, names = kernels.numbers("memory_pct"), set(kernels.values("kernel"))
    low, high = (None, None) if np.isnan(reached).any() else (float(reached.min()), float(reached.max()))
    kernel = text_of(names.pop()) if len(names) == 1 else None
    return Answer("NOTHING TO GAIN", say("nothing_multiplies", kernel=kernel, kinds=kinds, low_pct=low, high_pct=high))


def _kinds(profile: Profile) -> dict[Any, float]:
    kernels = profile.require("kernels")
    return _spent(kernels, "kind")


def _most(spent: Mapping[Any, float]) -> tuple[str, ...]:
    return tuple(sorted(spent, key=lambda kind: (-spent[kind], str(kind))))[:MOST_KINDS]


def _usage(profile: Profile, bar: Bar) -> Judged:
    """Return what the products' time says, whatever else the step does."""
    if bar.ns("kernels"):
        return _reported(profile)
    on, off, kernels = bar.ns(*ON), bar.ns("off"), bar.ns(*KERNELS)
    coverage = profile.value("coverage_pct")
    if not kernels or (coverage is not None and coverage < KNOWN_PCT):
        return "CANNOT TELL", _class_unknown(profile)
    if not on + off:
        return "CANNOT TELL", say("no_matrices", kinds=_most(_kinds(profile)))
    share = 100.0 * on / (on + off)
    if share < UNUSED_PCT:
        return "NOT USED", say("not_used", **_kept_off(profile))
    if share < USED_PCT:
        return "PARTLY", say("partly", on_pct=share, **_kept_off(profile))
    if 100.0 * bar.ns("misaligned") >= MISALIGNED_PCT * on:
        return "MISALIGNED", say("misaligned", pct=bar.pct("misaligned"), of=bar.of)
    if 100.0 * bar.ns("slowly") >= SLOW_PCT * on:
        return "SLOWLY", say("slowly", pct=100.0 * bar.ns("slowly") / on, cause=_slowed_by(profile))
    return "GOOD", say("all_used", pct=bar.pct(*ON), of=bar.of, all=not bar.ns("off", "unknown"))


def _reported(profile: Profile) -> Judged:
    """Return what a source says that has no kernels: the profiler's own shares."""
    of_kernels, of_capable = (profile.value(name) for name in ("tc_kernel_time_pct", "tc_capable_time_pct"))
    if of_kernels is None:
        return "CANNOT TELL", say("start_up", pct=None)
    if of_kernels < UNUSED_PCT:
        return "NOT USED", say("not_used", cause=None, precision=None, all=True)
    if of_capable is not None and of_capable >= USED_PCT:
        return "GOOD", say("all_used", pct=of_kernels, of="kernel_time", all=of_capable == 100.0)
    return "PARTLY", say("partly", on_pct=of_kernels, cause=None, precision=None, all=False)


def _class_unknown(profile: Profile) -> Statement[AnswerKind]:
    kernels = profile.require("kernels")
    spent = _spent(kernels, "kernel")
    total, kernel = sum(spent.values()), _largest(spent)
    return say("class_unknown", kernel=kernel, pct=100.0 * spent[kernel] / total if total else None)


def _kept_off(profile: Profile) -> dict[str, FieldValue]:
    """Return what keeps most of the products' time off: cause, precision where it is one, whether of all of them."""
    kernels = profile.require("kernels")
    off = kernels.take(kernels.names("cause").among(*OFF_CAUSES))
    products = off.take(off.names("kind").among(*PRODUCTS))
    precisions = _spent(products, "precision")
    precision, total = _largest(precisions), sum(precisions.values())
    alone = total > 0 and 100.0 * precisions[precision] >= USED_PCT * total
    cause = _largest(_spent(off, "cause"))
    return {"cause": cause, "precision": precision if alone else None, "all": len(precisions) == 1}


def _slowed_by(profile: Profile) -> str | None:
    """Return the cause of most of the time that is slow on Tensor Cores, misaligned sizes apart."""
    causes = profile.require("causes")
    slow = causes.take(causes.names("group").among("slowly") & ~causes.names("cause").among("tc_misaligned"))
    return text_of(_largest(_spent(slow, "cause", "share_pct")))


def _waiting(profile: Profile, bar: Bar) -> Statement[AnswerKind]:
    """Return how long no kernel runs, what takes most of that, and its share of it; None where nothing tells."""
    waits = profile.require("waits")
    spent = _spent(waits, "host_work", "idle_ns")
    work, total = _largest(spent), sum(spent.values())
    share = 100.0 * spent[work] / total if total else None
    if work == "copy" and bar.ns("copy") >= ALL_PCT / 100.0 * bar.ns(*WAITS):  # the row of the bar is the waiting
        return say("waiting", pct=bar.pct("copy"), of=bar.of, work=work, work_pct=100.0)
    return say("waiting", pct=bar.pct(*WAITS), of=bar.of, work=work, work_pct=share)


def _busy(profile: Profile) -> tuple[Statement[AnswerKind], ...]:
    if (waiting := profile.waiting) is None:
        return ()
    of: BarOf = "capture" if waiting.length == "capture" else "step"
    return (say("busy", pct=100.0 - waiting.idle_pct, of=of),)


def _reason(profile: Profile) -> str | None:
    figure = profile.figure("tc_kernel_time_pct")
    reason = None if figure is None else figure["reason"]
    return text_of(reason) or profile.absent.get("kernels") or profile.absent.get("summary")


def _spent(table: Table, key: str, times: str = "sum_ns") -> dict[Any, float]:
    """Return the sum of the times of each value of a column."""
    return sums_of(table.values(key), np.nan_to_num(table.numbers(times)))


def _largest(spent: dict[Any, float]) -> Any:
    """Return the key with the most time; None without any."""
    return costliest(spent) if spent else None
