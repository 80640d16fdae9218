"""Reads losses from TensorBoard's event files of this run: scripts that log them there alone."""

from __future__ import annotations

import functools
import glob
import os
import re
from typing import Any, Dict, Iterator, List, Tuple

from ..core.gaps import Gaps

LOGS = re.compile(r"loss|acc", re.IGNORECASE)
MOST_BYTES = 64 << 20  # of one file; a scalar takes about 60 bytes
Logged = Tuple[float, str, float]
"""Seconds since the epoch, name and value."""


class EventFiles:
    """Knows the folders that the script writes events to, by `tf.summary.create_file_writer` or Keras' TensorBoard."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._writers: Dict[str, Any] = {}
        self._tf: Any = None

    def install(self, tf: Any) -> None:
        """Watch the op that opens a writer."""
        from tensorflow.python.ops import gen_summary_ops as ops

        self._tf, make = tf, ops.create_summary_file_writer

        @functools.wraps(make)
        def create(writer: Any, logdir: Any, *args: Any, **kwds: Any) -> Any:
            self._gaps.run("event files", lambda: self._add(writer, logdir))
            return make(writer, logdir, *args, **kwds)

        ops.create_summary_file_writer = create

    def _add(self, writer: Any, logdir: Any) -> None:
        folder = logdir.numpy() if hasattr(logdir, "numpy") else logdir
        self._writers[folder.decode() if isinstance(folder, bytes) else str(folder)] = writer

    def losses(self, since: float) -> List[Logged]:
        """Return the losses and accuracies of files written since a time, in order of time."""
        found: List[Logged] = []
        for folder, writer in self._writers.items():
            try:
                self._tf.raw_ops.FlushSummaryWriter(writer=writer)
            except self._tf.errors.OpError:
                pass  # the script has closed it
            for path in glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*")):
                if os.path.getmtime(path) >= since and os.path.getsize(path) <= MOST_BYTES:
                    found += self._scalars(path, "val_" if os.path.basename(folder) == "validation" else "")
        return sorted(found)

    def _scalars(self, path: str, prefix: str) -> Iterator[Logged]:
        for event in self._tf.compat.v1.train.summary_iterator(path):
            for one in event.summary.value:
                if LOGS.search(one.tag):
                    number = self._tf.make_ndarray(one.tensor) if one.HasField("tensor") else one.simple_value
                    if getattr(number, "size", 1) == 1:
                        name = re.sub(r"[^a-z0-9/]+", "_", one.tag.lower()).strip("_")
                        yield event.wall_time, prefix + name, float(number)
