"""The workload's own processes are told from those of a profiler around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tcprobe.capture.probed import workload_below

FORKS = "import os, sys, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"


def test_the_topmost_process_of_that_command_line_is_the_workload(tmp_path: Path) -> None:
    words = (sys.executable, "-c", FORKS, str(tmp_path))
    profiler = f"import subprocess, sys; subprocess.run({list(words)!r})"
    command = [sys.executable, "-c", profiler, *words]  # which ends with the words of its workload, as nsys does
    assert workload_below(tmp_path, words, os.getpid()) is None
    (tmp_path / "probe").mkdir()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as child:
        assert child.stdout is not None
        both = {int(child.stdout.readline()) for _ in range(2)}
        try:
            for above in (child.pid, os.getpid()):
                assert workload_below(tmp_path, words, above) == [min(both)]
            assert workload_below(tmp_path, words, min(both)) is not None
        finally:
            os.killpg(child.pid, 9)
    assert workload_below(tmp_path, words, os.getpid()) is None
    (tmp_path / "probe/probe.json").write_text(json.dumps({"pid": min(both)}))
    assert workload_below(tmp_path, words, os.getpid()) == []
