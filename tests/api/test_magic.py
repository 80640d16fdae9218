"""`%%tcprobe` in a notebook: the cell is the step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcprobe.api import here
from tcprobe.errors import UsageError

InteractiveShell = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not there").InteractiveShell


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return with what `tcprobe.profile` is called; it calls its function three times."""
    given = list[dict[str, Any]]()

    def profile(function: Callable[[], None], **options: Any) -> str:
        given.append(options)
        for _ in range(3):
            function()
        return "the report"

    monkeypatch.setattr(here, "profile", profile)
    return given


def test_a_cell_is_called_as_a_step_and_shows_the_report(
    called: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell()
    shell.user_ns["done"] = []
    shell.run_line_magic("load_ext", "tcprobe")
    cell = "%%tcprobe --steps 5 --timed=3 --output runs/a --force\nstep = len(done)\ndone.append(step)\n"
    assert shell.run_cell(cell).result == "the report"
    assert shell.user_ns["done"] == [0, 1, 2] and shell.user_ns["step"] == 2
    assert called == [{"steps": 5, "timed": 3, "output": "runs/a", "force": True}]


@pytest.mark.parametrize("line", ["--step 5", "--steps", "--steps many", "5", "--steps -1"])
def test_what_makes_no_sense_is_told(line: str) -> None:
    with pytest.raises(UsageError) as raised:
        here._options(line)
    assert f"%%tcprobe {line}" in raised.value.message and "--warmup" in str(raised.value.hint)
