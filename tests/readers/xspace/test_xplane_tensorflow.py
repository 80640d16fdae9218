"""The XSpace reader beside TensorFlow, whose own XSpace classes must stay usable in the same process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import warm
from tests.fixtures.xplane.make import HERE
from tests.support import ROOT

READ = f"""
from pathlib import Path
from tcprobe.readers import xplane
profile = xplane.read([Path({str(HERE / "cpu_xla.xplane.pb")!r})])
"""
TENSORFLOW = """
import tensorflow as tf
from tensorflow.python.profiler import profiler_v2
"""
SHOW = """
import json, sys
loaded = sorted({"tensorflow", "google.protobuf", "pandas"} & set(sys.modules))
print(json.dumps([len(profile.require("graph_ops")), loaded]))
"""


def run(code: str, python: str = sys.executable) -> list[object]:
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
    )
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_reading_needs_neither_tensorflow_nor_protobuf() -> None:
    assert run(READ + SHOW) == [5, []]


@pytest.mark.tensorflow
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_reading_goes_with_tensorflow(before: bool) -> None:
    pytest.importorskip("tensorflow")
    code, python = (READ + TENSORFLOW, sys.executable) if before else (TENSORFLOW + READ, warm.python())
    graph, loaded = run(code + SHOW, python)
    assert graph == 5
    assert "tensorflow" in loaded  # type: ignore[operator]
