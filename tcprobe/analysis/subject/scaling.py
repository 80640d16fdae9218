"""Find dynamic loss scaling: the ops that look whether gradients are finite, and the waiting for their answer.

Keras 2 and 3 put an IsFinite and an All before each update of the weights, and the update into a branch of the graph
(``cond/then/_12/...``), whose condition the host reads: the GPU copies one byte to it and waits.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tcprobe.rules.run.facts import LossScaling
from tcprobe.schema.columns import Names
from tcprobe.schema.profile import Profile

LOOKS: Final = "IsFinite"
JOINS: Final = "All"
BRANCH: Final = re.compile(r"(?:^|/)cond(?:_\d+)?/(?:then|else)/_\d+/")
HALF: Final = re.compile(r"(?<![a-z])(?:float16|half)")
ANSWER: Final = "MemcpyD2H 1 B"
"""The copy of a condition, as `gaps` names it."""


def loss_scaling(profile: Profile) -> LossScaling | None:
    """Return what dynamic loss scaling adds to the window; None where nothing shows it, or no kernel time is known.

    What looks for infinities for another reason (a check of gradients) has no branch around the update, and a run
    without float16 has nothing to scale.
    """
    ops = profile.require("ops")
    names, types = ops.names("op"), ops.names("op_type")
    looks, joins = types.among(LOOKS), types.among(JOINS)
    spent = np.nansum(ops.numbers("sum_ns")[looks | joins])
    if not spent > 0 or not looks.any() or not joins.any() or not _branches(names) or not _half(profile):
        return None
    return LossScaling(int(looks.sum()), float(spent), _waiting_ns(profile))


def _branches(names: Names) -> bool:
    return any(BRANCH.search(name) for name in names.names)


def _half(profile: Profile) -> bool:
    """Return whether the run computes in float16."""
    precision = profile.metadata.precision
    if precision is not None:
        return precision == "mixed_float16"
    columns = (profile.require("ops").names("dtype"), profile.require("gemms").names("dtype"))
    return any(HALF.search(name) for column in columns for name in column.names)


def _waiting_ns(profile: Profile) -> float:
    """Return the time of the gaps that follow the copy of a condition to the host."""
    gaps = profile.require("gaps")
    return float(np.nansum(gaps.numbers("duration_ns")[gaps.names("after").among(ANSWER)]))
