"""Options, settings and defaults, and what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.audit.settings import Settings
from tcprobe.errors import UsageError
from tcprobe.flows.audit.options import AuditOptions, Choice, choose_options
from tcprobe.rules.registry import RETIRED
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say

CODES = ["TC101", "TC102", "TC110", "TC201"]
NONE = Settings()


def chosen(settings: Settings = NONE, **given: Any) -> Choice:
    return choose_options(AuditOptions(("m.py",), **given), settings, CODES)


def wanted(settings: Settings = NONE, file: str = "/p/src/m.py", **given: Any) -> list[str]:
    choice = chosen(settings, **given)
    return [code for code in CODES if choice.wants(Finding(code, say("not_a_multiple"), Place(file, 1)), file)]


def test_the_defaults() -> None:
    choice = chosen()
    assert (choice.mode, choice.target_gpu, choice.library) == ("auto", "a100-sxm-40", "cublas12")
    assert (choice.dtype, choice.xla, choice.batch_size, choice.fail_on) == (None, None, None, "warning")


def test_settings_come_before_defaults_and_options_before_settings() -> None:
    settings = Settings(
        Path("/p/pyproject.toml"), "t4", "float16", "cublas10", True, 64, mode="source", fail_on="error", fail_over=5.0
    )
    choice = chosen(settings)
    assert (choice.target_gpu, choice.dtype, choice.library, choice.xla) == ("t4", "float16", "cublas10", True)
    assert (choice.batch_size, choice.mode, choice.fail_on, choice.fail_over) == (64, "source", "error", 5.0)
    choice = chosen(settings, target_gpu="v100-sxm2", xla=False, mode="traced", fail_on="never", fail_over=0.0)
    assert (choice.target_gpu, choice.xla, choice.mode) == ("v100-sxm2", False, "traced")
    assert (choice.fail_on, choice.fail_over) == ("never", 0.0)


def test_run_wins_over_a_setting_but_not_over_the_option() -> None:
    assert chosen(Settings(mode="source"), run=True).mode == "auto"
    assert chosen(run=True, mode="source").mode == "source"  # which reads the script with its arguments
    with pytest.raises(UsageError, match="--arg"):
        chosen(run=True, args={"a": "1"})


def test_selected_and_ignored() -> None:
    assert wanted() == CODES
    assert wanted(select=("TC1",)) == ["TC101", "TC102", "TC110"]
    assert wanted(ignore=("TC10",)) == ["TC110", "TC201"]
    assert wanted(select=("TC101",), ignore=("TC1",)) == ["TC101"]
    assert wanted(select=("TC1",), ignore=("TC101",)) == ["TC102", "TC110"]
    assert wanted(select=("TC1",), ignore=("TC1",)) == []


def test_ignores_by_file_are_relative_to_the_settings_and_match_names() -> None:
    settings = Settings(Path("/p/pyproject.toml"), per_file_ignores={"src/*": ("TC1",), "test_*.py": ("TC2",)})
    assert wanted(settings) == ["TC201"]
    assert wanted(settings, "/p/lib/m.py") == CODES
    assert wanted(settings, "/elsewhere/test_m.py") == ["TC101", "TC102", "TC110"]


@pytest.mark.parametrize(("code", "near"), [("TC111", "TC110"), ("TX101", "TC101"), ("E501", "lists the rules")])
def test_a_code_of_no_rule_is_refused_with_the_nearest(code: str, near: str) -> None:
    with pytest.raises(UsageError, match=code) as caught:
        chosen(select=(code,))
    assert near in (caught.value.hint or "")
    with pytest.raises(UsageError, match="pyproject"):
        chosen(Settings(Path("/p/pyproject.toml"), ignore=(code,)))


@pytest.mark.parametrize("code", RETIRED)
def test_the_code_of_a_retired_rule_may_be_ignored_but_not_selected(code: str) -> None:
    settings = Settings(Path("/p/pyproject.toml"), ignore=(code,), per_file_ignores={"*.py": (code,)})
    assert wanted(settings, ignore=(code,)) == CODES
    for given, listed in ((NONE, {"select": (code,)}), (Settings(Path("/p/pyproject.toml"), select=(code,)), {})):
        with pytest.raises(UsageError, match=f"{code} is retired") as caught:
            chosen(given, **listed)
        assert caught.value.hint == f"tcprobe explain {code} says why"


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [("error", ["error"]), ("warning", ["error", "warning"]), ("note", ["error", "warning", "note"]), ("never", [])],
)
def test_which_severities_fail(fail_on: str, failing: list[str]) -> None:
    choice = chosen(fail_on=fail_on)
    found = [Finding("TC101", say("not_a_multiple"), severity=s) for s in ("error", "warning", "note")]  # type: ignore[arg-type]
    assert [f.severity for f in found if choice.fails([f], 0.0)] == failing


def test_what_may_be_saved_fails_only_past_the_limit() -> None:
    choice = replace(chosen(fail_on="never"), fail_over=5.0)
    assert [choice.fails([], share) for share in (0.0, 5.0, 5.1)] == [False, False, True]
