"""A Python with TensorFlow already imported: tests use `python()` instead of starting `sys.executable`.

A start of TensorFlow takes four seconds of a core, most of what a test of a few training steps takes. Here one process
of a test worker imports TensorFlow and runs nothing with it; every run is a fork of it, a process of its own with its
own environment, folder, streams, and exit status. That is sound because TensorFlow starts its threads with the first
op: what runs before are the idle threads of OpenBLAS and jemalloc, and both mind forks.

In the fork TensorFlow and Keras are hidden until they are imported: a script that imports neither sees neither, and the
import passes the finders and hooks of whoever watches it, in the order of a real one.

What a test holds about processes themselves (signals, tracebacks, an import's own failure) is run for real.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


@functools.cache
def python(interpreter: str = sys.executable) -> str:
    """Return the path of a program like `interpreter`; its server starts with the first call and ends with `stop`."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    read, write = os.pipe()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [interpreter, str(HERE / "server.py"), str(folder), str(read)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=(read,),
            start_new_session=True,
        )
    os.close(read)
    _running.append((server, write))
    program = folder / "python"
    client = (HERE / "client.py").read_text(encoding="utf-8")
    program.write_text(f"#!{interpreter} -IS\nFOLDER = {str(folder)!r}\n{client}", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def stop() -> None:
    """End the server, if it runs."""
    for server, pipe in _running:
        os.close(pipe)
        server.wait()
    _running.clear()
    python.cache_clear()


_running: list[tuple[subprocess.Popen[bytes], int]] = []
"""The server and the end of its pipe: it ends when this process lets that go, however this process ends."""
