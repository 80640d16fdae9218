"""The list of captures: ways to run a workload under a profiler, one module each."""

from __future__ import annotations

from tcprobe.capture import tensorflow
from tcprobe.capture.base import Capture
from tcprobe.capture.dlprof import capture as dlprof
from tcprobe.capture.nsys import capture as nsys

CAPTURES: tuple[Capture, ...] = (tensorflow, dlprof, nsys)
