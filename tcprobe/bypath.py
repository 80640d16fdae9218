"""Runs a package of ours by path in another interpreter, which need not have tcprobe installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcprobe.errors import ToolError

LONGEST_LINE: Final = 300


@dataclass(frozen=True, slots=True)
class Program:
    """A package that stands by itself: ``python FOLDER orders.json``, FOLDER being the package under its own name.

    Attributes:
        source: its folder in this installation.
        name: under which it is run: one that shadows nothing of the user's.
        title: what messages call it.
        beside: files of this installation that it reads from the folder in which it lies.
    """

    source: Path
    name: str
    title: str
    beside: tuple[Path, ...] = ()

    def command(
        self, python: str, folder: Path, orders: Mapping[str, Any], written: Path, *, link: bool
    ) -> tuple[str, ...]:
        """Make the program runnable by path, write its orders, and return the command line.

        Args:
            python: the interpreter.
            folder: where it is put; made where it is absent.
            orders: what it is to do.
            written: the file that its orders are written to.
            link: whether a link will do, which lets the interpreter keep what it compiled; else it is copied.

        Raises:
            ToolError: this installation lacks the program.
            OSError: something cannot be written.
        """
        if not (self.source / "__main__.py").is_file():
            raise ToolError(f"{self.source}: {self.title} is missing", "install tcprobe again")
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / self.name
        if not (link and _linked(place, self.source)):
            shutil.copytree(self.source, place, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        for path in self.beside:
            shutil.copy2(path, folder)
        written.write_text(json.dumps(orders, indent=1) + "\n", encoding="utf-8")
        return (python, str(place), str(written))


_HERE: Final = Path(__file__).parent
PROBE: Final = Program(_HERE / "probe", "tcprobe_probe", "the probe", (_HERE / "op_types.json",))


def _linked(place: Path, source: Path) -> bool:
    try:
        place.symlink_to(source, target_is_directory=True)
    except OSError:
        return False
    return True


def run(command: tuple[str, ...], environment: Mapping[str, str], out: Path, err: Path, timeout_s: float) -> int | None:
    """Run a command without input; whatever it started is ended in any case.

    Args:
        command: the command line.
        environment: all of its variables.
        out, err: files for what it prints; the same for both keeps its order.
        timeout_s: seconds, above 0.

    Returns:
        Its exit status, minus the signal that it died of; None where the time was up.

    Raises:
        ToolError: it does not start.
    """
    with out.open("wb") as stdout, contextlib.nullcontext(stdout) if err == out else err.open("wb") as stderr:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"{command[0]}: it does not start: {error.strerror}") from error
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, which shares its group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def ending(status: int) -> str:
    """Return how a process ended, from its status."""
    return f"died of {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"


def last_line(path: Path) -> str:
    """Return the last line of what a process printed, cut where it is long; empty where there is none."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST_LINE] if lines else ""
