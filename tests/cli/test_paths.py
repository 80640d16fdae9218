"""Each argument that names a file or folder, given hostile names: one line says which, and nothing waits."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tcprobe.__main__ import main
from tcprobe.visible import shown
from tests.fixtures import xplane
from tests.support import ROOT, place_for_all, without_rights

PROFILE: Final = str(Path(xplane.__file__).parent / "two_gpus.xplane.pb")
OTHER: Final = str(ROOT / "tests/fixtures/gpu_run/run")
SOURCE: Final = ("audit-shapes", "--mode", "source")
SCRIPT: Final = """import keras
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1001)])
"""
X: Final = "the hostile name"
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "report": ("report", X),
    "report --against": ("report", PROFILE, "--against", X),
    "report -o": ("report", PROFILE, "--format", "json", "-o", X),
    "report -o, replaced": ("report", PROFILE, "--format", "csv", "--force", "-o", X),
    "compare, first": ("compare", X, PROFILE),
    "compare, second": ("compare", PROFILE, X),
    "compare -o": ("compare", PROFILE, OTHER, "--format", "json", "-o", X),
    "audit-shapes": (*SOURCE, X),
    "audit-shapes, first of two": (*SOURCE, X, "train.py"),
    "audit-shapes, a factory": (*SOURCE, f"{X}:make"),
    "audit-shapes --fix": (*SOURCE, "--fix", X),
    "audit-shapes --diff": (*SOURCE, "--diff", X),
    "audit-shapes --run": ("audit-shapes", "--run", X),
    "audit-shapes --stdin-filename": (*SOURCE, "--stdin-filename", X, "-"),
    "audit-shapes --force-exclude": (*SOURCE, "--exclude", "*.txt", "--force-exclude", X),
    "audit-shapes --baseline": (*SOURCE, "--baseline", X, "train.py"),
    "audit-shapes --write-baseline": (*SOURCE, "--baseline", X, "--write-baseline", "train.py"),
    "audit-shapes -o": (*SOURCE, "--format", "json", "-o", X, "train.py"),
    "audit-shapes --python": ("audit-shapes", "--mode", "traced", "--python", X, "train.py"),
    "find-key-node": ("find-key-node", X),
    "find-key-node -o": ("find-key-node", "--format", "json", "-o", X, PROFILE),
    "calibrate --from": ("calibrate", "--target-gpu", "t4", "--from", X),
    "calibrate -o": ("calibrate", "--python", "/bin/false", "--dry-run", "-o", X),
    "calibrate --python": ("calibrate", "--dry-run", "--python", X),
    "doctor": ("doctor", X),
    "doctor --python": ("doctor", "--python", X),
    "explain": ("explain", X),
    "redact": ("redact", X),
    "profile": ("profile", X),
    "profile --output": ("profile", "--python", "/bin/false", "--output", X, "train.py"),
    "profile -o": ("profile", "--python", "/bin/false", "--json", "-o", X, "train.py"),
    "profile --python": ("profile", "--python", X, "train.py"),
    "sweep": ("sweep", "--vary", "--a=1,2", X),
    "sweep --output": ("sweep", "--vary", "--a=1,2", "--python", "/bin/false", "--output", X, "train.py"),
    "sweep -o": ("sweep", "--vary", "--a=1,2", "--python", "/bin/false", "--json", "-o", X, "train.py"),
    "profile --launcher": ("profile", "--launcher", X, "train.py"),
}
HOSTILE: Final = {
    "a link to itself": "loop",
    "below a link to itself": "loop/x.py",
    "no UTF-8": os.fsdecode(b"\xff.py"),
    "5,000 characters": "n" * 5000,
    "many folders": "d/" * 3000 + "x.py",
    "through a file": "train.py/x.py",
    "a folder": "folder",
    "dangling": "dangling.py",
    "of no user": "~nouser/x.py",
    "a FIFO": "fifo",
    "a device": "/dev/zero",
    "shut": "shut.py",
    "in a shut folder": "shut/x.py",
}
NEEDS_NOBODY: Final = ("shut", "in a shut folder")
ANY_WORD: Final = ("audit-shapes --stdin-filename", "profile --launcher", "explain")
"""What is no path, or a name and nothing else."""
TAKES_ANY: Final = (*ANY_WORD, *(command for command in COMMANDS if "-o" in command or "--write" in command))
"""What may succeed: a file that is written takes the place of a link."""
NEXT_FAILURE: Final = re.compile("/bin/false|only in traced mode|cannot be started: Permission denied")
"""What a command fails by that takes the name."""
MOST_SECONDS: Final = 20


@pytest.fixture(name="place")
def hostile_place() -> Iterator[Path]:
    """Return a folder with what the names stand for."""
    with place_for_all() as place:
        (place / "train.py").write_text(SCRIPT)
        (place / "loop").symlink_to("loop")
        (place / "folder").mkdir()
        (place / "dangling.py").symlink_to("nowhere.py")
        os.mkfifo(place / "fifo")
        (place / "shut.py").touch(0)
        (place / "shut").mkdir(0)
        yield place


@contextmanager
def in_time() -> Iterator[None]:
    """Fail where something waits, as the opening of a FIFO does."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ended(place: Path, arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return how a command ended, and all that it printed."""
    with pytest.MonkeyPatch.context() as patch, chdir(place), in_time():
        patch.setattr(sys, "argv", ["tcprobe", *arguments])
        try:
            code: object = main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return code, "".join(capfd.readouterr())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_name(command: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Those that need another user come last: by then all is imported that he may not read."""
    for kind, name in HOSTILE.items():
        arguments = [word.replace(X, name) for word in COMMANDS[command]]
        if kind in NEEDS_NOBODY:
            with without_rights():
                code, text = ended(place, arguments, capfd)
        else:
            code, text = ended(place, arguments, capfd)
        said = f"{kind}: {code}, {text[:400]}"
        assert code == 2 or (code in (0, 1) and (kind in ("no UTF-8", "a folder") or command in TAKES_ANY)), said
        assert "Traceback" not in text, said
        if code == 2 and command not in ANY_WORD:
            assert any(shown(name)[:400] in line for line in text.splitlines()) or NEXT_FAILURE.search(text), said
            assert len(text.splitlines()) < 4 or "of two" in command or "--write" in command, said


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in ANY_WORD and "--python" not in c and "factory" not in c]
)
def test_an_empty_name_is_not_the_current_folder(command: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is what a variable of the shell leaves that is not set."""
    before = sorted(place.iterdir())
    code, text = ended(place, [word.replace(X, "") for word in COMMANDS[command]], capfd)
    assert (code, sorted(place.iterdir())) == (2, before)
    assert '"" names no file or folder' in text


def test_the_files_beside_one_that_cannot_be_read_are_audited(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for kind in ("a link to itself", "5,000 characters", "through a file", "dangling"):
        code, text = ended(place, [*SOURCE, HOSTILE[kind], "train.py"], capfd)
        assert code == 2
        assert "train.py:2" in text
        assert shown(HOSTILE[kind])[:400] in text
