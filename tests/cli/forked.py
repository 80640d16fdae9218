"""Runs command lines of tcprobe under faults of the system, each in a fork of one process that has imported it.

``python -m tests.cli.forked FOLDER`` reads FOLDER/cases, a JSON list of ``[fault, [argument, ...], folder]``, and
writes ``[exit code, standard output, standard error]`` for each to FOLDER/ended. An interpreter for each takes 0.3 s.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pwd
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support import NOBODY
from tests.warm import command_line

CODE_OF_LOST_OUTPUT: Final = 120
"""What Python exits with where it cannot flush the standard streams at the end."""


def _redirect(number: int, path: str, access: int) -> Callable[[], None]:
    return lambda: os.dup2(os.open(path, access), number) and None


def _close(*numbers: int) -> Callable[[], None]:
    return lambda: [os.close(number) for number in numbers] and None


def _pipe_closed() -> None:
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(reading)


def _no_home() -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        os.environ.pop(name, None)
    pwd.getpwuid = unknown  # type: ignore[assignment]


def _home_of_another() -> None:
    os.environ["HOME"] = "/dev/null"
    os.environ.pop("XDG_CONFIG_HOME", None)


def _folder_gone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def _unprivileged() -> None:
    if not os.getuid():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _terminal() -> None:
    os.environ.update(COLUMNS="abc", LINES="-5", LANG="xx", TERM="")


def _ascii() -> None:
    os.environ["PYTHONIOENCODING"] = "ascii"


def _no_files_left() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "none": lambda: None,
    "stdout full": _redirect(1, "/dev/full", os.O_WRONLY),
    "stdout closed": _close(1),
    "stderr full": _redirect(2, "/dev/full", os.O_WRONLY),
    "stderr closed": _close(2),
    "stdin closed": _close(0),
    "stdout and stderr closed": _close(1, 2),
    "all closed": _close(0, 1, 2),
    "pipe closed": _pipe_closed,
    "no home": _no_home,
    "home of another": _home_of_another,
    "folder gone": _folder_gone,
    "small files": _small_files,
    "unprivileged": _unprivileged,
    "terminal": _terminal,
    "ascii": _ascii,
    "no files left": _no_files_left,
}


def _standard(number: int, mode: str) -> io.TextIOWrapper | None:
    """Return a standard stream as the interpreter makes it at its start."""
    try:
        os.fstat(number)
    except OSError:
        return None
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, mode, 1 if number == 2 else -1, encoding, errors, closefd=False)


def _exit_code(arguments: list[str]) -> int:
    from tcprobe.__main__ import main

    sys.argv = ["tcprobe", *arguments]
    sys.stdin, sys.stdout, sys.stderr = _standard(0, "r"), _standard(1, "w"), _standard(2, "w")  # type: ignore[assignment]
    try:
        code: int | str | None = main()
    except SystemExit as end:
        code = end.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return CODE_OF_LOST_OUTPUT
    return int(code or 0)


def _child(fault: str, arguments: list[str], home: str, out: Path, err: Path) -> None:
    """Do the case and end; a traceback that escapes is exit code 1 and what standard error then holds."""
    os.chdir(home)
    for number, path, access in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        os.dup2(os.open(path, access | os.O_CREAT, 0o666), number)
    FAULTS[fault]()
    code = 1
    try:
        code = _exit_code(arguments)
    finally:
        if sys.exc_info()[0] is not None:
            import traceback

            err.write_text(traceback.format_exc(), encoding="utf-8")
        os._exit(code)


def _ended(at: int, case: list[str], folder: Path) -> list[int | str]:
    out, err = folder / f"{at}.out", folder / f"{at}.err"
    child = os.fork()
    if not child:
        _child(case[0], list(case[1]), case[2], out, err)
    _, status = os.waitpid(child, 0)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    return [os.waitstatus_to_exitcode(status), *texts]


def main() -> None:
    """Do all cases, one after another."""
    for name in ("tcprobe.__main__", *command_line()):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    folder = Path(sys.argv[1])
    cases = json.loads((folder / "cases").read_text(encoding="utf-8"))
    ended = [_ended(at, case, folder) for at, case in enumerate(cases)]
    (folder / "ended").write_text(json.dumps(ended), encoding="utf-8")


if __name__ == "__main__":
    main()
