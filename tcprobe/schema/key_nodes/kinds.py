"""The closed lists of a search for a key node."""

from __future__ import annotations

from typing import Final, Literal

What = Literal["op", "range"]
Cadence = Literal["per_step", "several_per_step", "per_epoch", "irregular"]
"""`per_epoch` fires once in a whole number of steps: an epoch, or a step of accumulated gradients."""
StepsBasis = Literal["marks", "probe", "calls"]
"""What says how many steps there are: the profile's marks, the probe's count, or nothing but how often ops ran."""
Merit = Literal["at_end", "optimizer_sum", "update", "counter"]
Flaw = Literal[
    "one_replica", "loop_body", "conditional", "xla_cluster", "runtime", "cut", "early", "no_gpu_time", "uneven"
]
SERIOUS: Final[tuple[Flaw, ...]] = ("one_replica", "loop_body", "conditional", "xla_cluster", "runtime")
"""Flaws with which an op that fired once in each step may not do so in the next run, or not under that name."""
WhyNone = Literal["no_calls", "few_steps", "numbered_ranges", "nothing_regular"]
LEAST_STEPS: Final = 3
"""Two of anything are regular."""
