"""How often the products of small graphs run, as the graphs alone tell."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]
KNOWN = {
    "limit": [4.0],
    "captured_limit": [5.0],
    "limit_of_a_width": [8.0],
    "steps_of_three": [3.0],
    "downwards": [3.0],
    "either": [5.0],
    "nobody_reads": [4.0],
    "each_needs_the_other": [4.0, 4.0],
    "known_branch": [1.0],
    "unknown_branch": [None],
    "both_ways": [6.0, 6.0, 6.0],
}
AT_LEAST = {
    "limit_of_the_batch": [1.0],
    "limit_of_data": [1.0],
    "over_a_dataset": [1.0],
    "starts_to_hold": [1.0],
    "sum_of_the_turns": [1.0],
    "endless": [1.0],
    "broken_off": [1.0],
    "asks_again": [1.0],
    "asks_later": [None, None],
    "triangle": [3.0],
    "condition_of_a_loop": [1.0],
    "gradient_of_data": [1.0, 1.0, 1.0],
    "over_unknown_data": [1.0],
    "two_loops_of_steps": [2.0, 2.0],
}
STEPS = {"steps_over_unknown_data": [2.0]}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    """Walk all functions in one process."""
    out = tmp_path_factory.mktemp("walks") / "walks.json"
    done = subprocess.run(
        [warm.python(), str(Path(__file__).parent / "workloads" / "walks.py"), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[object]]] = json.loads(out.read_text())
    assert set(found) == {*KNOWN, *AT_LEAST, *STEPS}
    return found


@pytest.mark.parametrize("name", [*KNOWN, *AT_LEAST, *STEPS])
def test_times(walked: dict[str, list[list[object]]], name: str) -> None:
    numbers = {**KNOWN, **AT_LEAST, **STEPS}[name]
    assert walked[name] == [[number, name in AT_LEAST, name in STEPS] for number in numbers]
