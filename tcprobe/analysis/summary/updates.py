"""Summarise what a step spends on the update of the weights, where the optimizers are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.summary.figures import SummaryInputs, figure
from tcprobe.schema.columns import Row

LOOKS: Final = ("IsFinite", "All")
"""Types of the ops by which a dynamic loss scale looks at gradients."""
_BRANCH: Final = r"cond(?:_\d+)?/(?:then|else)/_\d+/"  # into which it puts the update


def update_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the time a step of the ops that update weights, the work of a dynamic loss scale among them.

    They are those in the scope that an optimizer gives its ops, by its name; of a dynamic scale also those that look
    at gradients, and the branch that holds the update. Kernel time of the counted steps; without a GPU the CPU's, of an
    update in all that was profiled, which the reason says.
    Nothing where the probe saw no optimizer, no such op ran or the number of steps is unknown.
    """
    policy, times = inputs.profile.metadata.policy, float(inputs.profile.counted_steps or 0)
    names = sorted({one.optimizer for one in policy.loss_scales if one.optimizer}) if policy is not None else []
    if policy is None or not names or inputs.ops is None:
        return
    ops = inputs.profile.require("ops")
    dynamic = any(one.kind == "dynamic" for one in policy.loss_scales)
    scope = re.compile("|".join((*(rf"(?:^|/){re.escape(n)}(?:_\d+)?/" for n in names), *([_BRANCH] * dynamic))))
    paths = ops.names("op")
    mine = paths.among(*filter(scope.search, paths.names)) & (ops.names("layer").ids < 0)
    mine |= ops.names("op_type").among(*LOOKS) & dynamic
    of = "with a dynamic loss scale's own" if dynamic else "without a dynamic loss scale"
    for column in ("sum_ns", "host_ns"):
        spent = ops.numbers(column)[mine]
        if not np.nansum(spent) > 0:
            continue
        why = f"{int((spent > 0).sum()):,} ops, {of}"
        if column == "host_ns":  # of all that was profiled, also of steps that do not count
            times, why = float(np.nanmax(ops.numbers("calls")[mine])), f"{why}: the CPU's time"
        if times:
            yield figure("update_ns", float(np.nansum(spent)) / times, "measured", why)
        return
