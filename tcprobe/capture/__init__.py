"""Run a workload under a profiler: one module per profiler, listed here."""

from __future__ import annotations

from tcprobe.capture import tensorflow
from tcprobe.capture.base import Capture
from tcprobe.capture.dlprof import capture as dlprof

CAPTURES: tuple[Capture, ...] = (tensorflow, dlprof)
