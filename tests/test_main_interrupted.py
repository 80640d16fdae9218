"""Ctrl-C at any moment of a command: no traceback from the first line of tcprobe on, and exit code 130.

What Python does before (its own start, `site`, runpy or the script's `import re`) is out of reach; there it ends as
Python does, by the signal or with a traceback in which nothing of tcprobe stands.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

import tcprobe
from tests.cli.struck import WAYS, struck
from tests.fixtures import xplane

PROFILE: Final = str(Path(xplane.__file__).parent / "two_gpus.xplane.pb")
SCRIPT: Final = (
    "import keras\nm = keras.Sequential([keras.Input((250,)), keras.layers.Dense(250), keras.layers.Dense(8)])\n"
)
COMMANDS: Final = {
    "--version": ["--version"],
    "report": ["report", PROFILE],
    "audit-shapes": ["audit-shapes", "--mode", "source", "--exit-zero", "m.py"],
}
SAID: Final = ("", "tcprobe: interrupted\n")
FRAME: Final = re.compile(rf'File "{re.escape(str(Path(tcprobe.__file__).parent))}/([^"]+)", line \d+, in (\S+)')
FIRST_LINES: Final = {("__init__.py", "<module>"), ("__main__.py", "<module>")}
"""Where an interruption may still come before its handler: under a millisecond."""
OF_PYTHON: Final = "Failed checking if argv[0] is an import path entry\n"
"""What Python says of one that comes before it opens the script; its exit code is 0 then (seen with 3.11)."""


@pytest.fixture(name="folder")
def scripts_folder(tmp_path: Path) -> Path:
    """Return a folder with a script to audit."""
    (tmp_path / "m.py").write_text(SCRIPT)
    (tmp_path / "hook").mkdir()
    return tmp_path


def command(way: str, name: str) -> list[str]:
    if not Path(WAYS[way][0]).exists():
        pytest.skip("tcprobe is not installed as a script")
    return [*WAYS[way], *COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("way", WAYS)
def test_at_an_import(way: str, name: str, folder: Path) -> None:
    """The imports are counted from the first that tcprobe's entry point asks for."""
    for at in (1, 2, 20, 90, 250):
        environment = struck(folder / "hook", signal.SIGINT, "import", at, "tcprobe.cli")
        done = subprocess.run(command(way, name), cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode == 0 and at > 20:  # it was over before
            break
        assert done.returncode == 130
        assert done.stderr in SAID


@pytest.mark.parametrize("way", WAYS)
def test_one_that_is_ignored_stays_so(way: str, folder: Path) -> None:
    """As a shell has it for what it starts in the background."""
    environment = struck(folder / "hook", signal.SIGINT, "import", 20, "tcprobe.cli")
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command(way, "audit-shapes")]
    done = subprocess.run(ignoring, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "TC101" in done.stdout


def check(seconds: float, words: list[str], folder: Path) -> None:
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        said, code = process.communicate(timeout=60)[1], process.returncode
    if code not in (0, 130) or said.startswith(OF_PYTHON):  # Python had not come to us
        assert set(FRAME.findall(said)) <= FIRST_LINES, (seconds, code, said)
        assert "Traceback" in said or (code, said) == (-signal.SIGINT, ""), (seconds, code, said)
    else:
        assert said in SAID, (seconds, code, said)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("way", WAYS)
def test_at_a_time(way: str, name: str, folder: Path) -> None:
    for milliseconds in (30, 70, 150):
        check(milliseconds / 1000, command(way, name), folder)


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("way", WAYS)
def test_at_every_moment(way: str, name: str, folder: Path) -> None:
    for milliseconds in range(0, 300, 5):
        check(milliseconds / 1000, command(way, name), folder)
