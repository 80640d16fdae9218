"""The list of captures: ways to run a workload under a profiler, one module each."""

from __future__ import annotations

from tcprobe.capture import tensorflow
from tcprobe.capture.base import Capture
from tcprobe.capture.dlprof import capture as dlprof

CAPTURES: tuple[Capture, ...] = (tensorflow, dlprof)
