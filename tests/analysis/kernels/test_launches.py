"""The class of each launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.kernels.launches import NO, UNKNOWN, YES, Launched
from tcprobe.analysis.kernels.table import classify_launches
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import KERNELS
from tests.analysis import builders as b

EVENTS = b.launches((b.TC, 0, 0, 0, 10), (b.FP32, 0, 1, 10, 20), (b.UNKNOWN, 0, 1, 30, 40), (b.TC, -1, 1, 70, 5))


def read(*rows: tuple[str, str]) -> Table:
    made: list[dict[str, Any]] = [
        {"kernel": name, "uses_tc": verdict, "basis": "reported", "evidence": "Uses TC", "sum_ns": 10, "calls": 1}
        for name, verdict in rows
    ]
    return Table.from_rows(KERNELS, made)


def classes(launched: Launched) -> list[int]:
    """The class of each launch."""
    found: list[int] = launched.verdicts[launched.groups.of_launch].tolist()
    return found


def test_every_launch_gets_its_class_in_and_out_of_the_window() -> None:
    run = b.profile(EVENTS, b.details(("m/fc/MatMul", "MatMul")), b.devices({}))
    inside = np.array([False, True, True, True])
    kernels, launched = classify_launches(run, inside)
    assert classes(launched) == [YES, NO, UNKNOWN, YES]
    counted = launched.groups.counted
    assert counted[launched.groups.of_launch].tolist() == inside.tolist()
    assert sum(int(v or 0) for v in kernels.values("sum_ns")) == 65
    assert (launched.time_of(YES)[counted].sum(), launched.time_of(UNKNOWN)[counted].sum()) == (5, 40)
    assert launched.time_of(YES).sum() == 15


def test_the_profilers_verdict_fills_in_where_ours_is_unknown() -> None:
    run = b.profile(EVENTS, b.devices({}), read((b.UNKNOWN, "yes"), (b.FP32, "yes")))
    kernels, launched = classify_launches(run, np.ones(4, np.bool_))
    found = {row["kernel"]: (row["uses_tc"], row["basis"]) for row in kernels.rows()}
    assert found[b.UNKNOWN] == ("yes", "reported")
    assert found[b.FP32] == ("no", "name")
    assert classes(launched) == [YES, NO, YES, YES]


def test_a_profiler_that_contradicts_itself_is_not_believed() -> None:
    run = b.profile(EVENTS, b.devices({}), read((b.UNKNOWN, "yes"), (b.UNKNOWN, "no")))
    assert classes(classify_launches(run, np.ones(4, np.bool_))[1])[2] == UNKNOWN


def test_kernels_that_were_read_stand_without_launches() -> None:
    out = analyse(b.profile(read((b.TC, "yes"), (b.FP32, "no"), (b.UNKNOWN, "unknown")), b.devices({})), Options())
    found = b.summary(out)
    assert (found["tc_kernel_time_pct"]["low"], found["tc_kernel_time_pct"]["high"]) == (100 / 3, 200 / 3)
    assert b.rows(out, "devices")[0]["sum_ns"] == 30
    assert out.table("ops") is None
    assert out.absent["ops"] == "the source names no ops"
