"""What TensorFlow's profiler logs of its own work goes to a file, all else stays on standard error, in its order."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tcprobe.capture.base import CaptureRequest, Invocation, Launch
from tcprobe.capture.probed import make_aside, run
from tcprobe.probe.constants import PROFILER_LOG
from tcprobe.probe.tensorflow.profiler import OWN, ProfilerLog

NEW, OLD = "I0000 00:00:1795827679.669021   25562 ", "2026-11-28 01:10:13.581560: "
CORE = "tensorflow/core/profiler"
LOADER = "I tensorflow/stream_executor/platform/default/dso_loader.cc:49] Successfully opened dynamic library"
OF_PROFILER = (
    NEW + "profiler_session.cc:117] Profiler session initializing.",
    NEW + "save_profile.cc:150] Collecting XSpace to repository: /a/b.xplane.pb",
    NEW + "cupti_tracer.cc:1200] Profiler found 1 GPUs",
    OLD + "I external/local_tsl/tsl/profiler/lib/profiler_session.cc:104] Profiler session initializing.",
    OLD + f"I {CORE}/internal/gpu/cupti_collector.cc:228]  GpuTracer has collected 12 callback api events.",
    OLD + f"{LOADER} libcupti.so.11",
    OLD + f"I {CORE}/rpc/client/capture_profile.cc:251] Creating directory: /a\nDumped tool data for a.pb to /a",
)
OF_OTHERS = (
    NEW + "port.cc:153] oneDNN custom operations are on.",
    "E" + NEW[1:] + "cupti_tracer.cc:1500] function cupti_interface_->Subscribe failed with error CUPTI_ERROR",
    OLD + f"W {CORE}/internal/gpu/cupti_tracer.cc:1] CUPTI cannot be loaded",
    OLD + f"{LOADER} libcudart.so",
    "step 3, loss 0.5; the profiler_session.cc:117] of a script",
)


@pytest.mark.parametrize("line", OF_PROFILER)
def test_lines_of_the_profiler(line: str) -> None:
    assert OWN.sub(b"", f"a{line}\nb".encode()) == b"ab"


@pytest.mark.parametrize("line", OF_OTHERS)
def test_lines_of_others_and_what_went_wrong(line: str) -> None:
    assert not OWN.search(f"{line}\n".encode())


def test_they_are_sorted_out_while_sessions_start_and_stop(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    aside = make_aside()
    assert aside is not None
    log = ProfilerLog(aside, str(tmp_path))
    for number in range(2):
        os.write(2, b"before, half a line")
        with log.apart():
            os.write(2, b" and its end\n")
            os.write(2, f"{OF_PROFILER[number]}\n".encode())
            os.write(2, b"after")
        os.write(2, b" it\n")
    os.close(aside)
    assert capfd.readouterr().err == "before, half a line and its end\nafter it\n" * 2
    assert (tmp_path / PROFILER_LOG).read_text() == f"{OF_PROFILER[0]}\n{OF_PROFILER[1]}\n"


def test_without_a_file_of_ours_nothing_is_moved(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "other").open("w") as other:
        for aside in (None, other.fileno(), 9999):
            with ProfilerLog(aside, str(tmp_path)).apart():
                os.write(2, f"{OF_PROFILER[0]}\n".encode())
    assert capfd.readouterr().err == f"{OF_PROFILER[0]}\n" * 3


def test_the_last_words_of_a_workload_that_dies_meanwhile_are_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    aside = make_aside()
    code = f"import os; os.write(2, b'first\\n'); os.dup2({aside}, 2); os.write(2, b'last words'); os.abort()"
    request = CaptureRequest(Invocation("script", "x.py"), tmp_path, sys.executable)
    ended = run(request, Launch((sys.executable, "-c", code), aside=aside), False, None, [])
    assert ended.exit_code == 134
    assert capfd.readouterr().err == "first\nlast words"
