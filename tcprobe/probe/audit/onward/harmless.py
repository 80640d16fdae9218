"""Keeps a script that goes on from changing anything: files are not written or deleted, nothing is started or sent.

What it computes after a training call that trained nothing must not replace what real runs have left.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import tempfile
from typing import Any, Callable, Dict, Tuple

from .stops import NotDone

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
HERE = ("localhost", "127.0.0.1", "::1")


class Harmless:
    """From `start` on, refuses by audit events what changes something, and opens and makes nothing to write to.

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
        self._make: Callable[..., None] = os.mkdir
        self.on = False

    def start(self) -> None:
        """Begin; there is no way back."""
        if not self.on:
            self.on = True
            sys.addaudithook(self._happens)
            builtins.open = io.open = self._open
            os.mkdir = self._mkdir

    def _open(self, file: Any, mode: str = "r", *args: Any, **kwds: Any) -> Any:
        """Open a file; one that would be written is opened as the null device."""
        if isinstance(file, (str, bytes, os.PathLike)) and set(mode) & set("wax+") and not self._is_free(file):
            file, mode = os.devnull, mode.replace("x", "w")
        return self._original(file, mode, *args, **kwds)

    def _mkdir(self, path: Any, *args: Any, **kwds: Any) -> None:
        """Make a folder, where a file may be written; elsewhere act as if."""
        if self._is_free(path):
            self._make(path, *args, **kwds)

    def _happens(self, event: str, args: Tuple[Any, ...]) -> None:
        what = REFUSED.get(event)
        if what is None or (event == "socket.connect" and _is_near(args[1])):
            return
        named = args[0] if args and isinstance(args[0], (str, bytes, os.PathLike)) else None
        if named is not None and event.startswith(("os.re", "os.rm", "shutil")) and self._is_free(named):
            return
        raise NotDone("an audit goes no further where the script %s (%s)" % (what, event))

    def _is_free(self, path: Any) -> bool:
        absolute = os.path.abspath(os.fsdecode(path))
        return absolute.startswith(self._free) or "__pycache__" in absolute


def _is_near(address: Any) -> bool:
    """Return whether an address is on this machine."""
    return not isinstance(address, tuple) or address[0] in HERE
