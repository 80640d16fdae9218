"""The closed list of causes: it holds every blocker, and each cause is in one part of the bar."""

from __future__ import annotations

from collections import Counter

from tcprobe.schema.kinds import BLOCKERS, CAUSE_GROUPS, CAUSES, GROUP_OF


def test_every_blocker_is_a_cause() -> None:
    assert set(BLOCKERS) < set(CAUSES)


def test_every_cause_is_in_one_group() -> None:
    counted = Counter(cause for causes in CAUSE_GROUPS.values() for cause in causes)
    assert set(counted) == set(CAUSES)
    assert set(counted.values()) == {1}
    assert set(GROUP_OF) == set(CAUSES)
