"""What Nsight Compute is to count, so that its counters tell whether a kernel used Tensor Cores: of any chip."""

from __future__ import annotations

import re
from typing import Final

DURATION: Final = "gpu__time_duration.sum"
MOST: Final = 32  # metrics; each few are a pass over the kernel
_COUNTS: Final = re.compile(
    r"sm__ops_path_tensor\w*|sm__inst_executed_pipe_(?:tensor|tc)(?:_(?:op|type)_\w+|_subpipe_\w+)?"
)
_ACTIVE: Final = re.compile(r"sm__pipe_(?:tensor|tc)(?:_type_\w+)?_cycles_active")
_OF_ALL: Final = ("sm__inst_executed_pipe_tensor", "sm__pipe_tensor_cycles_active")
"""Of every chip since Volta, for where Nsight Compute does not say what this one has."""


def tensor_metrics(listed: str = "") -> list[str]:
    """Return what to ask for of what `ncu --query-metrics` prints: time, and operations, instructions and activity of
    the tensor pipes. Names stand there at the start of each line, without roll-up; where it lists none, those of all.
    """
    names = sorted({line.split(",")[0].strip('"').split(" ")[0] for line in listed.splitlines() if line.strip()})
    names = names if any(map(_COUNTS.fullmatch, names)) else list(_OF_ALL)
    counts = [name for name in names if _COUNTS.fullmatch(name) and not re.search("_sparsity_(?:on|off)$", name)]
    # operations by operand type; those by instruction repeat them, but for types that have no total
    sources = {source[0] for name in counts if "_op_" not in name and (source := re.search(r"src_[a-z]+\d+", name))}
    whole = [n for n in counts if "ops_path" not in n or "_op_" not in n or not any(source in n for source in sources)]
    active = [f"{name}.avg.pct_of_peak_sustained_active" for name in names if _ACTIVE.fullmatch(name)]
    return [DURATION, *active, *(f"{name}.sum" for name in whole)][:MOST]
