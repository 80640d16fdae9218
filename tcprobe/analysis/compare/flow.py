"""Compare analysed profiles: figures, layers, ops, kernels, what the workloads logged, and settings."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.analysis.compare.figures import figures_of
from tcprobe.analysis.compare.places import compared_places, compared_ranges
from tcprobe.analysis.compare.rows import compared_rows, joined, losses_of, renamed_kernels
from tcprobe.analysis.compare.runs import notes_of, runs_of, settings_of
from tcprobe.errors import UsageError
from tcprobe.schema.changes.comparison import Comparison
from tcprobe.schema.profile import Profile


def compare(profiles: Sequence[Profile], names: Sequence[str]) -> Comparison:
    """Hold runs against the first one; docs/compare.md gives the formulas.

    Sums over the counted steps are of one step; where a run marks none, those of whole captures are compared. The
    same profiles give the same result, whatever the order of their rows.

    Args:
        profiles: analysed; two or more.
        names: what to call each.

    Raises:
        UsageError: fewer than two profiles.
    """
    if len(profiles) < 2:
        raise UsageError("one run alone cannot be compared", "as in: tcprobe compare RUN_A RUN_B")
    runs, per_step = runs_of(profiles)
    parts, figures = joined(runs), figures_of(runs)
    return Comparison(
        tuple(names),
        tuple(profiles),
        figures,
        layers=compared_rows(runs, parts.layers),
        ops=compared_rows(runs, parts.ops),
        kernels=compared_rows(runs, parts.kernels),
        renamed=renamed_kernels(runs, parts),
        ranges=(ranges := compared_ranges(runs)),
        places=compared_places(runs),
        losses=losses_of(runs),
        per_step=per_step,
        settings=settings_of(runs),
        notes=tuple(notes_of(runs, names, figures, ranges)),
    )
