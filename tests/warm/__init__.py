"""A Python with TensorFlow already imported: tests use `python()` instead of starting `sys.executable`.

A start of TensorFlow takes four seconds of a core, most of what a test of a few training steps takes. Here one process
of a test worker imports TensorFlow and runs nothing with it; every run is a fork of it, a process of its own with its
own environment, folder, streams, and exit status. That is sound because TensorFlow starts its threads with the first
op: what runs before are the idle threads of OpenBLAS and jemalloc, and both mind forks.

In the fork TensorFlow and Keras are hidden until they are imported: a script that imports neither sees neither, and the
import passes the finders and hooks of whoever watches it, in the order of a real one.

`tcprobe()` is the same for the command line without TensorFlow: a start of it imports for most of a second.

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
PACKAGE = HERE.parent.parent / "tcprobe"


def command_line() -> tuple[str, ...]:
    """Return the modules that the command line imports, now or within a function: those of the package and NumPy's.

    A list of the few that matter goes out of date unseen: each fork then imports for a third of a second.
    """
    paths = [path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if path.stem != "__main__"]
    own = [name for name in names if not name.startswith("tcprobe.probe")]
    return ("runpy", *own, "numpy.fft", "numpy.ma", "numpy.random")


@functools.cache
def python(interpreter: str = sys.executable) -> str:
    """Return the path of a program like `interpreter`; its server starts with the first call and ends with `stop`."""
    return _served(interpreter)


@functools.cache
def tcprobe() -> str:
    """Return the path of a Python that has the command line imported: ``tcprobe() -m tcprobe report PATH``."""
    return _served(sys.executable, *command_line())


def run_tcprobe(*args: str | Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own; an interpreter that the environment tells something is a new one."""
    anew = any(name.startswith("PYTHON") for name in environment)
    command = [sys.executable if anew else tcprobe(), "-m", "tcprobe", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=timeout
    )


def _served(interpreter: str, *modules: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    read, write = os.pipe()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    if modules:
        environment["PYTHONPATH"] = str(PACKAGE.parent)  # not another checkout, which may be the one installed
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [interpreter, str(HERE / "server.py"), str(folder), str(read), *modules],
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
    tcprobe.cache_clear()


_running: list[tuple[subprocess.Popen[bytes], int]] = []
"""The server and the end of its pipe: it ends when this process lets that go, however this process ends."""
