"""The list of captures: ways to run a workload under a profiler, one module each."""

from __future__ import annotations

from tcprobe.capture import dlprof, ncu, nsys, tensorflow
from tcprobe.capture.base import Capture

CAPTURES: tuple[Capture, ...] = (tensorflow, dlprof, nsys, ncu)
