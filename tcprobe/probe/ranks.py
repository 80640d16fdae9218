"""Which rank of a job a process is, by the variables that launchers set."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional

# Open MPI, MPICH and Intel MPI, PMIx, Slurm, torchrun
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")
# torchrun's: it starts several processes for one of those launchers, whose number they inherit, and sets RANK last
TORCHRUN = "TORCHELASTIC_RUN_ID"
# TensorFlow's: the cluster, and which task of it a process is
TF_CONFIG = "TF_CONFIG"
_CHIEFS = ("chief", "master")
MOST_DIGITS = 9


def rank_of(environment: Mapping[str, str]) -> Optional[int]:
    """Return the number of a process in its job; None where no variable tells.

    Of TensorFlow's tasks a chief is 0 and workers follow; others, which do not train, have no number.
    """
    for name in RANKS[-1:] + RANKS if environment.get(TORCHRUN) else RANKS:
        value = environment.get(name, "")
        if value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS:
            return int(value)
    return _task(environment.get(TF_CONFIG, ""))


def _task(text: str) -> Optional[int]:
    try:
        config: Any = json.loads(text)
        task, cluster = config["task"], config.get("cluster") or {}
        kind, index = str(task["type"]), int(task["index"])
        chiefs = sum(len(cluster.get(name) or ()) for name in _CHIEFS)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if index < 0 or kind not in ("worker",) + _CHIEFS:
        return None
    return index + (chiefs if kind == "worker" else 0)
