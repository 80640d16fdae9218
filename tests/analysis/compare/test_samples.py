"""Real profiles held against one another, and against what SQL says of their files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.flows.compare import make_comparison
from tcprobe.schema.comparison import Comparison
from tests.analysis.compare.builders import figure, row
from tests.support import shared

BEFORE, AFTER = (f"samples/nsys/h100x2_bf16_{name}_nsys2026.sqlite" for name in ("before", "after"))
FFMA = "samples/nsys/h100x2_fp32_ffma_nsys2026.sqlite"
BY_NAME = """
SELECT StringIds.value, count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL
JOIN StringIds ON StringIds.id = demangledName GROUP BY 1
"""


def by_name(path: Path) -> dict[str, tuple[int, int]]:
    """Return launches and time of each kernel, as SQL adds them up."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        return {name: (calls, ns) for name, calls, ns in database.execute(BY_NAME)}


@pytest.fixture(scope="module")
def before_after() -> Comparison:
    return make_comparison([shared(BEFORE), shared(AFTER)])


@pytest.mark.parametrize("pair", [(BEFORE, AFTER), (FFMA, BEFORE)])
def test_times_and_names_are_those_of_the_files(pair: tuple[str, str]) -> None:
    paths = [shared(path) for path in pair]
    found, told = make_comparison(paths), [by_name(path) for path in paths]
    assert not found.per_step  # no steps are marked in these files: all is of the capture
    for metric, column in (("kernels", 0), ("kernel_time_ns", 1)):
        assert [s.value for s in figure(found, metric).sides] == [sum(r[column] for r in t.values()) for t in told]
    assert {one.name for one in found.kernels} == set(told[0]) | set(told[1])
    for one in found.kernels:
        expected = [kernels.get(one.name, (0, 0)) for kernels in told]
        assert one.sides == tuple(ns for _, ns in expected)
        assert one.launches == tuple(calls for calls, _ in expected)
        assert one.changes == (expected[1][1] - expected[0][1],)
    whole = figure(found, "kernel_time_ns").changes[0].delta
    assert sum(one.changes[0] or 0 for one in found.kernels) == whole
    assert sum(one.changes[0] or 0 for one in found.ops) == whole


def test_before_and_after_run_the_same_kernels(before_after: Comparison) -> None:
    told = [by_name(shared(path)) for path in (BEFORE, AFTER)]
    left, came = set(told[0]) - set(told[1]), set(told[1]) - set(told[0])
    assert {one.name for one in before_after.kernels if one.uses_tc[1] is None} == left
    assert {one.name for one in before_after.kernels if one.uses_tc[0] is None} == came
    assert figure(before_after, "kernel_time_ns").changes[0].delta == 488835406 - 535200650
    assert before_after.renamed == ()
    assert [note.code for note in before_after.notes] == ["compared-whole"]


def test_float32_gives_way_to_bfloat16() -> None:
    found = make_comparison([shared(FFMA), shared(BEFORE)])
    (whole,) = (one for one in found.renamed if one.op is None)
    assert any("sm80_xmma_gemm_f32f32" in name for name in whole.before)
    assert any(name.startswith("nvjet") for name in whole.after)
    flash = next(one for one in found.kernels if "flash_fwd_kernel" in one.name)
    assert flash.uses_tc == (None, "yes")
    assert figure(found, "tc_kernel_time_pct").changes[0].difference == "more"


@pytest.mark.parametrize("path", [BEFORE, FFMA, "samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"])
def test_a_real_run_against_itself(path: str) -> None:
    found = make_comparison([shared(path), shared(path)])
    assert found.names == (f"{shared(path)} (1)", f"{shared(path)} (2)")
    changes = [change for one in found.figures for change in one.changes]
    assert {change.difference for change in changes} <= {"same", "cannot tell", "not known"}
    assert {row.changes[0] for rows in (found.ops, found.kernels) for row in rows} == {0.0}
    assert found.renamed == ()
    assert found.settings == ()


def test_one_step_on_two_gpus() -> None:
    samples = [f"samples/xplane/tf24_{gpu}_alexnet_fp32.xplane.pb" for gpu in ("t4", "v100", "p100")]
    found = make_comparison([shared(path) for path in samples])
    assert found.per_step
    assert {note.code for note in found.notes} >= {"other-gpus"}
    step = figure(found, "step_time_ns")
    assert {(change.difference, change.why) for change in step.changes} == {("cannot tell", "one figure")}
    conv = row(found.layers, "alex_net/conv2d_1")
    assert all(side is not None and side > 0 for side in conv.sides)
    whole = figure(found, "kernel_time_ns").changes[0].delta
    assert sum(one.changes[0] or 0.0 for one in found.layers) == whole
    wgrad = next(one for one in found.renamed if one.op == "gradient_tape/alex_net/conv2d_3/Conv2D/Conv2DBackpropFilter"
                 or (one.op or "").endswith("conv2d_2/Conv2D/Conv2DBackpropFilter"))  # fmt: skip
    assert set(wgrad.before).isdisjoint(wgrad.after)


def test_one_run_in_two_formats_is_one_run() -> None:
    """Nsight Systems of two years exported one report: all is equal."""
    found = make_comparison([shared(f"samples/nsys/rtx3090_tensorrt_nsys2023.{n}.sqlite") for n in (1, 4)])
    assert {change.difference for one in found.figures for change in one.changes} == {"same"}
    assert {one.changes for rows in (found.ops, found.kernels) for one in rows} == {(0.0,)}
    assert found.renamed == ()


def test_reports_of_one_run_of_dlprof_differ_in_nothing_that_both_tell() -> None:
    folder = shared("samples/dlprof/pytorch_1.8")
    found = make_comparison([folder, folder / "dlprof_kernel.csv"])
    told = {change.difference for one in found.figures for change in one.changes if one.metric != "cause_unknown_ns"}
    assert told == {"same", "not known", "cannot tell"}
    assert {one.changes for rows in (found.ops, found.kernels) for one in rows} == {(0.0,)}
    assert found.renamed == ()
    assert "other-gpus" not in {note.code for note in found.notes}


def test_a_table_of_kernels_has_the_causes_that_names_tell() -> None:
    found = make_comparison([shared(BEFORE), shared("samples/nsys_stats/h100x2_mfu_before_cuda_gpu_kern_sum.csv")])
    causes = {one.metric: one.changes[0] for one in found.figures if one.metric.startswith("cause_")}
    assert causes["cause_used_ns"].difference == "same"  # by the names of its kernels alone
    assert causes["cause_never_ns"].difference == "same"
    assert causes["cause_copy_ns"].difference == "not known"
    assert figure(found, "kernel_time_ns").changes[0].difference == "same"


def test_reports_of_dlprof_are_held_against_one_another_by_their_sums() -> None:
    folder = "samples/dlprof/simple_0.16_json"
    names = [f"{gpu}_roberta-large_128-32.json" for gpu in ("a100-40gb-400w", "v100-16gb-300w")]
    found = make_comparison([shared(f"{folder}/{name}") for name in names])
    share = figure(found, "tc_kernel_time_pct")
    assert [round(side.value or 0.0, 1) for side in share.sides] == [29.3, 44.2]
    assert not found.kernels  # DLProf's simple mode names none
    assert not [one for one in found.figures if one.metric == "communication_kernel_time_ns"]


def test_what_changed_in_a_step_stands_at_one_place_of_its_unit() -> None:
    # both repeat a unit of 119 kernels: one all-to-all takes 1 ms longer, nothing else 0.02 ms
    places = make_comparison([shared(BEFORE), shared(AFTER)]).places
    assert len(places) == 119
    first, second = places[:2]
    assert (first.kind, first.place) == ("communication", 113)
    assert first.changes[0] == pytest.approx(1.07e6, rel=0.01)
    assert abs(second.changes[0] or 0.0) < 20_000
