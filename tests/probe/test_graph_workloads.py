"""The graph recorder on real TensorFlow: what is traced, what executes, and whether the profile's ops join to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.probe_join import COMMANDS, Join, join, run
from tests.support import ROOT

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytestmark = pytest.mark.tensorflow
WORKLOADS = ROOT / "tests/probe/graph_workloads"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all workloads under the recorder in one process; returns the folder with one folder per command."""
    out = tmp_path_factory.mktemp("graphs")
    run(sys.executable, out, COMMANDS)
    return out


def folder(recorded: Path, command: str) -> Path:
    return recorded / str(COMMANDS.index(command))


def functions(recorded: Path, command: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder(recorded, command) / "graph.json").read_text())["functions"]
    return found


def training_ops(recorded: Path, command: str) -> list[dict[str, Any]]:
    return [op for f in functions(recorded, command) if f["training"] and not f["variant_of"] for op in f["ops"]]


def counts(recorded: Path, command: str) -> tuple[int, int]:
    """Return how many ops were traced and how many of them may execute."""
    ops = training_ops(recorded, command)
    return len(ops), sum(op["executes"] != "no" for op in ops)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_gemm_op_of_the_profile_joins_to_a_record(recorded: Path, command: str) -> None:
    state = json.loads((folder(recorded, command) / "gaps.json").read_text())
    assert state["error"] is None
    assert state["gaps"] == []
    result: Join = join(folder(recorded, command))
    assert result.misses == []
    assert result.unexplained == []
    seen = sum(result.how.values())
    assert seen or "jit" in command or command == "eager.py"
    assert seen <= sum(result.executes.values())


# One forward pass of the GAN is 4 products of the generator and 3 of the discriminator for each of its two
# inputs: 10, twice a step. Each tape differentiates the discriminator on the forged images (6) and the
# generator (7: its first layer's input has no gradient); the second tape also the real images (6):
# 20 + 13 + 19 = 52. Pruned are the first pass's real images (3), the discriminator's weight gradients in
# the first tape (3), the generator's gradients in the second (7), and both gradients of images there (2).
def test_the_gan_traces_52_and_executes_37(recorded: Path) -> None:
    assert counts(recorded, "gan.py plain") == (52, 37)


def test_nested_functions_trace_60_and_execute_37(recorded: Path) -> None:
    assert counts(recorded, "gan.py nested") == (60, 37)


def test_what_xla_compiles_is_unknown_but_for_what_nobody_needs(recorded: Path) -> None:
    ops = training_ops(recorded, "gan.py jit")
    assert [sum(op["executes"] == e for op in ops) for e in ("yes", "no", "unknown")] == [0, 15, 37]
    assert {f["executed_basis"] for f in functions(recorded, "gan.py jit")} == {"traced"}
