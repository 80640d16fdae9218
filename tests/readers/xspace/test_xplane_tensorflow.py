"""The XSpace reader beside TensorFlow, whose own XSpace classes must stay usable in the same process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


def run(code: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", code],
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
@pytest.mark.parametrize("code", [READ + TENSORFLOW + SHOW, TENSORFLOW + READ + SHOW], ids=["before", "after"])
def test_reading_goes_with_tensorflow(code: str) -> None:
    pytest.importorskip("tensorflow")
    graph, loaded = run(code)
    assert graph == 5
    assert "tensorflow" in loaded  # type: ignore[operator]
