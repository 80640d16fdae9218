"""The analysis from end to end: hand-worked runs, real captures, and properties of any run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.validity import idle_notes
from tcprobe.errors import MeasurementFailed, UsageError
from tcprobe.schema.profile import Note, Policy, Profile
from tcprobe.schema.tables import DERIVED
from tests.analysis import builders as b
from tests.support import examples, shared

OPS = b.details(
    ("model/dense/MatMul", "MatMul"), ("model/dense/BiasAdd", "BiasAdd"), ("sgd/AssignSubVariableOp", "Assign")
)


def steady(count: int = 6, period: int = 1000) -> Profile:
    """Each step: 300 ns of a Tensor Core MatMul, 100 ns of BiasAdd, 100 ns of an unknown kernel, 500 ns idle."""
    rows = []
    for i in range(count):
        at = i * period
        rows += [(b.TC, 0, i, at, 300), (b.OTHER, 1, i, at + 300, 100), (b.UNKNOWN, 2, i, at + 400, 100)]
    return b.profile(b.launches(*rows), OPS, b.devices({}), b.marks([i * period for i in range(count)], 900))


def test_figures_of_a_steady_run() -> None:
    out = analyse(steady(), Options())
    found = b.summary(out)
    # per step 300 TC, 100 other, 100 unknown: 60 % to 80 %, coverage 80 %
    assert (found["tc_kernel_time_pct"]["value"], found["tc_kernel_time_pct"]["low"]) == (60.0, 60.0)
    assert found["tc_kernel_time_pct"]["high"] == 80.0
    assert found["coverage_pct"]["value"] == 80.0
    assert found["tc_capable_time_pct"]["value"] == 100.0
    assert found["capable_time_pct"]["value"] == 60.0
    assert found["kernel_time_ns"]["value"] == 6 * 500
    assert found["kernels"]["value"] == 18
    assert found["iterations_in_window"]["value"] == 6
    assert found["step_time_ns"]["value"] == 1000
    # The window ends with the last step's mark: 5900 ns, of which kernels run 3000.
    assert found["gpu_busy_pct"]["value"] == pytest.approx(100 * 3000 / 5900)
    assert "low-coverage" in {n.code for n in out.metadata.notes}


def test_ops_layers_iterations_and_devices_add_up() -> None:
    out = analyse(steady(), Options())
    for name in ("kernels", "ops", "layers", "devices", "iterations"):
        assert sum(row["sum_ns"] for row in b.rows(out, name)) == 3000, name
    for name in ("ops", "layers", "devices", "iterations"):
        assert sum(row["tc_ns"] for row in b.rows(out, name)) == 1800, name
        assert sum(row["unknown_ns"] for row in b.rows(out, name)) == 600, name
    layers = {row["layer"]: row for row in b.rows(out, "layers")}
    assert layers["model/dense"]["share_pct"] == 80.0
    assert layers["model/dense"]["forward_ns"] == 2400
    assert sum(row["share_pct"] for row in layers.values()) == pytest.approx(100)


def test_warm_up_and_tail_are_left_out() -> None:
    rows: list[tuple[Any, ...]] = [(b.FP32, 0, 0, 10 * i, 10) for i in range(40)]  # step 0 tries 40 algorithms
    rows += [(b.TC, 0, i, 1000 * i, 300) for i in range(1, 7) for _ in range(2)]
    rows += [(b.OTHER, 1, 7, 7000, 100)]  # recording stopped in step 7
    out = analyse(b.profile(b.launches(*rows), OPS, b.devices({})), Options())
    window = out.metadata.window
    assert (window.first, window.last, window.basis) == (1, 6, "detected")
    assert (window.start_ns, window.end_ns) == (1000, 7000)
    assert b.summary(out)["tc_kernel_time_pct"]["value"] == 100.0
    assert [row["in_window"] for row in b.rows(out, "iterations")] == [False, *[True] * 6, False]
    assert sum(row["sum_ns"] for row in b.rows(out, "kernels")) == 6 * 600


def test_asked_for_iterations() -> None:
    out = analyse(steady(), Options(iter_start=2, iter_stop=3))
    assert (out.metadata.window.first, out.metadata.window.last) == (2, 3)
    assert b.summary(out)["kernel_time_ns"]["value"] == 1000
    only_stop = analyse(steady(), Options(iter_stop=1))
    assert (only_stop.metadata.window.first, only_stop.metadata.window.last) == (0, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(iter_start=9), "0 to 5"),
        (Options(iter_stop=-1), "0 to 5"),
        (Options(iter_start=4, iter_stop=2), "comes after"),
        (Options(target_gpu="no-such-gpu", iter_start=99), "no GPU called"),
    ],
)
def test_bounds_outside_the_profile(options: Options, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        analyse(steady(), options)


def test_a_profile_without_iterations_has_none_to_choose_from() -> None:
    run = b.profile(b.launches((b.TC, -1, None, 0, 10)), b.devices({}))
    with pytest.raises(UsageError, match="no iterations"):
        analyse(run, Options(iter_start=1))


def test_one_step_is_reported_whole() -> None:
    out = analyse(steady(1), Options())
    assert "one-step-only" in {n.code for n in out.metadata.notes}
    assert b.summary(out)["tc_kernel_time_pct"]["value"] == 60.0
    assert out.metadata.window.basis == "whole capture"


def test_a_used_gpu_without_kernels_is_a_failed_measurement() -> None:
    with pytest.raises(MeasurementFailed, match="no kernel was recorded"):
        analyse(b.profile(b.launches(), b.devices({})), Options())
    with pytest.raises(MeasurementFailed):
        analyse(b.profile(b.steps((0, 0, 5, "measured")), gpu_used=True), Options())


@pytest.mark.parametrize(
    ("notes", "why", "hint"),
    [
        ([("warning", None)], "the profiler says: warning", "check that the steps ran"),
        ([("warning", None), ("error", None)], "the profiler says: error", "check that the steps ran"),
        ([("error", None), ("error 2", "mend it")], "the profiler says: error 2", "mend it"),
    ],
)
def test_what_the_profiler_says_is_told_where_no_kernel_was_recorded(
    notes: list[tuple[str, str | None]], why: str, hint: str
) -> None:
    levels = (("error" if text.startswith("error") else "warning", text, remedy) for text, remedy in notes)
    said = [Note(f"profiler-{level}", f"the profiler says: {t}", r, level) for level, t, r in levels]  # type: ignore[arg-type]
    with pytest.raises(MeasurementFailed, match=f"no kernel was recorded: {why}") as raised:
        analyse(b.profile(b.launches(), b.devices({})).with_notes(*said), Options())
    assert str(raised.value.hint).startswith(hint)


def test_a_gpu_without_tensor_cores_has_no_share_of_them() -> None:
    pascal = {"name": "Tesla P100-PCIE-16GB", "compute_capability": "6.0", "sm_count": 56}
    rows = [(b.FP32, 0, i, 1000 * i, 300) for i in range(5)]
    out = analyse(b.profile(b.launches(*rows), OPS, b.devices(pascal)), Options())
    found = b.summary(out)["tc_kernel_time_pct"]
    assert found["value"] is None
    assert found["reason"] == "not applicable: Tesla P100-PCIE-16GB has no Tensor Cores"
    for name, column in (
        ("devices", "tc_kernel_time_pct"),
        ("iterations", "tc_kernel_time_pct"),
        ("layers", "tc_capable_time_pct"),
    ):
        assert {row[column] for row in b.rows(out, name)} == {None}
    assert b.rows(out, "ops")[0]["tc_blocker"] == "GPU has no Tensor Cores"


def test_a_run_without_gpu_gives_what_it_can() -> None:
    run = b.profile(
        b.host_ops(("model/a/MatMul", "MatMul", 3, 900), ("model/a/Relu", "Relu", 3, 90)),
        b.graph(b.dense("a", 100, 3087)),
        b.steps((0, 0, 50, "warm-up"), (1, 50, 20, "measured"), (2, 70, 22, "measured"), (3, 92, None, "measured")),
        b.metrics((0, "throughput", 1.0, "img/s"), (1, "throughput", 9.0, "img/s"), (2, "throughput", 11.0, "img/s")),
        gpu_used=False,
    )
    out = analyse(run, Options())
    found = b.summary(out)
    assert found["tc_kernel_time_pct"]["reason"] == "no GPU: Tensor Core use was not measured"
    assert found["kernel_time_ns"]["value"] is None
    assert found["step_time_ns"]["value"] == 21.0
    assert (found["throughput"]["value"], found["throughput"]["text"]) == (10.0, "img/s")
    assert found["flops_per_step"]["value"] == 2 * 32 * 100 * 3087
    assert found["bad_size_count"]["value"] == 2
    first = b.rows(out, "ops")[0]
    assert (first["layer"], first["host_ns"], first["sum_ns"], first["tc_blocker"]) == ("a", 900, None, "none")
    assert b.rows(out, "layers")[0]["flops"] == 2 * 32 * 100 * 3087


def test_blockers_follow_the_target_gpu() -> None:
    run = b.profile(b.graph(b.dense("a", 64, 64, dtype="float32")), gpu_used=False)
    assert b.rows(analyse(run, Options()), "gemms")[0]["tc_blocker"] == "none"
    assert "float32" in b.rows(analyse(run, Options(target_gpu="t4")), "gemms")[0]["tc_blocker"]


def test_rate_and_share_of_peak() -> None:
    # 2*1024^3 FLOPs a step in 100 us: 21.5 TFLOP/s, 17.2 % of a V100's 125.
    layer = b.dense("dense", 1024, 1024, batch=1024)
    rows = [(b.TC, 0, i, 1_000_000 * i, 100_000) for i in range(5)]
    out = analyse(b.profile(b.launches(*rows), OPS, b.devices({}), b.graph(layer)), Options())
    found = b.summary(out)
    assert found["achieved_tflop_per_s"]["value"] == pytest.approx(21.47, abs=0.01)
    assert found["peak_pct"]["value"] == pytest.approx(17.18, abs=0.01)


def test_a_rate_of_what_may_run_more_often_is_a_lower_bound() -> None:
    layer = b.dense("dense", 1024, 1024, batch=1024, calls_per_step=2.0, at_least=True)
    rows = [(b.TC, 0, i, 1_000_000 * i, 100_000) for i in range(5)]
    found = b.summary(analyse(b.profile(b.launches(*rows), OPS, b.devices({}), b.graph(layer)), Options()))
    for metric, low in (("achieved_tflop_per_s", 42.95), ("peak_pct", 34.36)):
        assert (found[metric]["value"], found[metric]["high"]) == (None, None)
        assert found[metric]["low"] == pytest.approx(low, abs=0.01)


def test_idle_devices_are_named() -> None:
    run = b.profile(b.launches((b.TC, -1, None, 0, 10)), b.devices({}, {"device": 1}, {"device": 2}))
    out = analyse(run, Options())
    assert [row["state"] for row in b.rows(out, "devices")] == ["active", "idle", "idle"]
    assert [n.message for n in out.metadata.notes if n.code == "idle-devices"] == [
        "1 of 3 GPUs ran kernels, 2 were idle"
    ]


@pytest.mark.parametrize(
    ("vendor", "variable"),
    [("Nvidia", "CUDA_VISIBLE_DEVICES"), (None, "CUDA_VISIBLE_DEVICES"), ("AMD", "ROCR_VISIBLE_DEVICES")],
)
def test_idle_gpus_are_hidden_by_the_variable_of_their_vendor(vendor: str | None, variable: str) -> None:
    (note,) = idle_notes(
        b.devices({"state": "active", "vendor": vendor}, {"device": 1, "state": "idle", "vendor": vendor})
    )
    assert note.remedy == f"set {variable} to those in use"
    (note,) = idle_notes(
        b.devices({"state": "active", "vendor": vendor}, {"device": 1, "state": "idle", "vendor": "Intel"})
    )
    assert note.remedy is None


def test_gpus_that_other_replicas_use_are_not_to_be_hidden() -> None:
    two = b.devices({"state": "active", "vendor": "Nvidia"}, {"device": 1, "state": "idle", "vendor": "Nvidia"})
    (note,) = idle_notes(two, ["replica_4/dense/MatMul", "gradient_tape/replica_6/dense/MatMul", "dense/MatMul"])
    assert note.remedy is None and "replica_4, replica_6" in note.message
    (note,) = idle_notes(two, ["replica_0/dense/MatMul", "replica/dense/MatMul"])
    assert note.remedy == "set CUDA_VISIBLE_DEVICES to those in use"


def test_kernels_of_no_step_are_named() -> None:
    rows = [(b.TC, 0, i, 1000 * i, 300) for i in range(6)] + [(b.OTHER, -1, None, 3500, 400)]
    out = analyse(b.profile(b.launches(*rows), OPS, b.devices({})), Options())
    assert "kernels-outside-steps" in {n.code for n in out.metadata.notes}
    assert b.summary(out)["kernel_time_ns"]["value"] == 1800


def test_marks_without_kernels_fall_back_to_the_whole_capture() -> None:
    run = b.profile(b.launches((b.TC, -1, None, 0, 10)), b.devices({}), b.marks([0, 100, 200, 300, 400], 90))
    out = analyse(run, Options())
    assert "steps-without-kernels" in {n.code for n in out.metadata.notes}
    assert b.summary(out)["kernel_time_ns"]["value"] == 10


def test_precision_that_differs_is_said() -> None:
    rows = [(b.FP32, 0, i, 1000 * i, 300) for i in range(5)]
    out = analyse(b.profile(b.launches(*rows), OPS, b.devices({}), precision="mixed_float16"), Options())
    assert "precision-differs" in {n.code for n in out.metadata.notes}
    own = b.profile(b.launches(*rows), OPS, b.devices({}), policy=Policy("mixed_float16", "script"))
    (note,) = [n for n in analyse(own, Options()).metadata.notes if n.code == "precision-differs"]
    assert note.message.startswith("mixed_float16 was set by the script, and ")


@pytest.mark.parametrize(
    ("name", "kernels", "gpu"),
    [
        ("tf24_t4_alexnet_fp32", 190, "Tesla T4"),
        ("tf24_v100_alexnet_fp32", 175, "Tesla V100 SXM2"),
        ("tf25_turing_chess_fp32", 159, "GeForce RTX 2060 Max-Q"),
    ],
)
def test_real_captures_of_one_step(name: str, kernels: int, gpu: str | None) -> None:
    from tcprobe.readers.xspace import xplane

    path = shared(f"samples/xplane/{name}.xplane.pb")
    out = analyse(xplane.read(xplane.finds(path)), Options())
    found = b.summary(out)
    assert (found["tc_kernel_time_pct"]["value"], found["kernels"]["value"]) == (0.0, kernels)
    assert b.rows(out, "devices")[0]["name"] == gpu
    capable = [row for row in b.rows(out, "ops") if row["tc_capable"] == "yes" and row["sum_ns"]]
    assert capable
    assert all(str(row["tc_blocker"]).startswith("float32 cannot use") for row in capable)
    assert sum(row["sum_ns"] for row in b.rows(out, "layers")) == found["kernel_time_ns"]["value"]


EVENT = st.tuples(
    st.sampled_from([b.TC, b.FP32, b.OTHER, b.UNKNOWN]), st.integers(-1, 2), st.none() | st.integers(0, 9),
    st.integers(0, 20_000), st.integers(0, 3000), st.integers(0, 1),
)  # fmt: skip
SHARES = ("tc_kernel_time_pct", "gpu_busy_pct", "share_pct", "tc_capable_time_pct")


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(EVENT, min_size=1, max_size=40), st.booleans())
def test_parts_make_the_whole_and_shares_stay_within_bounds(events: list[Any], marked: bool) -> None:
    tables = [b.launches(*events), OPS, b.devices({}, {"device": 1})]
    if marked:
        tables.append(b.marks([2000 * i for i in range(10)], 1900))
    out = analyse(b.profile(*tables), Options())
    whole = sum(row["sum_ns"] for row in b.rows(out, "kernels"))
    for name in ("ops", "layers", "devices"):
        if out.table(name) is not None:
            assert sum(row["sum_ns"] for row in b.rows(out, name)) == whole
    for spec in DERIVED:
        for column in (c for c in SHARES if out.table(spec.name) is not None and c in out.require(spec.name)):
            values = out.require(spec.name).numbers(column)
            assert not ((values < 0) | (values > 100 + 1e-9)).any()
    for row in b.rows(out, "ops"):
        assert row["union_ns"] <= row["sum_ns"]
        assert row["tc_ns"] + row["unknown_ns"] <= row["sum_ns"]


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(EVENT, min_size=1, max_size=25), st.randoms())
def test_the_order_of_rows_does_not_show(events: list[Any], random: Any) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)
    first, second = (
        analyse(b.profile(b.launches(*rows), OPS, b.devices({}, {"device": 1})), Options())
        for rows in (events, shuffled)
    )
    for spec in DERIVED:
        assert b.rows(first, spec.name) == b.rows(second, spec.name)
    assert first.metadata == second.metadata


def test_the_input_is_left_as_it_was() -> None:
    run = steady()
    before = {
        name: {c: np.copy(d) if isinstance(d, np.ndarray) else d.tolist() for c, d in t.columns.items()}
        for name, t in run.tables.items()
    }
    analyse(run, Options())
    for name, columns in before.items():
        for column, data in columns.items():
            now = run.tables[name].columns[column]
            assert np.array_equal(data, now, equal_nan=True) if isinstance(now, np.ndarray) else data == now.tolist()


JSON = st.sampled_from(
    ["", "{", "null", "[]", "[[1, 2], [2, null]]", "[[32, 64], [64, 31]]", '["float16"]', "[[1e400]]", "7",
     '{"transpose_a": 1}', '{"strides": [1, 0, 2, 1], "data_format": "NHWC"}', '{"equation": "ab,bc->ac"}',
     "[[4, 8, 8, 3], [3, 3, 3, 7]]", '{"aliases": [1, "x:y"]}']
)  # fmt: skip
RECORD = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["m/a/MatMul", "m/b/Conv2D", "x", "gradient_tape/m/a/MatMul/MatMul_1"]),
        "op_type": st.sampled_from(["MatMul", "Conv2D", "Conv2DBackpropInput", "Einsum", "dot", "convolution", "Odd"]),
        "executes": st.sampled_from(["yes", "no", "unknown"]),
        "pass": st.sampled_from([None, "forward", "dgrad", "wgrad", "other"]),
        "layer": st.sampled_from([None, "a", "b/c"]),
        "input_shapes": JSON, "input_dtypes": JSON, "output_shape": JSON, "attributes": JSON,
        "calls_per_step": st.none() | st.floats(allow_nan=False),
    }
)  # fmt: skip


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(RECORD, max_size=6), st.lists(EVENT, max_size=6))
def test_damaged_graphs_give_tables_all_the_same(records: list[Any], events: list[Any]) -> None:
    tables = [b.graph(*records), b.host_ops(("m/a/MatMul", "MatMul", 1, 5))]
    tables += [b.launches(*events), OPS, b.devices({})] if events else []
    out = analyse(b.profile(*tables, gpu_used=bool(events)), Options())
    for row in b.rows(out, "bad_sizes"):
        assert row["size"] % row["multiple"] != 0
        assert row["next_size"] - row["size"] < row["multiple"]
        assert row["flops_pct"] is None or 0 <= row["flops_pct"] <= 100 + 1e-9
    assert len(b.rows(out, "gemms")) == 0 or {r["basis"] for r in b.rows(out, "gemms")} <= {"graph"}
