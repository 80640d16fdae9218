"""TensorFlow's profiler is not started where it may crash the workload."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.profiler import ProfilerLog, TensorFlowProfiler

TWO = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
CHIEF = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}
ALONE = {"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}


def profiler(version: str, started: list[str]) -> tuple[TensorFlowProfiler, Gaps]:
    gaps = Gaps()
    made = TensorFlowProfiler("raw", gaps, ProfilerLog(None, ""))
    made._tf = SimpleNamespace(
        __version__=version, config=SimpleNamespace(list_logical_devices=lambda _: []), test=SimpleNamespace()
    )
    made._start, made._stop, made.available = started.append, lambda save: None, True
    return made, gaps


@pytest.mark.parametrize(
    ("version", "cluster", "cautious", "starts"),
    [
        ("2.21.0", json.dumps(TWO), True, False),
        ("2.16.0-rc1", json.dumps(CHIEF), True, False),
        ("2.21.0", json.dumps(TWO), False, True),
        ("2.15.1", json.dumps(TWO), True, True),
        ("2.21.0", json.dumps(ALONE), True, True),
        ("2.21.0", "", True, True),
        ("2.21.0", "[1]", True, True),
        ("2.21.0", '{"cluster": {"worker": 2}}', True, True),
    ],
)
def test_a_worker_of_several_is_not_put_at_risk_unasked(
    version: str, cluster: str, cautious: bool, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", cluster)
    started: list[str] = []
    made, gaps = profiler(version, started)
    made.cautious = cautious
    assert made.start() is starts
    assert bool(started) is made.is_open is starts
    assert made.available is starts
    assert [note["code"] for note in gaps.notes] == ([] if starts else ["no-profile"])
