"""Open several profiles and hold them side by side in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis import Options
from tcprobe.errors import MissingInput, UsageError
from tcprobe.flows.compare import make_comparison, short_names
from tests.support import ROOT

RUN = ROOT / "tests/fixtures/gpu_run/run"


def test_a_run_folder_against_itself() -> None:
    found = make_comparison([RUN, RUN, RUN])
    assert len(found.profiles) == 3
    assert found.names == (f"{RUN} (1)", f"{RUN} (2)", f"{RUN} (3)")
    assert {change.difference for one in found.figures for change in one.changes} <= {
        "same", "within noise", "cannot tell", "not known",
    }  # fmt: skip
    assert found.renamed == ()
    assert found.settings == ()


def test_one_path_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="two runs or more"):
        make_comparison([RUN])


def test_an_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="gone"):
        make_comparison([RUN, tmp_path / "gone"])
    with pytest.raises(UsageError, match=r"gpu_run/run: .*900") as refused:
        make_comparison([RUN, RUN], Options(iter_start=900, iter_stop=901))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ("a", "b")),
        (["x/run", "y/run", "z/other"], ("x/run", "y/run", "other")),
        (["a", "a"], ("a (1)", "a (2)")),
        (["x/a", "x/a", "y/a"], ("x/a (1)", "x/a (2)", "y/a")),
        (["before.sqlite", "after.sqlite"], ("before.sqlite", "after.sqlite")),
    ],
)
def test_short_names(paths: list[str], names: tuple[str, ...]) -> None:
    assert short_names([Path(path) for path in paths]) == names


def test_the_folder_one_stands_in_has_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_names([Path(), Path("other")]) == (tmp_path.name, "other")
