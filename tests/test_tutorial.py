"""The tutorial: its commands run, one after the other, and print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```$")
VARIES = "<!-- varies -->\n"
"""Before a block whose lines depend on how fast the machine was at that moment: only how its commands end counts."""
FRAMEWORK = re.compile(r"WARNING: All log messages before absl|[IWE]\d{4} \d\d:\d\d:")
"""Lines of TensorFlow's own."""
CODE = re.compile(r"# exit code (\d+)$")


def blocks(page: str) -> Iterator[tuple[str, list[tuple[str, str]], bool]]:
    """Yield the blocks of a page: their text, their commands with what each prints, and whether that varies."""
    for found in BLOCK.finditer(page):
        commands = [part.partition("\n")[::2] for part in re.split(r"(?m)^\$ ", found[1])[1:]]
        yield found[1], commands, page[: found.start()].endswith(VARIES)


def plain(text: str) -> str:
    """Return a text without what differs from run to run and machine to machine: numbers, bars, blanks."""
    text = re.sub(r"[-+]?\d[\d.,]*(?:\s?(?:ns|us|ms|s|min|[KMG]iB|[kMGT]FLOP))?\b", "N", text)
    return "\n".join(" ".join(re.sub(r"[#=+?.]{3,}", "#", line).split()) for line in text.splitlines())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the folder that the tutorial begins in: a clone, as far as its commands look at it."""
    for name in ("workloads", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a line as a user types it into a shell on a terminal; return the exit code and what stands on the screen."""
    shell = shutil.which("bash")
    assert shell
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (25, 80))
    process = subprocess.Popen(
        [shell, "-c", command], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    lines = b"".join(_until_closed(ours)).decode().replace("\r\n", "\n").split("\n")
    os.close(ours)
    kept = (line.rpartition("\r")[2].replace("\x1b[K", "") for line in lines)
    return process.wait(60), "\n".join(line for line in kept if not FRAMEWORK.match(line))


def _until_closed(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal; one whose last writer has gone cannot be read any more."""
    with suppress(OSError):
        while chunk := os.read(terminal, 65536):
            yield chunk


def test_the_tutorial_prints_what_it_shows(folder: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("tensorflow", reason="the tutorial trains a model")
    page = PAGE.read_text(encoding="utf-8")
    for text, commands, varies in list(blocks(page)):
        printed = ""
        for command, shown in commands:
            expected = int(found[1]) if (found := CODE.search(command)) else 0
            code, output = run(command, folder)
            assert code == expected, (command, output)
            if not varies:
                assert request.config.getoption("--update-golden", default=False) or plain(output) == plain(shown), (
                    command
                )
            printed += f"$ {command}\n{output}"
        page = page.replace(text, printed)
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(page, encoding="utf-8")
