"""Say why the time of the counted steps is spent as it is: a cause for every kernel, op, layer and GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tcprobe.analysis.causes.around import around_ns, around_of_layers
from tcprobe.analysis.causes.bar import Split, build_causes, split_of
from tcprobe.analysis.causes.kernels import OpFacts, Parts, few_of, few_of_gradients, kernel_causes, parts_of, short
from tcprobe.analysis.causes.speed import Speed, Speeds
from tcprobe.analysis.ops.layers import NO_LAYER
from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.analysis.sizes.run import JudgedStep
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.rules.model.known_gpu import KnownGpu
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.profile import Profile

_RATES = ("achieved_tflop_per_s", "peak_pct", "limit")


def with_causes(profile: Profile, inputs: SummaryInputs, gpu: KnownGpu, judged: JudgedStep | None = None) -> Profile:
    """Add causes, rates and parts of the window to `kernels`, `ops`, `gemms` and `layers`, and the table `causes`.

    Args:
        profile: with all other derived tables.
        inputs: what the summary was computed from.
        gpu: the GPU to predict for.
        judged: the products of a step with their costs; None where there are none.
    """
    kernels, ops = profile.table("kernels"), profile.require("ops")
    if kernels is None or not len(kernels):
        return profile.with_absent(causes=profile.absent.get("kernels", "the source has no kernel times"))
    rows = {(str(row["op"]), _text(row["op_type"])): row for row in ops.rows()}
    parts = parts_of(kernels, rows)
    speeds = Speeds(inputs, gpu, _layout_ns(kernels, parts), judged)
    facts = few_of_gradients({key: _facts(key, row, speeds) for key, row in rows.items()})
    kernels = kernels.with_columns(cause=kernel_causes(kernels, facts, parts))
    profile = profile.with_tables(kernels)
    split = split_of(profile, inputs.launched)
    costliest = _costliest(kernels)
    around = around_ns(kernels, rows)
    made = [
        _op({**row, "around_ns": around.get(key)}, facts[key], costliest.get(key, {}), split, key)
        for key, row in rows.items()
    ]
    if made:
        profile = profile.with_tables(Table.from_rows(ops.spec, made))
    if (table := build_causes(profile, split, rows)) is not None:
        profile = profile.with_tables(table)
    return _with_layers(_with_gemms(profile, speeds, inputs), speeds, inputs)


def _layout_ns(kernels: Table, parts: Parts) -> dict[OpIdentity, float]:
    """Return the time of each op's kernels that change layout or type."""
    found: dict[OpIdentity, float] = {}
    columns = (kernels.names(name).tolist() for name in ("op", "op_type"))
    for op, op_type, ns, part in zip(*columns, kernels.numbers("sum_ns").tolist(), parts, strict=True):
        if op is not None and ns == ns and part == "layout":
            found[op, op_type] = found.get((op, op_type), 0.0) + ns
    return found


def _facts(key: OpIdentity, row: Row, speeds: Speeds) -> OpFacts:
    number = speeds.numbers.get(key)
    record = None if number is None else speeds.record(number)
    return OpFacts(row, speeds.of(key), few_of(record, key[1]))


_Spent = dict[str, tuple[float, str, float]]
"""Cause -> time, costliest kernel, and the time of that."""


def _costliest(kernels: Table) -> dict[OpIdentity, _Spent]:
    """Return the time of each op by cause."""
    found: dict[OpIdentity, _Spent] = {}
    columns = (kernels.names(name).tolist() for name in ("kernel", "op", "op_type", "cause"))
    for kernel, op, op_type, cause, ns in zip(*columns, kernels.numbers("sum_ns").tolist(), strict=True):
        spent = 0.0 if ns != ns else float(ns)
        mine = found.setdefault((str(op) if op is not None else "(no op)", op_type), {})
        total, name, most = mine.get(str(cause), (0.0, "", -1.0))
        better = (spent, str(kernel)) > (most, name)
        mine[str(cause)] = (total + spent, str(kernel) if better else name, spent if better else most)
    return found


def _main(spent: _Spent) -> str | None:
    """Return the cause of most of an op's time, layout changes apart."""
    causes = {cause: ns for cause, (ns, _, _) in spent.items() if cause != "layout"} or {
        c: t[0] for c, t in spent.items()
    }
    return min(causes, key=lambda cause: (-causes[cause], cause)) if causes else None


def _op(row: Row, fact: OpFacts, spent: _Spent, split: Split | None, key: OpIdentity) -> Row:
    """Return a row of `ops` with its cause, rates and part of the window."""
    cause, speed = _main(spent), fact.speed
    found: Row = {**row, "cause": cause, "split_ns": None if split is None else split.ops.get(key, 0)}
    if speed is not None:
        found |= {**speed.columns(), "predicted_ns": speed.predicted_ns}
    if cause is not None and cause not in ("type", "op_unknown"):
        found["cause_kernel"] = short(spent[cause][1])
    if cause == "channels" and fact.few is not None:
        found |= {"cause_dimension": fact.few.dimension, "cause_size": fact.few.size}
    elif speed is not None and cause == speed.cause:
        found |= {"cause_dimension": speed.dimension, "cause_size": speed.size}
        if cause in ("tc_tiles", "tc_small"):
            found |= {"tile": speed.tile, "waves": speed.waves}
    return found


def _with_gemms(profile: Profile, speeds: Speeds, inputs: SummaryInputs) -> Profile:
    """Add to each product the rate, the cause and the costliest kernel of the op that it is."""
    gemms = profile.table("gemms")
    if gemms is None:
        return profile
    by_number: dict[int, Row] = {}
    for row in profile.require("ops").rows():
        number = speeds.numbers.get((str(row["op"]), _text(row["op_type"])))
        before = by_number.get(-1 if number is None else number)
        if number is not None and (before is None or float(row["sum_ns"] or 0) > float(before["sum_ns"] or 0)):
            by_number[number] = row
    names = ("cause", "kernel", *_RATES)
    columns: dict[str, list[Value]] = {name: [] for name in names}
    for number in inputs.gemms.records:
        op, speed = by_number.get(number), speeds.found.get(number)
        told: Row = {} if speed is None else speed.columns()
        if op is not None:
            told |= {"cause": op["cause"], "kernel": op["cause_kernel"]}
        for name in names:
            columns[name].append(told.get(name))
    return profile.with_tables(gemms.with_columns(**columns))


def _with_layers(profile: Profile, speeds: Speeds, inputs: SummaryInputs) -> Profile:
    """Add to each layer the cause of most of its capable ops' time, its rate, and its part of the window."""
    layers = profile.table("layers")
    if layers is None:
        return profile
    members: dict[str, list[Row]] = {}
    for op in profile.require("ops").rows():
        members.setdefault(str(op["layer"] or NO_LAYER), []).append(op)
    products: dict[str, set[int]] = {}
    for number, layer in zip(inputs.gemms.records, inputs.gemms.table.values("layer"), strict=True):
        products.setdefault(str(layer or NO_LAYER), set()).add(number)
    kernels = _by_layer_cause(profile)
    around = around_of_layers(profile.require("ops").rows(), NO_LAYER)
    made: list[Row] = []
    for row in layers.rows():
        layer = str(row["layer"])
        spent = kernels.get(layer, {})
        cause = min(spent, key=lambda one: (-spent[one], one)) if spent else None
        found = [speed for number in products.get(layer, ()) if (speed := speeds.found.get(number)) is not None]
        splits = [op["split_ns"] for op in members.get(layer, ())]
        made.append(
            {**row, "cause": cause, "cause_ns": None if cause is None else spent[cause], **_rate(found),
             "split_ns": None if not splits or None in splits else sum(int(ns or 0) for ns in splits),
             "around_ns": around.get(layer)}
        )  # fmt: skip
    return profile.with_tables(Table.from_rows(layers.spec, made))


def _by_layer_cause(profile: Profile) -> dict[str, dict[str, int]]:
    """Return the kernel time of each layer's capable ops by cause, layout changes apart."""
    ops = {(str(row["op"]), _text(row["op_type"])): row for row in profile.require("ops").rows()}
    found: dict[str, dict[str, int]] = {}
    for kernel in profile.require("kernels").rows():
        op = ops.get((str(kernel["op"]), _text(kernel["op_type"])))
        if op is None or op["tc_capable"] != "yes" or kernel["cause"] == "layout":
            continue
        mine = found.setdefault(str(op["layer"] or NO_LAYER), {})
        cause = str(kernel["cause"])
        mine[cause] = mine.get(cause, 0) + int(kernel["sum_ns"] or 0)
    return found


def _rate(found: Iterable[Speed]) -> Mapping[str, Any]:
    """Return the rate of several products together; NA where one of them is a lower bound or has no peak."""
    speeds = list(found)
    if not speeds or any(speed.at_least for speed in speeds):
        return {}
    ideal = [speed.ideal_ns for speed in speeds]
    whole = Speed(
        sum(speed.flops for speed in speeds),
        sum(speed.ns for speed in speeds),
        None if None in ideal else sum(ns for ns in ideal if ns is not None),
    )
    limits = {speed.limit for speed in speeds}
    return {**whole.columns(), "limit": limits.pop() if len(limits) == 1 else None}


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
