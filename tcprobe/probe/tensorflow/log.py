"""Keeps what TensorFlow's profiler logs of its own work off the workload's standard error.

The profiler's C++ code writes to file descriptor 2, only while a session starts or stops. For that time alone 2 is a
file in memory, which tcprobe gave us: then the profiler's lines go to a file of the run, and all else to where it was
headed, in its order. If the process dies meanwhile, tcprobe has the file in memory and shows what it holds.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Iterator, Optional

from ..constants import ASIDE, PROFILER_LOG

OWN = re.compile(
    rb"(?:I\d{4} \d\d:\d\d:[\d.:]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: I )"
    rb"(?:(?:\S*/profiler/\S*|(?:profiler|cupti|host_tracer|device_tracer|gpu_tracer|xplane)\w*|save_profile)"
    rb"\.cc:\d+\] |\S*dso_loader\.cc:\d+\] [^\n]*libcupti)[^\n]*\n(?:(?:Dumped tool data for [^\n]*\n)+\n?)?"
)
"""A line of the profiler's own, for information: as absl writes it since TensorFlow 2.18, and as it was before.

Warnings and errors of it stay where they are. Source: the LOG(INFO) of tsl/profiler and xla/backends/profiler.
"""


class ProfilerLog:
    """What the profiler logs.

    Args:
        aside: the descriptor of tcprobe's file in memory; None where there is none.
        folder: where the profiler's lines go.
    """

    def __init__(self, aside: Optional[int], folder: str) -> None:
        self._aside = aside if aside is not None and is_aside(aside) else None
        self._folder = folder
        if self._aside is not None:
            os.set_inheritable(self._aside, False)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Sort what is written to standard error within: after it, for it comes while the profiler has the process."""
        if self._aside is None:
            yield
            return
        shown = os.dup(2)
        os.dup2(self._aside, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.close(shown)
            self._sort(self._aside)

    def _sort(self, aside: int) -> None:
        text = os.pread(aside, os.fstat(aside).st_size, 0)
        os.ftruncate(aside, 0)
        own = b"".join(OWN.findall(text))
        write_all(2, OWN.sub(b"", text))
        if own:
            with open(os.path.join(self._folder, PROFILER_LOG), "ab") as file:
                file.write(own)


def is_aside(number: int) -> bool:
    """Return whether a descriptor is tcprobe's file: it may have been closed, and another file have its number."""
    try:
        return os.readlink("/proc/self/fd/%d" % number).startswith("/memfd:%s" % ASIDE)
    except OSError:
        return False


def write_all(number: int, text: bytes) -> None:
    """Write text to a descriptor; where nobody reads it any more, the rest is lost as it would have been."""
    try:
        while text:
            text = text[os.write(number, text) :]
    except OSError:
        pass
