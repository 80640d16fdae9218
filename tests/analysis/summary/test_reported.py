"""Figures of the profiler's own: shown, recomputed, compared."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.summary.reported import Reported
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import REPORTED
from tests.analysis import builders as b
from tests.support import shared


def summary(efficiency: float, ops: int, on_tc: float = 300.0, other: float = 700.0) -> Table:
    values: dict[str, Any] = {
        "Summary Report / Tensor Core Kernel Utilization %": efficiency,
        "All Kernels / Kernels using TC / GPU Time (ns)": on_tc,
        "All Kernels / All other kernels / GPU Time (ns)": other,
        "All Kernels / Memory / GPU Time (ns)": 50.0,
        "All Ops / All ops / # Ops": ops,
        "Summary Report / GPU Idle %": 40.0,
    }
    return Table.from_rows(REPORTED, [{"metric": k, "value": v, "source": "summary"} for k, v in values.items()])


def test_simple_mode_is_recomputed() -> None:
    found = b.summary(analyse(b.profile(summary(30.0, 1), format="dlprof_json"), Options()))
    assert (found["tc_kernel_time_pct"]["value"], found["tc_kernel_time_pct"]["basis"]) == (30.0, "reported")
    assert found["tc_capable_time_pct"]["value"] is None
    assert found["memory_time_ns"]["value"] == 50.0
    assert found["gpu_busy_pct"]["value"] == 60.0


def test_framework_mode_keeps_the_efficiency_as_reported() -> None:
    found = b.summary(analyse(b.profile(summary(35.4, 9), format="dlprof_csv"), Options()))
    assert (found["tc_capable_time_pct"]["value"], found["tc_capable_time_pct"]["basis"]) == (35.4, "reported")
    assert found["tc_kernel_time_pct"]["value"] == 30.0


@pytest.mark.parametrize(("theirs", "codes"), [(30.0, set()), (30.04, set()), (30.2, {"differs-from-profiler"})])
def test_a_difference_beyond_rounding_is_said(theirs: float, codes: set[str]) -> None:
    notes = analyse(b.profile(summary(theirs, 1), format="dlprof_csv"), Options()).metadata.notes
    assert {n.code for n in notes} == codes


def test_no_kernel_time_is_a_failed_measurement() -> None:
    from tcprobe.errors import MeasurementFailed

    with pytest.raises(MeasurementFailed):
        analyse(b.profile(summary(0.0, 1, 0.0, 0.0), gpu_used=True), Options())


def test_names_compare_without_case_and_section() -> None:
    assert Reported(b.profile(summary(35.4, 9))).get("gpu idle %") == 40.0
    assert not Reported(b.profile())


def test_all_real_simple_mode_percentages_are_recomputed_exactly() -> None:
    from tcprobe.readers.dlprof.reader import JSON as dlprof_json

    folder = shared("samples/dlprof/simple_0.16_json")
    files = sorted(folder.glob("*.json"))
    assert len(files) == 11
    for path in files:
        run = dlprof_json.read(dlprof_json.finds(path))
        out = analyse(run, Options())
        theirs = Reported(run).efficiency_pct
        assert b.summary(out)["tc_kernel_time_pct"]["value"] == pytest.approx(theirs, abs=1e-9)
        assert "differs-from-profiler" not in {n.code for n in out.metadata.notes}


def test_the_real_1_7_summary() -> None:
    from tcprobe.readers.dlprof.reader import CSV as dlprof_csv

    path = shared("samples/dlprof/a100x4_pytorch_1.7_summary.csv")
    found = b.summary(analyse(dlprof_csv.read(dlprof_csv.finds(path)), Options()))
    assert found["tc_capable_time_pct"]["value"] == 35.4
    # 43847528 / (43847528 + 221533365)
    assert found["tc_kernel_time_pct"]["value"] == pytest.approx(16.52249, abs=1e-5)
