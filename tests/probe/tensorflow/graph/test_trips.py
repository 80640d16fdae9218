"""How often what stands in loops runs, counted by hand, and by TensorFlow's own profile of the same run."""

from __future__ import annotations

import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.probe_join import GEMM, events, run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]
KINDS = (
    "bidirectional",
    "addition",
    "dropout",
    "gru",
    "own_cell",
    "images",
    "accumulate",
    "nested",
    "mapped",
    "by_data",
)
CALLS = 3  # that the driver profiles


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all loops under the recorder in one process."""
    out = tmp_path_factory.mktemp("loops")
    run(sys.executable, out, [f"loops.py {kind}" for kind in KINDS])
    return out


def folder(recorded: Path, kind: str) -> Path:
    return recorded / str(KINDS.index(kind))


def executing(recorded: Path, kind: str) -> list[dict[str, Any]]:
    state = json.loads((folder(recorded, kind) / "gaps.json").read_text())
    assert (state["error"], state["gaps"]) == (None, [])
    document = json.loads((folder(recorded, kind) / "graph.json").read_text())
    return [op for f in document["functions"] if f["training"] for op in f["ops"] if op["executes"] == "yes"]


def profiled(recorded: Path, kind: str) -> int:
    """Return how many products the profile saw in a call; it may leave out small ones."""
    names = collections.Counter(name.rpartition(":")[2] for name in events(folder(recorded, kind)) if ":" in name)
    seen = sum(count for name, count in names.items() if re.fullmatch(r"\w+", name) and GEMM.search(name))
    return -(-seen // CALLS)


# Forward, gradient of the input and of the weights of each of two products a time step; the first layer's input has no
# gradient. A Dense has three, one that no layer with weights stands before has two.
@pytest.mark.parametrize(
    ("kind", "executions"),
    [
        ("bidirectional", 20 * (2 * 5 + 2 * 6) + 3),
        ("addition", 7 * 5 + 4 * 6 + 3),
        ("dropout", 7 * (8 + 8 + 4) + 3),  # each of four gates by itself
        ("gru", 7 * 5 + 3),
        ("own_cell", 7 * 5 + 3),
        ("images", 5 * (8 + 8 + 4)),
        ("accumulate", 4 * 2),
        ("nested", 3 * 2 * 3),
        ("mapped", 8 * 2 + 8 * 3),
    ],
)
def test_loops_run_as_often_as_counted_by_hand_and_profiled(recorded: Path, kind: str, executions: int) -> None:
    ops = executing(recorded, kind)
    assert not any(op["at_least"] for op in ops)
    assert sum(op["repeats"] for op in ops) == executions
    assert 0 < profiled(recorded, kind) <= executions


def test_where_the_data_decides_a_loop_counts_at_least_once_and_a_branch_not(recorded: Path) -> None:
    ops = executing(recorded, "by_data")
    told = collections.Counter((op["repeats"], op["at_least"], "cond" in op["op"]) for op in ops)
    assert told == {(1.0, True, False): 3, (None, False, True): 3}


def test_without_known_steps_the_executions_of_one_are_unknown(recorded: Path) -> None:
    assert {op["calls_per_step"] for op in executing(recorded, "nested")} == {None}
