"""Names that steer a terminal, given to the command line: nothing of them reaches it, and nothing breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from contextlib import chdir
from pathlib import Path

import pytest

from tcprobe.__main__ import main
from tcprobe.report import FORMATS

NASTY = os.fsdecode(b"m\x1b[31m\n\xe2\x80\xae\xff.py")
"""A file name: colours, a line break, right-to-left override, a byte that is no UTF-8."""
SOURCE = (
    "import tensorflow as tf\n"
    "m = tf.keras.Sequential([tf.keras.Input((100,)), tf.keras.layers.Dense(250, name='a\\x1b')])\n"
)
RUN = {
    "schema": 1,
    "tcprobe": "0.1.0",
    "gpu_used": False,
    "precision": "fp\x1b[31m16",
    "target_gpu": "no\u202ene",
    "command": ["python", "x\x1b]0;t\x07"],
    "host": "h\u00e9\u5c42\r\u200b",
    "partial": False,
    "exit_code": 0,
    "tensorflow": "2\x9b",
}


def tcprobe(folder: Path, *args: str, **environment: str) -> tuple[int, str, str]:
    """Run the command line as a process of its own; return exit code and both streams, which hold nothing hidden."""
    done = subprocess.run(
        [sys.executable, "-m", "tcprobe", *args],
        capture_output=True,
        cwd=folder,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
    )
    return done.returncode, plain(done.stdout), plain(done.stderr)


def plain(stream: bytes) -> str:
    """Return what was printed, after a look that it is UTF-8 without a hidden character or a traceback."""
    text = stream.decode().replace("\r\n", "\n")
    assert not {c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}}
    assert "Traceback" not in text
    return text


@pytest.fixture(name="folder")
def nasty_folder(tmp_path: Path) -> Path:
    """Return a folder with a nasty script, a nasty run folder and a nasty file that is no profile."""
    (tmp_path / NASTY).write_text(SOURCE)
    (tmp_path / "runs" / NASTY).mkdir(parents=True)
    (tmp_path / "runs" / NASTY / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / NASTY).write_text("\x1b[31mno profile")
    return tmp_path


SHOWN = "m\\x1b[31m\\n\\u202e\\udcff.py"


SHOWN = "m\\x1b[31m\\n\\u202e\\udcff.py"


def test_a_nasty_run_folder(folder: Path) -> None:
    """It is named, whatever the terminal's encoding lacks."""
    code, out, err = tcprobe(folder, "report", "runs", PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert f"runs/{SHOWN}" in out
    assert "fp\\x1b[31m16" in out
    assert "on h\\xe9\\u5c42" in out


def test_a_nasty_script(folder: Path) -> None:
    code, out, _ = tcprobe(folder, "audit-shapes", "--mode", "source", "--exit-zero", "-v", NASTY)
    assert code == 0
    assert out.startswith(f"{SHOWN}:2:")
    assert "Dense 'a\\x1b'" in out


def within(capfd: pytest.CaptureFixture[bytes], *args: str) -> tuple[int, str, str]:
    """Run the command line in this process, which is faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tcprobe", *args])
        try:
            code: object = main()
        except SystemExit as exit_:
            code = exit_.code
    out, err = capfd.readouterr()
    assert isinstance(code, int)
    return code, plain(out), plain(err)


SOURCE_MODE = ("audit-shapes", "--mode", "source", "--exit-zero")


@pytest.mark.parametrize("format_", ["json", "markdown", "github", "sarif", "junit"])
def test_every_format(folder: Path, capfdbinary: pytest.CaptureFixture[bytes], format_: str) -> None:
    with chdir(folder):
        code, out, _ = within(capfdbinary, *SOURCE_MODE, "-v", "--format", format_, NASTY)
        assert code == 0
        assert "x1b" in out or "u001b" in out
        if format_ in FORMATS["run"]:
            assert within(capfdbinary, "report", "runs", "--format", format_)[0] == 0


def test_csv_for_a_spreadsheet(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / "f.py").write_text(SOURCE.replace("a\\x1b", "=1+1"))
    with chdir(folder):
        assert ",=1+1," in within(capfdbinary, *SOURCE_MODE, "--format", "csv", "f.py")[1].replace("\r", "")
        assert ',"\'=1+1",' in within(capfdbinary, *SOURCE_MODE, "--format", "csv", "--safe-csv", "f.py")[1]
        assert within(capfdbinary, *SOURCE_MODE, "--safe-csv", "-o", "f.csv", "f.py")[0] == 0
        assert within(capfdbinary, "report", "runs", "--safe-csv", "-o", "tables/")[0] == 0
        assert ',"\'=1+1",' in Path("f.csv").read_text()
        assert Path("tables/summary.csv").read_text().splitlines()[1].startswith('"')


@pytest.mark.parametrize(
    "args",
    [
        ["report", f"none{NASTY}"],
        ["report", "other"],
        ["report", f"other/{NASTY}"],
        ["report", "runs", "-o", f"{NASTY}.xyz"],
        ["report", "runs", "--by", NASTY],
        ["report", "runs", "--target-gpu", NASTY],
        [f"re{NASTY}"],
        [f"--{NASTY}"],
        ["explain", NASTY],
        ["profile", f"--{NASTY}"],
        ["profile", "--profiler", NASTY],
        ["sweep", "--vary", NASTY, "train_gan"],
        ["sweep", "--precision", NASTY, "train_gan"],
        ["sweep", "--vary", "--a=1,2", "--exclude", NASTY, "train_gan"],
        ["profile", "--python", NASTY, NASTY],
        ["calibrate", "--from", NASTY],
        ["audit-shapes", "--mode", "source", "--select", NASTY, NASTY],
        ["audit-shapes", "--input-shape", NASTY, NASTY],
    ],
    ids=lambda args: str(args).encode("ascii", "ignore").decode(),
)
def test_what_is_refused_is_named_in_plain_words(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], args: list[str]
) -> None:
    with chdir(folder):
        code, out, err = within(capfdbinary, *args)
    assert (code, out) == (2, "")
    assert "x1b[31m" in err.lower()
    assert len(err.splitlines()) <= 4  # typer's own show how the verb is used, above an empty line
