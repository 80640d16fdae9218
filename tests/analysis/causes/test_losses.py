"""What a run's loss says: since which step it is no number, and what its scaling costs."""

from __future__ import annotations

import math

import pytest

from tcprobe.analysis.causes.losses import diverged, loss_scaling
from tcprobe.rules.run.base import Diverged, LossScaling
from tcprobe.schema.profile import LossScale, Metadata, Policy, Profile
from tests.analysis.causes.test_facts import SCOPE, US, of, op
from tests.report.builders import table

SCALED = (
    op(f"{SCOPE}IsFinite", "IsFinite", 3, dtype="float32"), op(f"{SCOPE}IsFinite_1", "IsFinite", 2),
    op(f"{SCOPE}All_2", "All", 4), op(f"{SCOPE}cond/then/_22/cond/adam/Square", "Square", 50),
    op("dense/MatMul", "MatMul", 90, dtype="float16"),
)  # fmt: skip


def test_dynamic_loss_scaling_shows_in_its_ops_and_its_branch() -> None:
    answer = {"device": 0, "start_ns": 0, "duration_ns": 700 * US, "share_pct": 1.0, "host_work": "unknown"}
    gaps = table("gaps", {**answer, "after": "MemcpyD2H 1 B"}, {**answer, "after": "MemcpyD2H 4 B"})
    assert loss_scaling(of(ops=SCALED).with_tables(gaps)) == LossScaling(2, 9.0 * US, 700.0 * US)
    assert loss_scaling(of(ops=SCALED[:3], precision="mixed_float16")) is None  # no branch around the update
    assert loss_scaling(of(ops=SCALED[2:])) is None  # nothing looks at a gradient
    assert loss_scaling(of(ops=SCALED[:4])) is None  # nothing computes in float16
    assert loss_scaling(of(ops=SCALED, precision="mixed_bfloat16")) is None
    assert loss_scaling(of(ops=(*SCALED[:4], op("d/MatMul", "MatMul", 9, dtype="bfloat16")))) is None
    untimed = tuple({**row, "sum_ns": None} for row in SCALED)
    assert loss_scaling(of(ops=untimed)) is None


def logged(*rows: tuple[int | None, str, float], scales: tuple[LossScale, ...] = ()) -> Profile:
    policy = Policy("mixed_float16", "script", loss_scales=scales)
    metrics = [{"step": step, "name": name, "value": value} for step, name, value in rows]
    return Profile(Metadata("run_folder", policy=policy)).with_tables(table("metrics", *metrics))


@pytest.mark.parametrize(
    ("values", "step", "before", "value"),
    [
        ([2.0, math.nan, math.nan], 1, 0, 2.0),
        ([2.0, math.nan, 1.5, math.inf], 3, 2, 1.5),  # it came back once
        ([math.nan, math.nan], 0, None, None),
        ([2.0, math.inf, math.nan], 2, 0, 2.0),  # the infinity before is no finite value
    ],
)
def test_the_first_step_that_logs_it_and_the_last_finite_one(
    values: list[float], step: int, before: int | None, value: float | None
) -> None:
    found = diverged(logged(*((n, "loss", v) for n, v in enumerate(values))))
    assert found is not None
    assert (found.step, found.before, found.before_value) == (step, before, value)


def test_of_several_losses_the_first_with_its_scale() -> None:
    rows = [(0, "d_loss", 1.0), (0, "g_loss", 1.0), (100, "d_loss", math.nan), (100, "acc", math.nan)]
    rows += [(200, "g_loss", math.nan), (200, "d_loss", math.nan)]
    found = diverged(logged(*rows, scales=(LossScale("fixed", 1e6),)))
    assert found == Diverged("d_loss", "nan", 100, 0, 1.0, half=True, scale="fixed", scale_value=1e6)
    several = diverged(logged(*rows, scales=(LossScale("fixed", 1e6), LossScale("none"))))
    assert several is not None
    assert several.scale is None


def test_a_loss_that_ends_well_or_outside_steps() -> None:
    assert diverged(logged((0, "loss", math.nan), (1, "loss", 2.0))) is None
    assert diverged(logged((0, "accuracy", math.nan))) is None
    assert diverged(Profile(Metadata("xplane"))) is None
    found = diverged(logged((None, "loss", math.nan)))
    assert found is not None
    assert found.step is None
