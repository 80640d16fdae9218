"""`report` as a function: open a profile and analyse it."""

from __future__ import annotations

from pathlib import Path

from tcprobe.analysis import Options, analyse
from tcprobe.flows.read import open_profile
from tcprobe.profile import Profile


def make_report(path: Path, options: Options | None = None) -> Profile:
    """Read the profile at `path` and add what follows from it: summary, kernels, ops, layers, iterations, ...

    Args:
        path: a run folder, a profile file, or a directory that holds one.
        options: iteration window and target GPU; the defaults detect the window.

    Raises:
        InputError: the profile cannot be used.
        UsageError: `path` holds several runs, or an option does not fit the profile.
        MeasurementFailed: a GPU was used and left no kernel record.
    """
    return analyse(open_profile(path), options or Options())
