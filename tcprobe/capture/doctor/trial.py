"""A trial of each profiler: a program of our own launches kernels for a moment, on the first GPU, and is recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tcprobe.bypath import last_line, run_to_end
from tcprobe.capture import dlprof, ncu, nsys, tensorflow
from tcprobe.capture.doctor.look import QUIET
from tcprobe.capture.program import Build
from tcprobe.errors import ToolError
from tcprobe.tensor_metrics import DURATION

LONGEST_S: Final = 120.0  # importing a framework from a cold, remote disk can take a minute
LAUNCHES: Final = 8
# By CUDA's driver alone, which every machine with a GPU has. The driver compiles the kernel for the GPU that is there;
# this text is for those since Maxwell.
KERNEL: Final = f"""
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *given):
    code = getattr(cuda, name)(*given)
    if code:
        sys.exit("%s: error %d of CUDA" % (name, code))
text = b".version 6.0\\n.target sm_50\\n.address_size 64\\n.visible .entry tcprobe_trial()\\n{{\\n ret;\\n}}\\n"
device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), text)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"tcprobe_trial")
for _ in range({LAUNCHES}):
    call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None)
call("cuCtxSynchronize")
"""
TENSORFLOW: Final = """
import sys
import tensorflow as tf
tf.profiler.experimental.start(sys.argv[1])
with tf.device("/GPU:0"):
    tf.linalg.matmul(tf.ones((256, 256)), tf.ones((256, 256))).numpy()
tf.profiler.experimental.stop()
"""


class Trial(NamedTuple):
    """What came of a trial."""

    ended: bool  # False where it took too long
    failed: bool  # whether its exit code says so
    seconds: float
    text: str  # the last line that was printed


def launch(python: str, folder: Path) -> Trial:
    """Launch the kernels without a profiler: what fails then is no profiler's fault."""
    return run((python, "-c", KERNEL), folder / "log")


def commands(
    python: str, builds: Mapping[str, Build], framework: bool, folder: Path
) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield, for each profiler that is there, its name, where its files will lie, and the command of its trial.

    Args:
        python: interpreter of the workload.
        builds: the profilers that are programs, by name.
        framework: whether TensorFlow sees a GPU, and its own profiler is tried.
        folder: for their files.
    """
    if framework:
        yield tensorflow.NAME, folder / "tensorflow", [python, "-c", TENSORFLOW, str(folder / "tensorflow")]
    program = [python, "-c", KERNEL]
    if (build := builds.get(nsys.NAME)) is not None:
        yield nsys.NAME, folder / "nsys", [*nsys.trial_words(build, "cuda", folder / "nsys"), *program]
    if ncu.NAME in builds:
        table = folder / "ncu" / "launches.csv"
        words = ["--csv", "--page=raw", f"--metrics={DURATION}", f"--log-file={table}"]
        yield ncu.NAME, table, [ncu.NCU.program, *words, *program]
    if (build := builds.get(dlprof.NAME)) is not None:
        place, interpreter = folder / "dlprof", os.path.abspath(python) if os.sep in python else python  # noqa: PTH100
        wanted = {"--mode": "simple", "--reports": "all", "--formats": "csv", "--output_path": str(place)}
        if not build.values("--mode", "simple"):
            del wanted["--mode"]
        words = [f"{flag}={value}" for flag, value in wanted.items() if flag in build.flags]
        inside = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(place)]  # it leaves files in the current folder
        yield dlprof.NAME, place, [*inside, dlprof.DLPROF.program, *words, interpreter, *program[1:]]


def run(command: tuple[str, ...], log: Path) -> Trial:
    """Run a trial to its end."""
    began = time.monotonic()
    try:
        status = run_to_end(command, {**QUIET, **os.environ}, log, log, LONGEST_S)
    except ToolError as error:
        return Trial(True, True, 0.0, error.message)
    return Trial(status is not None, status != 0, time.monotonic() - began, last_line(log))
