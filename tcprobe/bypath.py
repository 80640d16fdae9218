"""Run one of our packages by path in another interpreter, where tcprobe need not be installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.errors import ToolError, writing

LONGEST_LINE: Final = 300


class StandalonePackage(Struct, frozen=True):
    """A package that runs on its own: ``python FOLDER orders.json``, where FOLDER is a copy of or link to it."""

    source: Path  # its folder in this installation
    name: str  # name of FOLDER; it must not shadow a package of the user
    title: str  # what messages call it
    beside: tuple[Path, ...] = ()  # files of this installation that it reads from FOLDER's parent

    def command(
        self, python: str, folder: Path, orders: Mapping[str, Any], written: Path, *, link: bool
    ) -> tuple[str, ...]:
        """Put the package in place, write its orders, and return the command line that runs it.

        Args:
            python: the interpreter.
            folder: where to put it; created if absent.
            orders: what it is to do.
            written: the file to write the orders to.
            link: whether a link is enough, so that the interpreter keeps its compiled files; otherwise a copy is made.

        Raises:
            ToolError: the package is missing from this installation.
            OSError: a file cannot be written.
        """
        if not (self.source / "__main__.py").is_file():
            raise ToolError(f"{self.source}: {self.title} is missing", "install tcprobe again")
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / self.name
        if not (link and _linked(place, self.source)):
            _copy(self.source, place)
        for path in self.beside:
            shutil.copyfile(path, folder / path.name)
        written.write_text(json.dumps(orders, indent=1) + "\n", encoding="utf-8")
        return (python, str(place), str(written))


_HERE: Final = Path(__file__).parent
PROBE: Final = StandalonePackage(_HERE / "probe", "tcprobe_probe", "the probe", (_HERE / "op_types.json",))


def _copy(source: Path, place: Path) -> None:
    """Copy the modules of a package; unlike `shutil.copytree`, raise the first refusal of the system as it is."""
    for path in sorted(source.rglob("*.py")):
        copy = place / path.relative_to(source)
        # Python would give the folder of compiled files the rights that the workload's umask leaves.
        (copy.parent / "__pycache__").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _linked(place: Path, source: Path) -> bool:
    try:
        place.symlink_to(source, target_is_directory=True)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Provide a folder for a command's orders and answers, and remove it.

    Raises:
        OutputError: the system refuses the folder, or a file in it.
    """
    place = os.environ.get("TMPDIR") or "/tmp"
    with (
        writing(f"{place} (for temporary files)"),
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
    ):
        yield Path(name)


def run_to_end(
    command: tuple[str, ...], environment: Mapping[str, str], out: Path, err: Path, timeout_s: float
) -> int | None:
    """Run a command without input; on return, everything it started has ended.

    Args:
        command: the command line.
        environment: all of its environment variables.
        out, err: files for its output; the same file for both keeps the order.
        timeout_s: seconds, above 0.

    Returns:
        Its exit status, or minus the signal that ended it; None if the time ran out.

    Raises:
        ToolError: the command does not start.
    """
    with out.open("wb") as stdout, contextlib.nullcontext(stdout) if err == out else err.open("wb") as stderr:
        process = None
        try:
            with _interrupts_held():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=environment,
                    start_new_session=True,
                )
            return process.wait(timeout_s)
        except OSError as error:
            raise ToolError(f"{command[0]}: it does not start: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process is not None:
                _end(process)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended: what is being started may run long before it is known."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for number in came[:1]:
            os.kill(os.getpid(), number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything it started in the same process group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def ending(status: int) -> str:
    """Return how a process ended, in words, from its exit status."""
    return f"died of {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"


def last_line(path: Path) -> str:
    """Return the last line that a process printed, shortened if long; empty if there is none."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST_LINE] if lines else ""
