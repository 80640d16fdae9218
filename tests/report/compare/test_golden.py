"""Whole comparisons, compared with files that a person has read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tcprobe.flows.compare import make_comparison
from tcprobe.flows.conditions import judge_comparison, parse_conditions
from tcprobe.report.compare.document import CompareDocument
from tcprobe.report.document import ReportSpec
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.screen import Answer, FirstScreen
from tcprobe.schema.statement import say
from tests.report.builders import rendered
from tests.report.compare.builders import document, faster
from tests.support import ROOT, shared

Compare = Callable[[str, str], None]
CONDITIONS = ("step_time>+5%", "tc_kernel_time<80%", "gpu_busy<-5pp", "peak_memory>2GiB")


def made() -> CompareDocument:
    comparison = faster()
    return document(comparison, verdicts=judge_comparison(parse_conditions(CONDITIONS, True), comparison))


@pytest.mark.parametrize(("format_", "ending"), [("text", "txt"), ("markdown", "md"), ("json", "json"), ("csv", "csv")])
def test_a_made_comparison(format_: str, ending: str, golden: Compare) -> None:
    text = rendered(format_, made())
    golden(f"compare_made.{ending}", text.replace(f'"tcprobe": "{version()}"', '"tcprobe": "VERSION"'))


def version() -> str:
    from tcprobe import __version__

    return __version__


def test_the_page_shows_what_is_printed() -> None:
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?ms)^```\n(A  before\n.*?)\.\.\.\n```", page)
    assert rendered("text", made()).startswith(shown)


def test_a_page_for_a_browser_names_no_option_of_the_terminal() -> None:
    web = replace(made(), spec=ReportSpec(web=True))
    assert "Next   " in rendered("html", made()) and "Next   " not in rendered("html", web)


def test_text_on_a_terminal_of_100_columns(golden: Compare) -> None:
    text = rendered("text", made(), 100)
    golden("compare_made_100.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_the_lines_of_the_runs_fit_a_terminal() -> None:
    profiler = Metadata("nsys", profiler="Nsight Systems 2026.2.1 of a build with a long name, 1,234 GPUs")
    names = ("train_gan-20261128T001138Z", "b")
    runs = replace(faster(), names=names, profiles=(Profile(profiler), Profile(replace(profiler, profiler="nsys"))))
    one, other = rendered("text", CompareDocument(runs, ReportSpec(brief=True, width=80)), 80).splitlines()[:2]
    assert (len(one), one[:15], other) == (80, "A  train..1138Z", "B  b             nsys")


def test_a_terminal_gets_the_first_screen_alone(golden: Compare) -> None:
    text = rendered("text", CompareDocument(faster(), ReportSpec(brief=True, width=80)), 80)
    golden("compare_screen.txt", text)
    lines = text.splitlines()
    assert len(lines) <= 22 and max(map(len, lines)) <= 80
    assert rendered("text", made()).startswith("\n".join(lines[:8]))


def test_the_verdicts_of_both_runs_are_said() -> None:
    screens = [FirstScreen(Answer(word, say("no_gpu"))) for word in ("WAITING", "GOOD")]  # type: ignore[arg-type]
    comparison = faster()
    profiles = [replace(p, screen=screen) for p, screen in zip(comparison.profiles, screens, strict=True)]
    judged = replace(comparison, profiles=tuple(profiles))
    assert "Tensor Cores: WAITING -> GOOD." in rendered("text", document(judged))
    assert json.loads(rendered("json", document(judged)))["verdicts"] == ["WAITING", "GOOD"]


def recorded() -> CompareDocument:
    """Two recordings of one GPU run: as TensorFlow's profiler left it, and with a plane of the host alone."""
    folder = ROOT / "tests/fixtures/gpu_run/run"
    trace = next((folder / "raw").rglob("*.xplane.pb"))
    return document(make_comparison([folder, trace]), top=3)


@pytest.mark.parametrize(("format_", "ending"), [("text", "txt"), ("markdown", "md")])
def test_two_recorded_runs(format_: str, ending: str, golden: Compare) -> None:
    golden(f"compare_recorded.{ending}", rendered(format_, recorded()))


def test_one_table_alone(golden: Compare) -> None:
    golden("compare_by_kernel.txt", rendered("text", document(faster(), by=("kernel",))))


def test_json_holds_everything() -> None:
    found = json.loads(rendered("json", made()))
    assert list(found) == [
        "schema", "tcprobe", "runs", "verdicts", "per_step", "figures", "layers", "ops", "kernels", "renamed", "places",
        "ranges", "losses", "settings",
        "notes", "conditions",
    ]  # fmt: skip
    assert [one["outcome"] for one in found["conditions"]] == ["not met", "met", "met", "cannot tell"]
    assert found["figures"][0]["changes"][0]["interval"]["samples"] == [120, 118]
    assert found["layers"][0]["pass"] is None


def test_the_same_comparison_gives_the_same_bytes() -> None:
    for format_ in ("text", "markdown", "json", "csv"):
        assert rendered(format_, made()) == rendered(format_, made())


def test_top_limits_rows_and_says_so() -> None:
    text = rendered("text", document(faster(), top=1))
    assert "Kernels that changed most (1 of 2; " in text
    assert "(1 more; --top 0 shows all)" in text
    assert ReportSpec(0).rows_for_people is None


def test_means_over_gpus_are_told_beside_sums() -> None:
    pair = [shared(f"samples/nsys/h100x2_bf16_{when}_nsys2026.sqlite") for when in ("before", "after")]
    told = " ".join(rendered("text", document(make_comparison(pair))).split())
    assert "time of TC kernels 330 ms" in told  # of both GPUs
    assert "Tensor Cores, how well is unknown 165 ms" in told  # of one
    assert "and of waiting, are the mean over the GPUs; others are their sum)" in told
    assert "the mean over the GPUs" not in rendered("text", recorded())
