"""Import TensorFlow, or some modules, once and fork for every request: ``python server.py FOLDER PIPE [MODULE...]``.

Its socket is made in FOLDER, which it removes when PIPE closes and it ends.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

HIDDEN = ("tensorflow", "keras")
LATER = (  # what a training step imports, beyond TensorFlow itself
    "runpy",
)


class Hidden:
    """A finder of modules that are loaded and not in `sys.modules`: their import runs none of their code again."""

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] in HIDDEN]
        self.modules = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        if name not in HIDDEN or name not in self.modules:
            return None
        return importlib.machinery.ModuleSpec(name, Again(self), is_package=True)


class Again:
    """The loader of one hidden module; each import of one brings the others, as the real one does."""

    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden

    def create_module(self, spec: Any) -> types.ModuleType:
        module = self.hidden.modules[spec.name]
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec
        own = {name: found for name, found in self.hidden.modules.items() if name not in HIDDEN}
        sys.modules.update(own)
        for name in HIDDEN:
            if name in self.hidden.modules:
                importlib.import_module(name)


def warm(modules: Sequence[str]) -> None:
    """Import modules; where none are given, TensorFlow and what its first step would import."""
    for name in modules or (*HIDDEN, *LATER):
        if importlib.util.find_spec(name):  # TensorFlow 2.4 has no package keras
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


class Server:
    """Takes requests, one fork each, and tells how they ended.

    A request is a line of JSON (``argv``, ``cwd``, ``environment``) with three descriptors; the answers are two lines:
    the process's id and its wait status. A connection that closes before the end ends the process.
    """

    def __init__(self, folder: str, pipe: int) -> None:
        self.folder = folder
        self.children: set[Child] = set()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(folder + "/new")
        self.listener.listen(64)
        os.rename(folder + "/new", folder + "/socket")
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(pipe, selectors.EVENT_READ, self.end)

    def serve(self) -> dict[str, Any]:
        """Return in a fork alone, with its request."""
        while True:
            for key, _ in self.selector.select():
                request = key.data()
                if request is not None:
                    return dict(request)

    def end(self) -> None:
        for child in self.children:
            child.kill()
        shutil.rmtree(self.folder)
        sys.exit()

    def accept(self) -> dict[str, Any] | None:
        connection, _ = self.listener.accept()
        text, descriptors = received(connection, 3)
        while not text.endswith(b"\n"):
            more = connection.recv(1 << 20)
            if not more:
                connection.close()
                return None
            text += more
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 3.12: see this package's docstring
            pid = os.fork()
        if pid == 0:
            os.setsid()
            self.selector.close()
            self.listener.close()
            connection.close()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
                os.close(descriptor)
            return dict(json.loads(text))
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(b"%d\n" % pid)
        self.children.add(Child(self, connection, pid))
        return None


class Child:
    """A fork until its end."""

    def __init__(self, server: Server, connection: socket.socket, pid: int) -> None:
        self.server, self.selector, self.connection, self.pid = server, server.selector, connection, pid
        self.end = opened(pid)
        self.selector.register(self.end, selectors.EVENT_READ, self.ended)
        self.selector.register(connection, selectors.EVENT_READ, self.left)

    def kill(self) -> None:
        """Kill it and what it started."""
        for kill in (os.killpg, os.kill):  # it may not lead a group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)

    def left(self) -> None:
        self.selector.unregister(self.connection)
        self.kill()

    def ended(self) -> None:
        self.server.children.discard(self)
        _, status = os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            self.connection.sendall(b"%d\n" % status)
        with contextlib.suppress(KeyError):
            self.selector.unregister(self.connection)
        self.selector.unregister(self.end)
        self.connection.close()
        os.close(self.end)


def received(connection: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """Do what `socket.recv_fds` does, which Python 3.8 lacks."""
    text, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_LEN(count * 4))
    numbers = array.array("i")
    for _, _, data in ancillary:
        numbers.frombytes(data)
    return text, list(numbers)


def opened(pid: int) -> int:
    """Do what `os.pidfd_open` does, which Python 3.8 lacks."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import ctypes

    return int(ctypes.CDLL(None).syscall(434, pid, 0))


def settle(request: dict[str, Any], path: Sequence[str]) -> None:
    """Make a fork what a new interpreter would be: folder, environment, module path, streams, random numbers."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    sys.path[:] = ["", *given, *path]
    errors = {"stdin": "strict", "stdout": "strict", "stderr": "backslashreplace"}
    for number, (name, how) in enumerate(errors.items()):
        stream = open(number, "w" if number else "r", encoding="utf-8", errors=how, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.modules["numpy"].random.seed()
    sys.meta_path.insert(0, Hidden())  # type: ignore[arg-type]


def run(argv: list[str]) -> None:
    """Do what an interpreter does with these arguments: ``-c TEXT``, ``-m MODULE``, or a path."""
    import runpy

    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    start: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    if argv[0] == "-c":
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec", dont_inherit=True), main.__dict__)
    elif argv[0] == "-m":
        sys.path[0], sys.argv = os.getcwd(), ["-m", *argv[2:]]
        start(argv[1])
    elif os.path.isdir(argv[0]):
        sys.path[0], sys.argv = argv[0], argv
        start("__main__", False)
    else:
        path = os.path.abspath(argv[0])
        sys.path[0], sys.argv = os.path.dirname(os.path.realpath(path)), argv
        main.__dict__.update(__file__=path, __loader__=importlib.machinery.SourceFileLoader("__main__", path))
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), main.__dict__)


if __name__ == "__main__":
    warm(sys.argv[3:])
    asked, module_path = Server(sys.argv[1], int(sys.argv[2])).serve(), sys.path[1:]
    settle(asked, module_path)
    run(asked["argv"])
