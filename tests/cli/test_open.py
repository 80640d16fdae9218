"""`--open`: shows what was written, and refuses where there is nothing to show or nobody to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT

PROFILE = ROOT / "tests/fixtures/h100/jax_tf32.xplane.pb"


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """Return a program that writes what it is to show into a file beside it."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/shown"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("words", "file"),
    [(("report", PROFILE), "a file.md"), (("report", PROFILE, "--by", "kernel"), "tables/"),
     (("audit-shapes", "--mode", "source", "--exit-zero", "model.py"), "audit.md")],
)  # fmt: skip
def test_what_was_written_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Path, words: tuple[str | Path, ...], file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("import keras\n")
    done = warm.run_tcprobe(*words, "-o", file, "--open", BROWSER=str(browser))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shown").read_text() == (tmp_path / file).as_uri() + "\n"


@pytest.mark.parametrize(
    ("words", "environment", "error"),
    [
        (("report", PROFILE), {"BROWSER": "x"}, "--open: nothing is written that could be opened"),
        (("profile", "x.py"), {"BROWSER": "x"}, "--open: nothing is written that could be opened"),
        (("report", PROFILE, "-o", "x.md"), {}, "--open: there is no display here, and BROWSER is not set"),
        (("profile", "-o", "x.md", "x.py"), {}, "--open: there is no display here, and BROWSER is not set"),
    ],
)
def test_it_refuses_before_any_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str | Path, ...],
    environment: dict[str, str],
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    verb, *others = words
    done = warm.run_tcprobe(verb, "--open", *others, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tcprobe: error: {error}\nhint: ")
    assert not list(tmp_path.iterdir())


def test_a_file_that_no_program_shows_is_written_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "r.md"
    done = warm.run_tcprobe("report", PROFILE, "-o", file, "--open", BROWSER="/no/such", TERM="dumb", PATH="/no/such")
    assert done.returncode == 0 and file.exists()
    assert f"--open: no program here shows {file}\n" in done.stderr
