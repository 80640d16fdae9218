"""Watch what the process does to the system: writes, removals, other programs, the network, code of an input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES: Final = frozenset(
    f"os.{name}"
    for name in (
        *("remove", "rename", "rmdir", "mkdir", "link", "symlink", "truncate", "chmod", "chown", "utime", "mkfifo"),
        *("mknod", "setxattr", "removexattr"),
    )
)
NEVER: Final = frozenset(
    {
        *(
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "os.spawn",
            "os.fork",
            "os.forkpty",
            "pty.spawn",
        ),
        *("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "webbrowser.open"),
        *("os.kill", "signal.pthread_kill", "ctypes.dlopen", "os.putenv"),
    }
)
SECRET: Final = ("/etc/", "/dev/zero", "/dev/random", "/proc/1/")


class Watch:
    """Holds what is forbidden while it is on; a process has one, for audit hooks stay."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._allowed: tuple[str, ...] = ()
        self._input = ""
        self._on = False
        sys.addaudithook(self._hook)

    def start(self, folder: Path, allowed: tuple[str, ...]) -> None:
        """Begin: nothing of the input in `folder` may run, and no path be written that does not start as `allowed`."""
        self.found, self._input, self._allowed = [], str(folder), allowed
        self._on = True

    def stop(self) -> list[str]:
        """End, and return what was done that is forbidden."""
        self._on = False
        found, self.found = self.found, []
        return found

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event == "open":
            self._opened(*arguments)
        elif event in CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
                self._changed(event, path)
        elif event in NEVER:
            self.found.append(f"{event}")
        elif event == "exec" and getattr(arguments[0], "co_filename", "").startswith(self._input):
            self.found.append("executes the input")

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int):
            return
        if isinstance(flags, int) and flags & WRITES:
            self._changed("opens for writing", path)
        elif _text(path).startswith(SECRET) and not _text(path).startswith("/etc/localtime"):
            self.found.append(f"reads {_text(path)[:80]}")

    def _changed(self, event: str, path: Any) -> None:
        name = _text(path)
        if name != os.devnull and not name.startswith(self._allowed):
            self.found.append(f"{event} {Path(name).name[:40]}")


def _text(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
