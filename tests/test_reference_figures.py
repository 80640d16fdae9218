"""The figures once more, by plain means: protobuf and pandas, straight from docs/figures.md, held against the tables.

Nothing here uses a reader or an analysis of tcprobe but the one call whose result is checked; the cost of an op, which
the savings rest on, is the model's own (docs/cost-model.md).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tcprobe.cost.predict import Cost, Target, op_cost
from tcprobe.flows.report import make_report
from tcprobe.hardware import find_gpu
from tcprobe.schema.op import OpRecord
from tests.fixtures.gpu_run import catalogue, variants
from tests.fixtures.gpu_run.make import PROFILE, RUN, load
from tests.fixtures.xplane.schema import XSpace
from tests.support import shared

DERIVED = re.compile(r"^(Steps|Launch Stats|(TensorFlow|Framework) (Name Scope|Ops)|XLA (Modules|Ops)|Source code)$")
REAL = (
    "tf24_t4_alexnet_fp32",
    "tf24_v100_alexnet_fp32",
    "tf25_turing_chess_fp32",
    "tf24_p100_alexnet_fp32",
    "tf22_8xv100_bert_step0",
)


class Reference:
    """Every GPU event of a file, one row each, and the marks of the steps."""

    def __init__(self, path: Path) -> None:
        space = XSpace.FromString(path.read_bytes())
        rows = [row for plane in space.planes if plane.name.startswith("/device:GPU:") for row in _events(plane)]
        events = pd.DataFrame(rows)
        launched, self.marks = _host(space)
        called = [launched.get(c) for c in events["correlation_id"]]
        events["called_ns"] = pd.Series(called, dtype="float64")
        events["step"] = [self._step(at) for at in events["called_ns"]]
        self.kernels = events[events["kernel"]]
        self.copies = events[events["copy"]]
        steps = [span for plane in space.planes for span in _steps(plane)]
        self.step = (min(s for s, _ in steps), max(e for _, e in steps)) if steps else None

    def _step(self, at: float) -> int | None:
        before = [number for number, begin, _ in self.marks if not np.isnan(at) and begin <= at]
        return before[-1] if before else None

    def inside(self, first: int | None, last: int | None) -> Any:
        """Return the kernels that the steps launched; all of them where there are none."""
        return self.kernels if first is None else self.kernels[self.kernels["step"].between(first, last)]


def _value(plane: Any, stat: Any) -> Any:
    kind = stat.WhichOneof("value")
    value = getattr(stat, kind)
    return plane.stat_metadata[value].name if kind == "ref_value" else value


def _stats(plane: Any, event: Any) -> dict[str, Any]:
    return {plane.stat_metadata[s.metadata_id].name: _value(plane, s) for s in event.stats}


def _steps(plane: Any) -> list[tuple[int, int]]:
    """Return start and end in ps of the steps on the line that a GPU has for them."""
    lines = [line for line in plane.lines if line.name == "Steps"]
    starts = [(line.timestamp_ns * 1000 + e.offset_ps, e.duration_ps) for line in lines for e in line.events]
    return [(start, start + length) for start, length in starts]


def _events(plane: Any) -> list[dict[str, Any]]:
    rows = []
    for line in plane.lines:
        if DERIVED.match(line.name):
            continue
        for event in line.events:
            known = _stats(plane, event)
            rows.append(
                {
                    "device": int(plane.name.rsplit(":", 1)[1]),
                    "name": plane.event_metadata[event.metadata_id].name,
                    "start_ps": line.timestamp_ns * 1000 + event.offset_ps,
                    "duration_ps": event.duration_ps,
                    "ns": event.duration_ps // 1000,
                    "op": known.get("tf_op") or known.get("level 0") or "",
                    "kernel": "kernel_details" in known,
                    "copy": any(k in known for k in ("memcpy_details", "memset_details")),
                    "correlation_id": known.get("correlation_id"),
                }
            )
    return rows


def _host(space: Any) -> tuple[dict[int, float], list[tuple[int, float, float]]]:
    """Return when each launch was called, and number, start and end of each step that tcprobe marked."""
    launched: dict[int, float] = {}
    marks = []
    for plane in (p for p in space.planes if p.name == "/host:CPU"):
        for line in plane.lines:
            for event in line.events:
                known = _stats(plane, event)
                at = line.timestamp_ns + event.offset_ps / 1000
                if "correlation_id" in known:
                    launched[known["correlation_id"]] = at
                if plane.event_metadata[event.metadata_id].name == "tcprobe_step":
                    marks.append((known["step_num"], at, at + event.duration_ps / 1000))
    return launched, sorted(marks, key=lambda m: m[1])


def union_ns(frame: pd.DataFrame, low: float = -np.inf, high: float = np.inf) -> float:
    """Return the time during which at least one event ran within the bounds."""
    total, until = 0.0, -np.inf
    begin = frame["start_ps"] / 1000
    for start, end in sorted(zip(begin, begin + frame["duration_ps"] / 1000, strict=True)):
        start, end = max(start, low, until), min(end, high)
        if end > start:
            total, until = total + end - start, end
    return total


def path_of(op: str) -> str:
    return op.rpartition(":")[0] or op


@functools.cache
def made() -> tuple[Reference, dict[str, Any]]:
    """Return the reference of the run on the GPU and the report's tables."""
    profile = make_report(RUN)
    return Reference(RUN / PROFILE), {name: table.to_pandas() for name, table in profile.tables.items()}


def figures(tables: dict[str, Any]) -> Any:
    return tables["summary"].set_index("metric")


def test_kernel_time_and_its_classes() -> None:
    reference, tables = made()
    counted = reference.inside(3, 5)
    verdict = counted["name"].map(catalogue.verdicts())
    total, on_tc, unknown = counted["ns"].sum(), *(counted["ns"][verdict == v].sum() for v in ("yes", "unknown"))
    said = figures(tables)
    assert said.value["kernel_time_ns"] == total
    assert said.value["kernels"] == len(counted)
    assert (said.low["tc_time_ns"], said.high["tc_time_ns"]) == (on_tc, on_tc + unknown)
    assert said.value["tc_kernel_time_pct"] == pytest.approx(100 * on_tc / total, abs=1e-9)
    assert said.low["tc_kernel_time_pct"] == pytest.approx(100 * on_tc / total, abs=1e-9)
    assert said.high["tc_kernel_time_pct"] == pytest.approx(100 * (on_tc + unknown) / total, abs=1e-9)
    assert said.value["coverage_pct"] == pytest.approx(100 * (1 - unknown / total), abs=1e-9)
    assert 0 < on_tc < total


def test_the_verdict_on_each_kernel() -> None:
    _, tables = made()
    verdicts = dict(zip(tables["kernels"]["kernel"], tables["kernels"]["uses_tc"], strict=True))
    known = catalogue.verdicts()
    assert len(verdicts) > 15
    assert verdicts == {name: known[name] for name in verdicts}


def test_time_within_capable_ops() -> None:
    reference, tables = made()
    counted = reference.inside(3, 5)
    capable = counted[counted["op"].str.contains(r":(?:MatMul|Conv2D|Conv2DBackpropInput|Conv2DBackpropFilter)$")]
    on_tc = capable["ns"][capable["name"].map(catalogue.verdicts()) == "yes"].sum()
    said = figures(tables)
    assert said.value["tc_capable_time_pct"] == pytest.approx(100 * on_tc / capable["ns"].sum(), abs=1e-9)
    assert said.value["capable_time_pct"] == pytest.approx(100 * capable["ns"].sum() / counted["ns"].sum(), abs=1e-9)


def test_each_kernel_of_each_op() -> None:
    reference, tables = made()
    counted = reference.inside(3, 5)
    expected = counted.groupby([counted["name"], counted["op"].map(path_of)])["ns"].agg(["count", "sum", "min", "max"])
    found = tables["kernels"].set_index(["kernel", "op"])[["calls", "sum_ns", "min_ns", "max_ns"]]
    assert {k: tuple(map(int, v)) for k, v in zip(found.index, found.to_numpy(), strict=True)} == {
        k: tuple(map(int, v)) for k, v in zip(expected.index, expected.to_numpy(), strict=True)
    }


def test_sum_and_union_of_each_op() -> None:
    reference, tables = made()
    groups = reference.inside(3, 5).groupby("op")
    ops = tables["ops"].set_index("op")
    measured = ops[ops["sum_ns"].notna()]
    assert set(measured.index) == {path_of(op) for op in groups.groups}
    for name, group in groups:
        row = measured.loc[path_of(str(name))]
        on_tc = group["ns"][group["name"].map(catalogue.verdicts()) == "yes"].sum()
        assert (row["op_type"], row["launches"], row["sum_ns"]) == (
            str(name).rpartition(":")[2],
            len(group),
            group["ns"].sum(),
        )
        assert row["union_ns"] == union_ns(group)
        assert row["tc_ns"] == on_tc


def test_sums_of_each_layer_and_pass() -> None:
    """The graph says which layer an op with a matrix multiplication is of; the others stand in its scope."""
    reference, tables = made()
    counted = reference.inside(3, 5)
    records = {o["executed_op"]: o for f in load().graph["functions"] for o in f["ops"] if o["executed_op"]}
    layers = tables["layers"].set_index("layer")
    assert layers["sum_ns"].sum() == counted["ns"].sum()
    scopes = {op.rsplit("/", 1)[0]: r["layer"] for op, r in records.items() if r["pass"] == "forward"}
    layer = counted["op"].map(lambda op: next((la for sc, la in scopes.items() if f"{sc}/" in f"/{op}/"), None))
    for name, group in counted.groupby(layer):
        assert (name, layers.loc[name, "sum_ns"]) == (name, group["ns"].sum())
        passes = group["op"].map(lambda op: records.get(path_of(op), {}).get("pass"))
        for kind in ("dgrad", "wgrad"):
            assert (name, layers.loc[name, f"{kind}_ns"]) == (name, group["ns"][passes == kind].sum())
        assert layers.loc[name, "share_pct"] == pytest.approx(100 * group["ns"].sum() / counted["ns"].sum())
    assert layer.nunique() == 9


def test_bad_sizes_and_gemms_share_the_time_of_their_ops() -> None:
    """Every size of this model that is not aligned is contiguous in all passes of its layer."""
    reference, tables = made()
    counted = reference.inside(3, 5)
    spent = counted.groupby(counted["op"].map(path_of))["ns"].sum()
    records = [o for f in load().graph["functions"] for o in f["ops"] if o["executed_op"]]
    flops = sum(_flops(o) for o in records)
    assert len(tables["bad_sizes"]) == 12
    for row in tables["bad_sizes"].itertuples():
        mine = [o for o in records if o["layer"] == row.layer]
        assert (row.layer, row.kernel_ns) == (row.layer, sum(spent[o["executed_op"]] for o in mine))
        assert row.share_pct == pytest.approx(100 * row.kernel_ns / counted["ns"].sum())
        assert row.flops_pct == pytest.approx(100 * sum(map(_flops, mine)) / flops)
        assert row.next_size == row.size + -row.size % 8
    gemms = tables["gemms"][tables["gemms"]["executes"] == "yes"]
    assert sorted(gemms["op"]) == sorted(o["op"] for o in records)
    by_name = {o["op"]: o for o in records}
    for row in gemms.itertuples():
        assert (row.kernel_ns, row.flops) == (spent[by_name[row.op]["executed_op"]], _flops(by_name[row.op]))


def test_each_iteration() -> None:
    reference, tables = made()
    iterations = tables["iterations"].set_index("iteration")
    assert list(iterations.index) == [1, 2, 3, 4, 5]
    assert list(iterations["in_window"]) == [False, False, True, True, True]
    starts = [begin for _, begin, _ in reference.marks]
    assert list(iterations["start_ns"] - iterations["start_ns"].iloc[0]) == [s - starts[0] for s in starts]
    assert list(iterations["duration_ns"].iloc[:-1]) == list(np.diff(starts))
    for step, group in reference.kernels.groupby("step"):
        row = iterations.loc[step]
        assert (row["launches"], row["sum_ns"], row["union_ns"]) == (len(group), group["ns"].sum(), union_ns(group))
        on_tc = group["ns"][group["name"].map(catalogue.verdicts()) == "yes"].sum()
        assert (row["tc_ns"], row["memory_ns"]) == (on_tc, reference.copies.query("step == @step")["ns"].sum())
    late = reference.kernels.query("step == 3")
    assert (late["start_ps"] / 1000 > starts[3]).any()  # some run after the next step began


def test_busy_and_window_of_the_device() -> None:
    reference, tables = made()
    counted = reference.inside(3, 5)
    low = reference.marks[2][1]
    high = max(reference.marks[4][2], ((counted["start_ps"] + counted["duration_ps"]) / 1000).max())
    (device,) = tables["devices"].to_dict("records")
    assert device["window_ns"] == high - low
    busy = union_ns(reference.kernels, low, high)
    assert device["gpu_busy_pct"] == pytest.approx(100 * busy / (high - low), abs=1e-9)
    assert figures(tables).value["gpu_busy_pct"] == pytest.approx(100 * busy / (high - low), abs=1e-9)
    assert device["sum_ns"] == counted["ns"].sum()
    assert device["memory_ns"] == reference.copies.query("3 <= step <= 5")["ns"].sum()
    assert device["union_ns"] == busy
    assert busy > union_ns(counted, low, high)  # kernels of step 2 still ran when the window began


def test_steps_and_throughput_without_the_profiler() -> None:
    _, tables = made()
    steps = pd.read_csv(RUN / "probe/steps.csv")
    lengths = steps["start_ns"].diff().shift(-1)[steps["kind"] == "after"].dropna()
    said = figures(tables)
    assert said.value["step_time_ns"] == lengths.median()
    assert (said.low["step_time_ns"], said.high["step_time_ns"]) == tuple(lengths.quantile([0.1, 0.9]))


def test_throughput_without_the_profiler() -> None:
    _, tables = made()
    steps = pd.read_csv(RUN / "probe/steps.csv")
    logged = pd.read_csv(RUN / "probe/metrics.csv").query("name == 'throughput'")
    free = logged["value"][logged["step"].isin(steps["step"][steps["kind"] == "after"])]
    assert figures(tables).value["throughput"] == pytest.approx(free.median(), rel=1e-9)


def test_flops_and_rate() -> None:
    reference, tables = made()
    counted = reference.inside(3, 5)
    flops = {o["executed_op"]: _flops(o) for f in load().graph["functions"] for o in f["ops"] if o["executed_op"]}
    said = figures(tables)
    assert said.value["flops_per_step"] == sum(flops.values())
    spent = counted["ns"][counted["op"].map(path_of).isin(flops)].sum()
    rate = 3 * sum(flops.values()) / spent / 1000
    assert said.value["achieved_tflop_per_s"] == pytest.approx(rate, rel=1e-9)
    assert said.value["peak_pct"] == pytest.approx(100 * rate / 312, rel=1e-9)


def _flops(op: dict[str, Any]) -> int:
    """2 x output positions x filters x taps of a convolution with stride 1; 2 M N K of a product."""
    first, second, *_ = op["input_shapes"]
    out = op["output_shapes"][0]
    if op["op_type"] == "MatMul":
        contracted = first[0] if op["attributes"]["transpose_a"] else first[1]
        return 2 * out[0] * out[1] * contracted
    images, taps = {
        "Conv2D": (out, second),
        "Conv2DBackpropInput": (op["input_shapes"][-1], second),
        "Conv2DBackpropFilter": (op["input_shapes"][-1], out),
    }[op["op_type"]]
    return int(2 * np.prod(images[:3]) * np.prod(taps))


def test_two_gpus_have_figures_of_their_own(tmp_path: Path) -> None:
    run = load()
    variants.second_gpu(run)
    other = next(p for p in run.space.planes if p.name == "/device:GPU:1")
    first = run.plane()
    for key in ("event_metadata", "stat_metadata"):
        for number, entry in getattr(first, key).items():
            getattr(other, key)[number].CopyFrom(entry)
    del other.stats[:]
    other.stats.extend(first.stats)
    line = other.lines.add(id=13, name="Stream #13(Compute)")
    line.events.extend(next(x for x in first.lines if x.id == 13).events[::2])
    folder = run.write(tmp_path / "run")
    devices = make_report(folder).require("devices").to_pandas().set_index("device")
    reference = Reference(folder / PROFILE)
    counted = reference.inside(3, 5)
    ends = (counted["start_ps"] + counted["duration_ps"]) / 1000
    low, high = reference.marks[2][1], max(reference.marks[4][2], ends.max())
    for number, group in counted.groupby("device"):
        assert devices.loc[number, "sum_ns"] == group["ns"].sum()
        assert devices.loc[number, "union_ns"] == union_ns(reference.kernels.query("device == @number"), low, high)
    assert devices["sum_ns"].nunique() == 2


@functools.cache
def real(name: str) -> tuple[Reference, dict[str, Any], Any]:
    path = shared(f"samples/xplane/{name}.xplane.pb")
    profile = make_report(path)
    return Reference(path), {n: t.to_pandas() for n, t in profile.tables.items()}, profile.metadata.window


def rounding(count: int) -> int:
    """Nanoseconds by which a sum of times in picoseconds may differ when each is cut to whole ones."""
    return count


def conv_costs(channels: int, filters: int) -> dict[str, Cost]:
    """Predict the passes of generator/conv2d_1 on an A100: 8 images of 14 x 14, 5 x 5, as the model builds it."""
    image, kernel, result = (8, 14, 14, channels), (5, 5, channels, filters), (8, 14, 14, filters)
    inputs: dict[str, tuple[str, tuple[Any, ...], Any]] = {
        "forward": ("Conv2D", (image, kernel), result),
        "dgrad": ("Conv2DBackpropInput", ((4,), kernel, result), image),
        "wgrad": ("Conv2DBackpropFilter", (image, (4,), result), kernel),
    }
    how = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"}
    target = Target(find_gpu("a100-sxm-40"))
    found = {k: op_cost(OpRecord(t, i, o, how, "float16", k), target) for k, (t, i, o) in inputs.items()}
    assert None not in found.values()
    return found  # type: ignore[return-value]


def test_what_the_next_sizes_of_a_layer_save() -> None:
    """63 channels and 31 filters: of each op's time the mean of what one size saves alone and after the other."""
    reference, tables = made()
    counted = reference.inside(3, 5)
    time = counted["ns"].groupby(counted["op"].map(path_of)).sum()
    ops = [o for f in load().graph["functions"] for o in f["ops"] if o["layer"] == "generator/conv2d_1"]
    ran = {o["executed_op"]: o["pass"] for o in ops if o["executes"] == "yes"}
    assert sorted(ran.values()) == ["dgrad", "forward", "forward", "wgrad"]  # to train one model, then the other
    now, wider, both = conv_costs(63, 31), conv_costs(64, 31), conv_costs(64, 32)
    sizes = tables["bad_sizes"].set_index(["layer", "dimension"])
    for dimension, alone in (("filters", conv_costs(63, 32)), ("channels", wider)):
        other = wider if dimension == "filters" else conv_costs(63, 32)
        low = likely = high = 0.0
        for op, kind in ran.items():
            ends = []
            for end in ("low_ns", "ns", "high_ns"):
                first, last = ((getattr(a[kind], end), getattr(b[kind], end)) for a, b in ((now, alone), (other, both)))
                ends.append([(before - after) / getattr(now[kind], end) for before, after in (first, last)])
            each = time[op] / 3  # steps
            low += each * sum(min(e[i] for e in ends) for i in (0, 1)) / 2
            likely += each * sum(ends[1]) / 2
            high += each * sum(max(e[i] for e in ends) for i in (0, 1)) / 2
        row = sizes.loc["generator/conv2d_1", dimension]
        assert [row[f"saving_{end}ns"] for end in ("low_", "", "high_")] == [round(x) for x in (low, likely, high)]
        assert row["saving_pct"] == pytest.approx(100 * 3 * likely / counted["ns"].sum())
        assert row["saving_basis"] == "measured x predicted"
        assert 0 < likely < high < 3 * row["kernel_ns"]


@pytest.mark.parametrize("name", REAL)
def test_real_files_add_up(name: str) -> None:
    reference, tables, window = real(name)
    assert window.basis == "whole capture"
    assert figures(tables).value["kernel_time_ns"] == reference.kernels["ns"].sum()
    assert len(tables["launches"]) == len(reference.kernels)
    devices = tables["devices"].set_index("device")
    assert devices["sum_ns"].sum() == reference.kernels["ns"].sum()
    for number, group in reference.kernels.groupby("device"):
        slack = rounding(2 * len(group))
        assert devices.loc[number, "union_ns"] == pytest.approx(union_ns(group), abs=slack)
        assert devices.loc[number, "sum_ns"] == group["ns"].sum()
        assert devices.loc[number, "memory_ns"] == reference.copies.query("device == @number")["ns"].sum()
        busy = 100 * union_ns(group) / devices.loc[number, "window_ns"]
        assert devices.loc[number, "gpu_busy_pct"] == pytest.approx(busy, rel=1e-3)


@pytest.mark.parametrize("name", REAL)
def test_float32_before_ampere_uses_no_tensor_cores(name: str) -> None:
    _, tables, _ = real(name)
    said = figures(tables)
    assert set(tables["kernels"]["uses_tc"]) == {"no"}
    if "p100" in name:
        assert pd.isna(said.value["tc_kernel_time_pct"])
    else:
        assert (said.value["tc_kernel_time_pct"], said.value["coverage_pct"]) == (0, 100)


@pytest.mark.parametrize("name", REAL)
def test_window_of_real_files(name: str) -> None:
    """The window is the one step that the file holds, on its line Steps, which no kernel leaves."""
    reference, tables, window = real(name)
    begin, end = reference.step
    assert reference.kernels["start_ps"].min() >= begin
    assert (reference.kernels["start_ps"] + reference.kernels["duration_ps"]).max() <= end
    assert window.end_ns - window.start_ns == pytest.approx((end - begin) / 1000, abs=2)
    assert set(tables["devices"]["window_ns"].dropna()) == {window.end_ns - window.start_ns}


@pytest.mark.parametrize("name", REAL)
def test_waiting_of_real_files(name: str) -> None:
    reference, tables, _ = real(name)
    said, length = figures(tables), (reference.step[1] - reference.step[0]) / 1000
    busy = [union_ns(group) for _, group in reference.kernels.groupby("device")]
    assert said.value["step_time_ns"] == pytest.approx(length, abs=2)
    assert said.value["idle_ns"] == pytest.approx(length - np.mean(busy), abs=rounding(2 * len(reference.kernels)))
    assert said.value["idle_pct"] == pytest.approx(100 - said.value["gpu_busy_pct"])


@pytest.mark.parametrize("name", REAL)
def test_ops_of_real_files(name: str) -> None:
    reference, tables, _ = real(name)
    ops = tables["ops"][tables["ops"]["sum_ns"].notna()].set_index("op")
    for path, group in reference.kernels.groupby(reference.kernels["op"].map(path_of)):
        row = ops.loc[path or "(no op)"]
        assert (path, row["sum_ns"], row["launches"]) == (path, group["ns"].sum(), len(group))
        united = sum(union_ns(part) for _, part in group.groupby("device"))
        assert row["union_ns"] == pytest.approx(united, abs=rounding(2 * len(group)))
    assert ops["sum_ns"].sum() == reference.kernels["ns"].sum()
