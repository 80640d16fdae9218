"""Ranges that programs mark for Nsight Compute, as a tool that listens to NVTX hears them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.gpu.counters import ranges
from tests.nvtx import Tool, build

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from ranges import open_ranges
ranges = open_ranges()
with ranges.case("gemm-1"):
    with ranges.measure():
        pass
print(ranges.listening, [name for name in sys.modules if name.startswith("tcprobe") and "gpu" not in name])
"""


def run(environment: dict[str, str]) -> str:
    command = [sys.executable, "-S", "-c", PROGRAM, str(Path(ranges.__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_case_is_marked_for_its_thread_and_for_all(tmp_path: Path) -> None:
    tool = Tool(build(tmp_path), tmp_path / "log")
    assert run(tool.environment()) == "True []"
    lines = [line.split("\t") for line in tool.log.read_text().splitlines()]
    assert {(domain, kind) for _, _, domain, *event in lines for kind in event[:1]} == {("tcprobe", "registered")}
    assert [(what, *event[1:]) for what, _, _, *event in lines] == [
        ("start", "gemm-1"),
        ("push", "gemm-1"),
        ("start", "measure"),
        ("push", "measure"),
        ("pop",),
        ("stop 2",),
        ("pop",),
        ("stop 1",),
    ]


def test_no_tool_hears_nothing_and_marks_are_written(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    assert run({ranges.MARKS: str(marks)}) == "False []"
    assert [json.loads(line) for line in marks.read_text().splitlines()] == [["gemm-1"]]
