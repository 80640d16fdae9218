"""The figures of several recorders for one step, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.profiles import kernels
from bench.gpu.profiles.compared import Contradiction, Uneven, comparable, compare
from bench.gpu.profiles.kernels import Tally
from bench.gpu.summary.section import about
from bench.gpu.tables import LAUNCHES, write_table

GEMM = "nvjet_hsh_128x128_64x4_1x2_h_bz_coopA_TNT"
COPY = "void at::native::vectorized_elementwise_kernel<4, true>(int, float)"
COPY_OF_NCU = "void at::native::vectorized_elementwise_kernel<(int)4, (bool)1>(int, float)"
OWN = "my_kernel"
HMMA = "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active.avg.pct_of_peak_sustained_active"
COLUMNS = (*LAUNCHES, HMMA)


def unit(folder: Path, recorder: str, **told: Any) -> Path:
    place = folder / "profiles" / f"gan-torch-{recorder}"
    place.mkdir(parents=True)
    (place / "unit.json").write_text('{"status": "done"}')
    fixed = {"recorder": recorder, "version": "2.11", "precision": "bfloat16", "notes": [], "counted_steps": None}
    (place / "step.json").write_text(json.dumps({**fixed, **told}))
    return place


@pytest.fixture
def day(tmp_path: Path) -> Path:
    (tmp_path / "provenance.json").write_text('{"nvidia_smi": {"compute_cap": "9.0"}}')
    unit(tmp_path, "plain", step_ns=100.0, plain_step_ns=100.0, peak_memory_bytes=7)
    place = unit(tmp_path, "kineto", step_ns=150.0, plain_step_ns=120.0, counted_steps=2)
    # per step: a GEMM of 60, two copies of 15 in all, a kernel of its own of 5
    table = {GEMM: Tally(2, 120, 50, 70), COPY: Tally(4, 30, 5, 10), OWN: Tally(2, 10, 5, 5)}
    kernels.write(place, table)
    place = unit(tmp_path, "ncu", counted_steps=1)
    rows = [(GEMM, 40, 60.0), (GEMM, 20, 60.0), (COPY_OF_NCU, 10, 30.0), (COPY_OF_NCU, 10, 30.0), (OWN, 20, "")]
    named = [
        {"case": "step", "launch": n, "kernel": kernel, "duration_ns": ns, HMMA: pct}
        for n, (kernel, ns, pct) in enumerate(rows)
    ]
    write_table(place / kernels.FILE, COLUMNS, named)
    return tmp_path


def test_figures_stand_side_by_side(day: Path) -> None:
    (step,) = compare(day, about(day).capability)
    assert (step.model, step.framework) == ("gan", "torch")
    plain, kineto, ncu = step.recordings
    assert [one.recorder for one in step.recordings] == ["plain", "kineto", "ncu"]
    assert (plain.step_ns, plain.overhead_pct, plain.kernel_ns, plain.tc_pct) == (100.0, None, None, None)
    assert (kineto.plain_step_ns, kineto.overhead_pct) == (120.0, pytest.approx(25.0))
    assert (kineto.kernel_ns, kineto.kernels) == (80.0, 4.0)
    assert (kineto.tc_pct, kineto.unknown_pct) == (75.0, pytest.approx(6.25))
    # the counters say that copies use Tensor Cores, and nothing of the kernel of its own
    assert (kineto.counter_tc_pct, kineto.counter_unknown_pct) == (93.75, 6.25)
    assert (ncu.step_ns, ncu.kernel_ns, ncu.kernels) == (None, 100.0, 5.0)
    assert (ncu.tc_pct, ncu.counter_tc_pct, ncu.counter_unknown_pct) == (60.0, 80.0, 20.0)


def test_where_name_and_counters_disagree(day: Path) -> None:
    (step,) = compare(day, about(day).capability)
    (found,) = step.contradictions
    assert isinstance(found, Contradiction)
    assert (found.kernel, found.by_name, found.by_counters) == (COPY_OF_NCU, "no", "yes")
    assert found.counter_evidence == f"{HMMA} 30 %"


def test_launches_are_compared_under_one_spelling(day: Path) -> None:
    (step,) = compare(day, about(day).capability)
    # two copies a step by both; one GEMM of Kineto's against two of Nsight Compute's
    assert step.uneven == (Uneven(GEMM, {"kineto": 1.0, "ncu": 2.0}),)


def test_a_name_that_one_lacks(day: Path) -> None:
    place = unit(day, "nsys", step_ns=120.0, counted_steps=1)
    kernels.write(place, {GEMM: Tally(1, 60, 60, 60), COPY: Tally(2, 15, 5, 10)})
    (step,) = compare(day, about(day).capability)
    assert [one.recorder for one in step.recordings] == ["plain", "kineto", "nsys", "ncu"]
    assert (step.recordings[2].plain_step_ns, step.recordings[2].overhead_pct) == (100.0, pytest.approx(20.0))
    assert Uneven(OWN, {"kineto": 1.0, "nsys": 0.0, "ncu": 1.0}) in step.uneven


def test_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    assert compare(tmp_path, None) == []
    place = unit(tmp_path, "kineto", step_ns=150.0, plain_step_ns=100.0, counted_steps=4)
    kernels.write(place, {})
    (step,) = compare(tmp_path, None)
    (only,) = step.recordings
    assert (only.overhead_pct, only.kernel_ns, only.tc_pct, only.counter_tc_pct) == (50.0, None, None, None)
    assert step.contradictions == step.uneven == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (COPY, COPY_OF_NCU),
        ("void f<(unsigned int)4, (a::B)0>(int)", "void f<4u, (a::B)0>(int)"),
        ("void <unnamed>::g<float>(T1)", "void (anonymous namespace)::g<float>(float)"),
        (
            "void k<4, h(It &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int)",
            "void k<4, h(It&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
        ),
        (GEMM, GEMM),
    ],
)
def test_tools_spell_one_kernel_in_their_own_ways(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


def test_other_kernels_stay_apart() -> None:
    assert comparable("void f<4, true>(int)") != comparable("void f<8, true>(int)")
    assert comparable("f<float>(int)") != comparable("g<float>(int)")


def test_a_step_that_was_counted_in_part_is_not_summed(day: Path) -> None:
    place = day / "profiles" / "gan-torch-ncu" / "step.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "counted_steps": None}))
    (step,) = compare(day, about(day).capability)
    ncu = step.recordings[-1]
    assert (ncu.kernel_ns, ncu.kernels, ncu.counter_tc_pct) == (None, None, 80.0)
    assert step.uneven == ()
    assert len(step.contradictions) == 1
