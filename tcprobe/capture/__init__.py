"""Run a workload under a profiler: one module per profiler, listed here."""

from __future__ import annotations

from tcprobe.capture import dlprof, tensorflow
from tcprobe.capture.base import Capture

CAPTURES: tuple[Capture, ...] = (tensorflow, dlprof)
