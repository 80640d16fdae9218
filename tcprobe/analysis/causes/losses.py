"""What a run's loss and its scaling say: since when it is no finite number, and what dynamic scaling costs."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tcprobe.grouping import lasting_since
from tcprobe.rules.run.base import Diverged, LossScaling
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile

# Keras 2 and 3 put an IsFinite and an All before each update of the weights, and the update into a branch of the graph
# (cond/then/_12/...), whose condition the host reads: the GPU copies one byte to it and waits.
_BRANCH: Final = re.compile(r"(?:^|/)cond(?:_\d+)?/(?:then|else)/_\d+/")
_ANSWER: Final = "MemcpyD2H 1 B"  # the copy of a condition, as `gaps` names it
_HALF: Final = re.compile(r"(?<![a-z])(?:float16|half)")


def loss_scaling(profile: Profile) -> LossScaling | None:
    """Return what dynamic loss scaling adds to the window; None where nothing shows it, or no kernel time is known.

    What looks for infinities for another reason (a check of gradients) has no branch around the update, and a run
    without float16 has nothing to scale.
    """
    ops = profile.require("ops")
    looks, joins = (ops.names("op_type").among(kind) for kind in ("IsFinite", "All"))
    spent = np.nansum(ops.numbers("sum_ns")[looks | joins])
    if not spent > 0 or not looks.any() or not joins.any() or not any(map(_BRANCH.search, ops.names("op").names)):
        return None
    gaps, precision = profile.require("gaps"), profile.metadata.computes_in
    dtypes = (*ops.names("dtype").names, *profile.require("gemms").names("dtype").names)
    if precision != "mixed_float16" and (precision is not None or not any(map(_HALF.search, dtypes))):
        return None
    waiting = np.nansum(gaps.numbers("duration_ns")[gaps.names("after").among(_ANSWER)])
    return LossScaling(int(looks.sum()), float(spent), float(waiting))


def diverged(profile: Profile) -> Diverged | None:
    """Return the loss that is NaN or an infinity at the end, of several the one that was so first; None without any.

    A name is one of a loss if it says so (``loss``, ``g_loss``); the rest of what a workload logs follows from it.
    """
    metrics, policy = profile.require("metrics"), profile.metadata.policy
    names = metrics.names("name")
    mine = [metrics.take(names.among(name)) for name in names.names if "loss" in name.lower()]
    ended = [(one, since) for one in mine if (since := lasting_since(one.numbers("value"))) is not None]
    if not ended:
        return None
    one, since = min(ended, key=lambda pair: np.nan_to_num(pair[0].numbers("step")[pair[1]]))
    before = np.flatnonzero(np.isfinite(one.numbers("value")[:since]))
    last = int(before[-1]) if len(before) else None
    scale = policy.loss_scale if policy is not None else None
    return Diverged(
        name=str(one.values("name")[since]),
        value=str(one.numbers("value")[since]),
        step=_step(one, since),
        before=None if last is None else _step(one, last),
        before_value=None if last is None else float(one.numbers("value")[last]),
        half=profile.metadata.computes_in in ("mixed_float16", "float16"),
        scale=None if scale is None else scale.kind,
        scale_value=None if scale is None else scale.value,
    )


def _step(metrics: Table, row: int) -> int | None:
    step = metrics.values("step")[row]
    return None if step is None else int(step)
