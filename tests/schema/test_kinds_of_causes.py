"""The closed list of causes: it holds every blocker, and each cause is in one part of the bar."""

from __future__ import annotations

from collections import Counter

from tcprobe.schema.kinds import BLOCKERS, CAUSE_GROUPS, CAUSES, GROUP_OF, ON_TENSOR_CORES


def test_every_blocker_is_a_cause() -> None:
    assert set(BLOCKERS) < set(CAUSES)


def test_every_cause_is_in_one_group() -> None:
    counted = Counter(cause for causes in CAUSE_GROUPS.values() for cause in causes)
    assert set(counted) == set(CAUSES)
    assert set(counted.values()) == {1}
    assert set(GROUP_OF) == set(CAUSES)


def test_only_causes_of_use_are_on_tensor_cores() -> None:
    assert {GROUP_OF[cause] for cause in ON_TENSOR_CORES} == {"well", "slowly", "used"}
