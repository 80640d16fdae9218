"""The case that tcprobe was begun for, from its kernel table to the line of the model and what to change there."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import Any

import pytest

from tests import warm
from tests.fixtures.starting_case.make import DIRECT_NS, DIRECT_OP, RUN, STEPS

LAYER = "generator/conv2d_3"


def tcprobe(*args: str) -> subprocess.CompletedProcess[str]:
    command = [warm.tcprobe(), "-m", "tcprobe", "report", str(RUN), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@cache
def report() -> dict[str, Any]:
    done = tcprobe("--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(table: str, **wanted: Any) -> dict[str, Any]:
    """Return the only row of a table with these values."""
    (found,) = (r for r in report()["tables"][table] if all(r[name] == value for name, value in wanted.items()))
    return dict(found)


def line_of_the_layer() -> str:
    """Return file:line of the convolution with one filter in today's workload, as the fixture's graph has it."""
    graph = json.loads((RUN / "probe/graph.json").read_text(encoding="utf-8"))
    sources = {op["source"] for f in graph["functions"] for op in f["ops"] if op["layer"] == LAYER}
    return str(sources.pop())


def test_the_cause_is_the_one_filter() -> None:
    op = row("ops", op=DIRECT_OP)
    assert (op["layer"], op["pass"], op["sum_ns"]) == (LAYER, "wgrad", DIRECT_NS * STEPS)
    assert (op["cause"], op["cause_dimension"], op["cause_size"]) == ("channels", "filters", 1)
    assert op["cause_kernel"] == "wgrad2d_grouped_direct_kernel"
    assert row("layers", layer=LAYER)["cause"] == "channels"


def test_it_takes_42_percent_of_the_kernel_time() -> None:
    found = row("causes", cause="channels")
    assert found["layer"] == LAYER
    assert found["sum_ns"] == pytest.approx(DIRECT_NS * STEPS, rel=0.01)  # the input gradient is of the same kind
    assert found["share_pct"] == pytest.approx(42.0, abs=0.2)
    assert found["source"] == line_of_the_layer()


def test_the_first_advice_says_what_to_change_where_and_what_it_costs() -> None:
    first = report()["advice"][0]
    assert (first["code"], first["layer"], first["pass"]) == ("TC307", LAYER, "wgrad")
    assert first["source"] == line_of_the_layer()
    assert first["kernel_ns"] == pytest.approx(DIRECT_NS)
    assert first["step_ns"] == 200_000_000
    assert "wgrad2d_grouped_direct_kernel" in first["text"]


def test_the_line_is_that_of_the_convolution_with_one_filter() -> None:
    graph = json.loads((RUN / "probe/graph.json").read_text(encoding="utf-8"))
    kernels = [op["input_shapes"][1] for f in graph["functions"] for op in f["ops"]
               if op["layer"] == LAYER and op["op_type"] == "Conv2D"]  # fmt: skip
    assert kernels and all(shape == [5, 5, 8, 1] for shape in kernels)
    assert line_of_the_layer().startswith("/home/user/project/workloads/train_gan.py:")


def test_nobody_is_sent_away_with_a_bug_report() -> None:
    done = tcprobe("--top", "0")
    assert done.returncode == 0
    assert "bug" not in (done.stdout + done.stderr).lower().replace("debug", "")
    assert "1 output channel" in done.stdout
