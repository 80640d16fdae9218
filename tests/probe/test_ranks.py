"""Which rank a process is, by the variables of each launcher."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcprobe.probe.ranks import rank_of


def tf_config(kind: str, index: Any, **cluster: int) -> dict[str, str]:
    places = {name: ["host:1"] * count for name, count in cluster.items()}
    return {"TF_CONFIG": json.dumps({"cluster": places, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"PMI_RANK": "1"}, 1),
        ({"PMIX_RANK": "7"}, 7),
        ({"SLURM_PROCID": "12"}, 12),
        ({"RANK": "0"}, 0),
        ({"RANK": "5", "SLURM_PROCID": "1"}, 1),
        ({"RANK": "5", "SLURM_PROCID": "1", "TORCHELASTIC_RUN_ID": "none"}, 5),
        ({"RANK": "first"}, None),
        ({"RANK": "-1"}, None),
        ({"RANK": "\u0663"}, None),
        ({"RANK": "9" * 30, "SLURM_PROCID": ""}, None),
        (tf_config("worker", 1, worker=2), 1),
        (tf_config("worker", 1, chief=1, worker=2), 2),
        (tf_config("chief", 0, chief=1, worker=2), 0),
        (tf_config("ps", 0, ps=1, worker=2), None),
        (tf_config("worker", "x", worker=2), None),
        ({"TF_CONFIG": "{"}, None),
        ({"TF_CONFIG": "[1]"}, None),
        ({"TF_CONFIG": '{"task": 1}'}, None),
    ],
)
def test_rank_of(environment: dict[str, str], rank: int | None) -> None:
    assert rank_of(environment) == rank
