"""What a step spends on updates: by the scopes of the optimizers that the probe saw."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import LossScale, Metadata, Policy, Profile
from tests.report.builders import table

MS = 1_000_000


def host(op: str, op_type: str, ms: float, calls: int = 4) -> dict[str, Any]:
    return {
        "op": op,
        "op_type": op_type,
        "calls": calls,
        "sum_ns": round(ms * MS),
        "min_ns": 0,
        "max_ns": round(ms * MS),
    }


OPS = (
    host("model/dense/MatMul", "MatMul", 400),
    host("IsFinite", "IsFinite", 2),
    host("All_2", "All", 2),
    host("cond/then/_0/cond/adam/Sub_2", "Sub", 12),
    host("cond/then/_0/cond/truediv", "RealDiv", 4),
    host("gan/madam/Sub", "Sub", 100),
)


def update(*scales: LossScale, ops: tuple[dict[str, Any], ...] = OPS) -> Row | None:
    metadata = Metadata("run_folder", gpu_used=False, policy=Policy("mixed_float16", "script", loss_scales=scales))
    return analyse(Profile(metadata).with_tables(table("host_ops", *ops)), Options()).figure("update_ns")


@pytest.mark.parametrize(
    ("scale", "ms", "said"),
    [
        (LossScale("dynamic", 32768.0, "adam"), 5.0, "4 ops, with a dynamic loss scale's own: the CPU's time"),
        (LossScale("fixed", 1024.0, "adam"), 3.0, "1 ops, without a dynamic loss scale: the CPU's time"),
    ],
)
def test_the_time_of_an_update_on_the_cpu(scale: LossScale, ms: float, said: str) -> None:
    found = update(scale)
    assert found is not None
    assert (found["value"], found["reason"]) == (ms * MS, said)


def test_nothing_is_told_of_updates_that_nobody_saw() -> None:
    assert update() is None
    assert update(LossScale("none")) is None
    assert update(LossScale("none", optimizer="sgd")) is None


def test_optimizers_that_scale_alike_have_one_scale() -> None:
    alike = (LossScale("fixed", 2.0, "adam"), LossScale("fixed", 2.0, "sgd"))
    assert Policy(loss_scales=alike).loss_scale == alike[0]
    assert Policy(loss_scales=(*alike, LossScale("none"))).loss_scale is None
