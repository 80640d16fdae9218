"""Keeps a script that goes on from changing anything: files are not written or deleted, nothing is started or sent.

What it computes after a training call that trained nothing must not replace what real runs have left.
"""

from __future__ import annotations

import builtins
import io
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, Optional, Tuple

REFUSED: Dict[str, str] = {
    "os.remove": "deletes a file",
    "os.rename": "renames a file",
    "os.rmdir": "deletes a folder",
    "os.truncate": "cuts a file",
    "shutil.rmtree": "deletes a folder",
    "shutil.move": "moves a file",
    "os.system": "starts a program",
    "os.exec": "starts a program",
    "os.posix_spawn": "starts a program",
    "subprocess.Popen": "starts a program",
    "socket.connect": "opens a connection",
}
PRETENDED: Dict[Any, Tuple[str, ...]] = {
    os: ("mkdir", "remove", "rename", "replace", "rmdir", "truncate", "unlink"),
    shutil: ("move", "rmtree"),
}
PATHS = (str, bytes, os.PathLike)
HERE = ("localhost", "127.0.0.1", "::1")


class NotDone(PermissionError):
    """What the script asks for would change something outside it."""

    __module__ = "builtins"  # messages name it without one


class Harmless:
    """From `start` on, acts as if files and folders changed, and refuses by audit events what it cannot pretend.

    Args:
        out: folder that may be written.
    """

    def __init__(self, out: str) -> None:
        home = os.path.expanduser("~")
        # Temporary files, and the caches of libraries in hidden folders: nobody's results.
        self._free: Tuple[str, ...] = (
            os.path.join(out, ""),
            os.path.join(tempfile.gettempdir(), "tmp"),
            os.path.join(tempfile.gettempdir(), "__autograph_generated_file"),
            os.path.join(home, "."),
            os.path.join(os.sep, "dev", ""),
        )
        self._original: Callable[..., Any] = open
        self.on = False

    def start(self) -> None:
        """Begin; there is no way back."""
        if self.on:
            return
        self.on = True
        sys.addaudithook(self._happens)
        builtins.open = io.open = self._open
        os.system = lambda command: 0  # noqa: ARG005
        aside = getattr(pathlib, "_NormalAccessor", None)  # where Python before 3.11 keeps them for its paths
        for owner, names in PRETENDED.items():
            for name in names:
                pretended = self._pretended(getattr(owner, name))
                setattr(owner, name, pretended)
                if hasattr(aside, name):
                    setattr(aside, name, staticmethod(pretended))

    def _open(self, file: Any, mode: str = "r", *args: Any, **kwds: Any) -> Any:
        """Open a file; one that would be written is opened as the null device."""
        if isinstance(file, PATHS) and set(mode) & set("wax+") and not self._is_free(file):
            file, mode = os.devnull, mode.replace("x", "w")
        return self._original(file, mode, *args, **kwds)

    def _pretended(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what another does where a file may be written, and nothing elsewhere."""

        def change(*args: Any, **kwds: Any) -> Any:
            folder = kwds.get("dir_fd")
            if all(self._is_free(path, folder) for path in [*args, *kwds.values()] if isinstance(path, PATHS)):
                return original(*args, **kwds)
            return None

        return change

    def _happens(self, event: str, args: Tuple[Any, ...]) -> None:
        what = REFUSED.get(event)
        if what is None or (event == "socket.connect" and _is_near(args[1])):
            return
        paths = [path for path in args[:2] if isinstance(path, PATHS)]
        folder = args[1] if len(args) == 2 and event != "os.truncate" else None
        if paths and event.startswith(("os.re", "os.rm", "shutil")):
            if all(self._is_free(path, folder) for path in paths):
                return
        raise NotDone("an audit goes no further where the script %s (%s)" % (what, event))

    def _is_free(self, path: Any, folder: Optional[int] = None) -> bool:
        """Return whether a file may be changed, of a folder that is open under this number where there is one."""
        within = os.path.realpath("/proc/self/fd/%d" % folder) if isinstance(folder, int) and folder >= 0 else ""
        absolute = os.path.abspath(os.path.join(within, os.fsdecode(path)))
        return absolute.startswith(self._free) or "__pycache__" in absolute


def _is_near(address: Any) -> bool:
    """Return whether an address is on this machine."""
    return not isinstance(address, tuple) or address[0] in HERE
