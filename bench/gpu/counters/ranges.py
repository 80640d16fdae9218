"""Marks for Nsight Compute what to count: NVTX ranges in domain `tcprobe`, which cost nothing where no tool listens.

For programs that run by path in a framework's interpreter: standard library, Python 3.8::

    sys.path.insert(0, orders["counters"])  # this folder; `ncu.py` counts what runs in `measure`
    from ranges import open_ranges

    ranges = open_ranges()
    with ranges.case("gemm-1"):
        warm_up()
        with ranges.measure():
            run_once_and_wait()

Each range is marked twice: for its own thread, and for all threads, since frameworks launch kernels from threads of
their own. So `measure` has to last until the GPU is done.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List, Optional

DOMAIN = "tcprobe"
MEASURE = "measure"
TOOL = "NVTX_INJECTION64_PATH"  # where a tool that listens names its library
INJECTED = re.compile(r"\s(/\S*libcuda-injection\.so)$", re.MULTILINE)  # Nsight Compute's, in a process's maps
MARKS = "TCPROBE_GPU_MARKS"  # a file: a line for each case that is measured
NEEDED = "TCPROBE_GPU_NEEDS_NVTX"  # set where a program whose ranges nobody hears runs for nothing
UNHEARD = 71  # how it ends
SWITCH = "TCPROBE_GPU_SWITCH"  # set where the tool is told through the driver instead
UNTIL = "TCPROBE_GPU_UNTIL"  # when the process is to be over, in seconds since 1970
NVTX = Path(__file__).resolve().parents[3] / "tcprobe" / "probe" / "core" / "nvtx.py"


def open_ranges() -> Ranges:
    """Return the ranges of this process; call it from the thread that runs the cases, before the framework is imported.

    From then on the process ends itself when the time that it was given is up, whatever it does then, so that a tool
    has the rest to write what it counted.
    """
    until = float(os.environ.get(UNTIL) or "inf")
    if until < float("inf"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(until - time.time(), 0.1))
    return Ranges(os.environ.get(MARKS), bool(os.environ.get(SWITCH)), until)


class Ranges:
    """Ranges in domain `tcprobe`."""

    def __init__(self, marks: Optional[str], switch: bool, until: float) -> None:
        self._domain: Any = None
        self._tried = ""
        self._marks = marks
        self._switch = switch
        self._until = until
        self._cases: List[str] = []

    @property
    def listening(self) -> bool:
        """A tool listens to NVTX; the first case that is opened finds out."""
        return self._domain is not None

    def left(self) -> float:
        """Return the seconds that are left until the process is to be over."""
        return self._until - time.time()

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Mark what belongs to a case; names are of printable ASCII without `:`, `/`, `"` and `,`."""
        self._cases.append(name)
        try:
            with self._range(name):
                yield
        finally:
            self._cases.pop()

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Mark what is to be counted, the wait for the GPU included."""
        if self._marks:
            with open(self._marks, "a", encoding="utf-8") as file:
                file.write(json.dumps(self._cases) + "\n")
        if os.environ.get(NEEDED) and self._listener() is None:
            print("NVTX: no tool listens", flush=True)
            os._exit(UNHEARD)
        with self._range(MEASURE), _switched_on(self._switch):
            yield

    @contextlib.contextmanager
    def _range(self, name: str) -> Iterator[None]:
        domain = self._listener()
        if domain is None:
            yield
            return
        event = domain.event(name)
        everywhere = domain.start(event) if domain.start else None
        domain.push(event)
        try:
            yield
        finally:
            domain.pop()
            if domain.start:
                domain.stop(everywhere)

    def _listener(self) -> Any:
        """Return the tool's domain; None where none listens. A tool may come as late as the GPU is used."""
        path = _tool()
        if self._domain is None and path and path != self._tried:
            self._tried = path
            try:
                self._domain = _nvtx().find_domain(DOMAIN, path)
            except (OSError, AttributeError, RuntimeError) as error:
                print("NVTX: %s" % error, file=sys.stderr)
        return self._domain


def _tool() -> Optional[str]:
    """Return the library of the tool: what the environment names, as C sees it now, else Nsight Compute's if loaded."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    path: Optional[bytes] = getenv(TOOL.encode())
    if path:
        return os.fsdecode(path)
    try:
        loaded = INJECTED.search(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return loaded.group(1) if loaded else None


@contextlib.contextmanager
def _switched_on(switch: bool) -> Iterator[None]:
    """Tell a profiler through the driver that it is to record now; it needs a context of CUDA."""
    if not switch:
        yield
        return
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuProfilerStart()
    try:
        yield
    finally:
        driver.cuProfilerStop()


def _nvtx() -> Any:
    """Return the probe's way to NVTX, which is read where it lies, since it is a module of a package."""
    spec = importlib.util.spec_from_file_location("tcprobe_gpu_nvtx", str(NVTX))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
