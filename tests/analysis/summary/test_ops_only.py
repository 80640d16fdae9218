"""Sources that time ops and no kernels."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import OPS, REPORTED
from tests.analysis import builders as b
from tests.support import shared

USING: dict[str, Any] = {
    "op": "a",
    "op_type": "MatMul",
    "tc_capable": "yes",
    "tc_blocker_kind": "none",
    "union_ns": 600,
}
IDLE: dict[str, Any] = {
    "op": "b", "op_type": "Conv2D", "tc_capable": "yes", "tc_ns": 0, "unknown_ns": 0, "union_ns": 300,
}  # fmt: skip
OTHER: dict[str, Any] = {"op": "c", "op_type": "Relu", "tc_capable": "no", "tc_ns": 0, "unknown_ns": 0, "union_ns": 100}


def told(*rows: dict[str, Any]) -> Profile:
    return analyse(b.profile(b.table(OPS, list(rows)), b.devices({}), format="dlprof_csv"))


def test_the_profilers_verdict_on_ops_is_an_upper_bound() -> None:
    out = told(OTHER, IDLE, USING)
    found = b.summary(out)
    using, idle = found["ops_using_tc_time_pct"], found["ops_eligible_not_using_time_pct"]
    assert (using["value"], using["basis"], idle["value"], idle["basis"]) == (60, "reported", 30, "reported")
    assert "an upper bound" in using["reason"]
    assert found["tc_kernel_time_pct"]["value"] is None
    assert (
        "ops that use Tensor Cores took 60.0 % of the ops' GPU time, an upper bound"
        in found["tc_kernel_time_pct"]["reason"]
    )
    assert [row["op"] for row in b.rows(out, "ops")] == ["a", "b", "c"]
    assert b.rows(out, "ops")[0]["tc_blocker"] == "none"


def test_a_verdict_that_is_not_said_makes_a_range() -> None:
    unsaid = {"op": "d", "op_type": "MatMul", "tc_capable": "yes", "union_ns": 1000}
    using = b.summary(told(OTHER, IDLE, USING, unsaid))["ops_using_tc_time_pct"]
    assert (using["value"], using["low"], using["high"]) == (None, 30, 80)


def test_the_gpu_is_idle_within_ops_for_what_the_profiler_says() -> None:
    rows = [{"metric": f"All Iterations / All ops / Total GPU {name} (ns)", "value": ns, "source": "x.csv"}
            for name, ns in (("Time", 100.0), ("Idle", 300.0))]  # fmt: skip
    given = b.profile(b.table(OPS, [OTHER]), b.devices({}), b.table(REPORTED, rows), format="dlprof_csv")
    found = b.summary(analyse(given))
    assert (found["ops_idle_ns"]["value"], found["ops_idle_pct"]["value"]) == (300, 75)
    assert "ops_idle_pct" not in b.summary(told(OTHER))


def test_kernel_times_say_it_better() -> None:
    assert "ops_using_tc_time_pct" not in b.summary(told({**IDLE, "sum_ns": 300}))


@pytest.mark.parametrize("name", ["v100_tf1_0.13_detailed.csv"])
def test_a_real_detail_report_alone(name: str) -> None:
    out = analyse(open_profile(shared(f"samples/dlprof/{name}")))
    found = b.summary(out)["ops_using_tc_time_pct"]
    assert found["value"] == pytest.approx(74.7, abs=0.05)
    # summed by hand from the columns: 207.396608 ms of GPU time, 474.521817 ms idle
    assert b.summary(out)["ops_idle_ns"]["value"] == 474_521_817
    assert b.summary(out)["ops_idle_pct"]["value"] == pytest.approx(100 * 474.521817 / 681.918425)
    spent = [row["union_ns"] for row in b.rows(out, "ops")]
    assert spent == sorted(spent, reverse=True)
    assert b.rows(out, "ops")[0]["tc_blocker"] == "none"
