"""What of a profile is held against another one: how many steps its sums are of, and which GPUs ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcprobe.analysis.summary.waiting import steps_of
from tcprobe.schema.profile import Profile

UNNAMED: Final = "unknown"
"""What to call a GPU without a name."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a comparison.

    Attributes:
        profile: analysed.
        share: what the sums over its window are multiplied by: one over its counted steps, 1.0 where whole captures
            are held against one another.
    """

    profile: Profile
    share: float


def runs_of(profiles: Sequence[Profile]) -> tuple[tuple[Run, ...], bool]:
    """Return the runs, and whether their sums are of a step: only where the steps of all of them are known."""
    steps = [steps_of(profile) for profile in profiles]
    per_step = all(steps)
    shares = (1.0 / count if per_step and count else 1.0 for count in steps)
    return tuple(Run(profile, share) for profile, share in zip(profiles, shares, strict=True)), per_step


def gpus_of(profile: Profile) -> tuple[str, ...]:
    """Return the names of the GPUs that ran kernels, sorted; a GPU without a name is ``unknown``."""
    rows = (row for row in profile.require("devices").rows() if row["state"] == "active")
    return tuple(sorted(str(row["name"] or UNNAMED) for row in rows))
