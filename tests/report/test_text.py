"""The report as text."""

from __future__ import annotations

import re

import pytest

from tcprobe.schema.kinds import CAUSE_GROUPS
from tcprobe.schema.profile import Profile
from tcprobe.visible import columns
from tests.report.builders import (
    MS,
    PROFILES,
    SGEMM,
    WGRAD,
    cpu_profile,
    gpu_profile,
    rendered,
    run,
    summary_only,
    table,
)


def text(profile: Profile, width: int | None = None, color: bool = False, by: tuple[str, ...] = ()) -> str:
    return rendered("text", run(profile, by=by), width, color)


def test_names_are_whole_without_a_terminal() -> None:
    shown = text(gpu_profile())
    assert WGRAD in shown
    assert SGEMM in shown
    assert "left out" not in shown


def test_a_terminal_says_that_columns_are_missing() -> None:
    assert "--width 0" in text(gpu_profile(), width=100)


def test_colours_only_where_asked_and_they_change_no_word() -> None:
    plain, coloured = text(gpu_profile()), text(gpu_profile(), color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert "\x1b[33mwarning\x1b[0m: 7 events" in coloured


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("name", PROFILES)
def test_every_width_renders(name: str, width: int) -> None:
    shown = text(PROFILES[name](), width=width)
    assert shown.startswith(("wgan", "host", "train_gan", "profile"))
    assert width < 80 or max(map(columns, shown.splitlines())) <= width


def test_long_titles_wrap_and_a_pattern_is_cut_in_its_middle() -> None:
    ranges = {"domain": None, "calls": 16, "median_ns": MS, "kernels": 27.0, "share_pct": 23.2, "why_not": "part"}
    patterns = [f"^{layer}\\(blocks\\.(\\d+)\\._checkpoint_wrapped_module\\)$" for layer in ("pre_forward", "backward")]
    found = table("step_ranges", *({**ranges, "pattern": pattern} for pattern in patterns))
    lines = text(gpu_profile().with_tables(found), 80, by=("step-range", "kernel")).splitlines()
    assert max(map(columns, lines)) <= 80 and sum("--step-range" in line for line in lines) == 2
    narrow = text(gpu_profile(), 40).splitlines()
    at = next(at for at, line in enumerate(narrow) if line.startswith("Costliest ops off"))
    assert columns(narrow[at]) <= 40


def test_a_remedy_follows_its_warning() -> None:
    lines = text(gpu_profile()).splitlines()
    at = lines.index("warning: 7 events were lost")
    assert lines[at + 1] == "  what to do: profile fewer steps: --iter-stop"


def test_a_missing_table_is_named_with_its_reason() -> None:
    assert "no kernels: DLProf's summary has totals only" in text(summary_only())


def test_a_table_asked_for_and_not_there_is_explained() -> None:
    assert "no iterations: this source does not give them" in text(summary_only(), by=("iteration",))


def test_a_cpu_run_shows_what_it_can() -> None:
    shown = text(cpu_profile())
    for expected in ("812 ms", "dense/MatMul", "train_gan.py:54", "3087 -> 3088", "TF32 off", "158 MFLOP"):
        assert expected in shown


def test_the_profilers_own_figures_keep_their_digits() -> None:
    assert re.search(r"Total GPU Time +17\.09 +s ", text(summary_only()))


def test_where_a_step_goes_fits_a_terminal_of_80_columns() -> None:
    causes = table(
        "causes",
        *(
            {"device": 0, "group": group, "cause": cause, "split_ns": MS, "step_ns": 1.0 * MS, "share_pct": 100 / 28}
            for group, causes in CAUSE_GROUPS.items()
            for cause in causes
        ),
    )
    lines = text(gpu_profile().with_tables(causes), width=80).split("\nWhere ")[2].split("\n\n")[0].splitlines()
    assert len(lines) > 28
    assert max(map(len, lines)) <= 80
