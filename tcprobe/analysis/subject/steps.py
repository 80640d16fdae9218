"""Find warm-up among the counted steps, key nodes that fire once an epoch, and why TF32 was off."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.analysis.key_node.series import series_of
from tcprobe.analysis.key_node.steps import find_steps
from tcprobe.rules.run.facts import MemoryUse, Tf32Off, WarmUp
from tcprobe.schema.profile import Profile

SLOWER: Final = 1.5
"""Times the median of the other steps: from here on a first step is slow. Steps of training hardly vary so much."""
LEAST_USUAL: Final = 3
"""Steps that must follow the slow ones, or there is no usual length."""
OVERRIDE: Final = "NVIDIA_TF32_OVERRIDE"


def warm_up(profile: Profile, steps: int | None) -> WarmUp | None:
    """Return how many steps count, and how many of the first are slow; None without kernels or of counters alone.

    Args:
        profile: with its iterations.
        steps: that count; None if no step is marked.
    """
    if profile.metadata.format.startswith("ncu") or not np.nansum(profile.require("kernels").numbers("sum_ns")) > 0:
        return None
    table = profile.require("iterations")
    inside = table.numbers("in_window") == 1
    order = np.argsort(table.numbers("iteration")[inside], kind="stable")
    lengths = (table.numbers("duration_ns") / table.numbers("steps"))[inside][order]
    lengths = lengths[~np.isnan(lengths)]
    for slow in range(min(len(lengths) - LEAST_USUAL, len(lengths) // 2), 0, -1):
        usual = float(np.median(lengths[slow:]))
        if usual > 0 and (lengths[:slow] > SLOWER * usual).all():
            return WarmUp(steps, slow, float(lengths[:slow].max()), usual)
    return WarmUp(steps)


def epoch_steps(profile: Profile, steps: float | None) -> int | None:
    """Return how often most ops ran in what a key node of DLProf's counts as one step, where that is 2 or more.

    Args:
        profile: of any source; where the record of the run names the key node, its calls are the steps.
        steps: that DLProf counted; None if unknown.
    """
    if not profile.metadata.format.startswith("dlprof"):
        return None
    series = series_of(profile)
    key = profile.metadata.run.get("key_node")
    steps = next((float(one.fired.calls) for one in series if one.fired.name == key), steps)
    found = find_steps(profile, series)
    if steps is None or steps < 2 or found is None or found.basis != "calls":
        return None
    fits = [found.count // n for n in (round(steps), round(steps) - 1) if found.count % n == 0]
    return fits[0] if fits and fits[0] >= 2 else None


def tf32_off(profile: Profile) -> Tf32Off | None:
    """Return why TF32 was off; None where nothing recorded says so."""
    if profile.metadata.precision == "float32":
        return "asked"
    environment = profile.metadata.run.get("environment")
    if isinstance(environment, dict) and str(environment.get(OVERRIDE)) == "0":
        return "environment"
    return "environment" if any(note.code == "tf32-override" for note in profile.metadata.notes) else None


def memory_use(profile: Profile) -> MemoryUse | None:
    """Return the memory of the only GPU that ran kernels; None where its peak or its size is not known."""
    devices = profile.require("devices")
    active = devices.take(devices.names("state").among("active"))
    if len(active) != 1:
        return None
    peak, total = (float(active.numbers(name)[0]) for name in ("peak_memory_bytes", "memory_bytes"))
    return MemoryUse(peak, total) if 0 < peak <= total else None
