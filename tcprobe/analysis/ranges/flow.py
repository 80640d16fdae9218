"""Add to a profile what its ranges tell of it."""

from __future__ import annotations

import numpy as np

from tcprobe.analysis.grouping import Codes, positions_in
from tcprobe.analysis.options import Options
from tcprobe.analysis.ranges.around import MOST_LEVELS, Around, Nested, nest
from tcprobe.analysis.ranges.backward import forward_of
from tcprobe.analysis.ranges.ops import with_ops
from tcprobe.analysis.ranges.steps import with_steps
from tcprobe.schema.profile import Note, Profile


def with_ranges(profile: Profile, options: Options) -> tuple[Profile, Around | None]:
    """Return the profile with step marks and ops from its ranges, and the ranges around its launches; None: not known.

    A launch belongs to the step during which it was called, between two steps to the one before. Its op is the
    innermost range of an op around the call on its thread, its layer the path of the ranges of layers around that;
    in a layer and in no op of it, the layer stands for the op. An op in a backward op that shares its number with a
    forward op has the layer of that op. A launch whose call was not recorded, or that no range holds, has no op. Steps
    or ops that the source itself tells stay as they are, unless `options` name the ranges that are steps.

    Raises:
        UsageError: no range has a name such as `options` ask for.
    """
    profile = with_steps(profile, options.step_range)
    ranges, launches = profile.table("ranges"), profile.require("launches")
    if ranges is None or np.isnan(launches.numbers("launch_ns")).all():
        return profile, None
    nested = nest(ranges, launches)
    if nested.deep:
        message = f"{nested.deep:,} ranges lie in more than {MOST_LEVELS} others, which count in their place"
        profile = profile.with_notes(Note("ranges-deep", message, level="note"))
    around, gradients = _around(nested)
    return with_ops(profile, around, gradients), around


def _around(nested: Nested) -> tuple[Around, tuple[Codes, Codes]]:
    """Return the ranges around launches, and the backward ops among them, each with its forward op."""
    backward, forward = forward_of(nested)
    around = nested.kept(forward)
    return around, (positions_in(backward, around.rows), positions_in(forward, around.rows))
