"""What a script cannot do behind its first training call; each in a process, since there is no way back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

START = "import os, shutil, socket, subprocess, sys\nfrom tcprobe.probe.audit.harmless import Harmless\n"


def harmless(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    # A temporary folder of its own: tests run in one, which a script may write to.
    code = f"{START}Harmless({str(folder / 'out')!r}).start()\n{text}"
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": "/dev/shm", "HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("mode", ["w", "wb", "a", "x", "r+"])
def test_files_are_not_written(tmp_path: Path, mode: str) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("kept", encoding="utf-8")
    name = "new.txt" if mode == "x" else "kept.txt"
    done = harmless(tmp_path, f"data = {'b' if 'b' in mode else ''}'lost'\nopen({name!r}, {mode!r}).write(data)")
    assert done.returncode == 0, done.stderr
    assert kept.read_text(encoding="utf-8") == "kept"
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(['touch', 'moved.txt'])",
        "os.execv('/usr/bin/touch', ['touch', 'moved.txt'])",
        "socket.create_connection(('192.0.2.1', 80), timeout=1)",
    ],
)
def test_nothing_is_started_or_sent(tmp_path: Path, text: str) -> None:
    done = harmless(tmp_path, text)
    assert "NotDone: an audit goes no further" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "os.remove('kept.txt')",
        "os.rename('kept.txt', 'moved.txt')",
        "os.replace(src='kept.txt', dst='moved.txt')",
        "os.replace(tempfile.mkstemp()[1], 'kept.txt')",
        "shutil.rmtree('folder')",
        "shutil.move('kept.txt', 'moved.txt')",
        "pathlib.Path('kept.txt').unlink()",
        "pathlib.Path('moved').mkdir()",
        "assert os.system('touch moved.txt') == 0",
    ],
)
def test_nothing_is_deleted_or_moved_and_the_script_goes_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.txt").write_text("kept", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    done = harmless(tmp_path, f"import pathlib, tempfile\n{text}\nprint('behind it')")
    assert done.stdout == "behind it\n", done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "kept.txt"]
    assert (tmp_path / "kept.txt").read_text(encoding="utf-8") == "kept"


def test_temporary_folders_are_made_and_deleted(tmp_path: Path) -> None:
    text = "import tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    os.mkdir(folder + '/deep')\n"
    text += "    open(folder + '/deep/file', 'w').write('x')\n    assert os.path.getsize(folder + '/deep/file') == 1\n"
    text += "assert not os.path.exists(folder)\n"
    done = harmless(tmp_path, text)
    assert done.returncode == 0, done.stderr


def test_reading_and_what_the_audit_itself_writes_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "kept.txt").write_text("kept", encoding="utf-8")
    text = "open('out/a', 'w').write(open('kept.txt').read())\nos.replace('out/a', 'out/b')\nimport tempfile\n"
    text += "os.makedirs('made/deep')\nos.mkdir('out/made')\n"
    text += "with tempfile.NamedTemporaryFile('w') as file: file.write('x')\n"
    done = harmless(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "made").exists()
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "out" / "b").read_text(encoding="utf-8") == "kept"
