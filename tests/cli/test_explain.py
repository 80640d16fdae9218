"""`tcprobe explain` as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tcprobe.flows.explain import explained, explanation
from tcprobe.hardware import load_gpus
from tcprobe.rules.docs import DOCS
from tcprobe.rules.registry import RETIRED
from tcprobe.schema.tables import FIGURES
from tests import warm
from tests.support import ROOT


def explain(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm.run_tcprobe("explain", *args, **environment)


def shown(*args: str, **environment: str) -> str:
    done = explain(*args, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_alone_it_lists_every_rule() -> None:
    text = shown()
    for doc in DOCS:
        assert f"{doc.code}  {doc.name}" in text


@pytest.mark.parametrize("word", ["TC101", "tc101", "Unaligned-Dimension"])
def test_a_rule_by_code_or_name(word: str) -> None:
    text = shown(word)
    assert text.startswith("TC101 unaligned-dimension\n\n")
    for part in ("Bad:\n    ", "Good:\n    ", "Severity: ", "Sources:\n- ", "tcprobe: ignore[TC101]"):
        assert part in text


@pytest.mark.parametrize("code", [doc.code for doc in DOCS])
@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_every_rule_can_be_explained(code: str, format_: str) -> None:
    text = explanation(code, format_, 80)
    assert code in text.splitlines()[0]
    if format_ == "text":
        prose = [line for line in text.splitlines() if not line.startswith("    ")]
        assert max(len(line) for line in prose) <= 80 + 20  # a long word stays whole


def test_every_gpu_is_listed_once_under_its_generation() -> None:
    *tables, units = shown("gpus").split("\n\n")
    titles = [table.splitlines()[0] for table in tables]
    ids = [line.split()[0] for table in tables for line in table.splitlines()[2:]]
    assert sorted(ids) == sorted(gpu.id for gpu in load_gpus())
    assert "Turing, cards and modules" in titles
    assert "Ampere, laptops" in titles
    assert "TFLOP/s" in units
    assert "a100-sxm-40" in shown("GPUS")


@pytest.mark.parametrize("width", ["60", "80", "100"])
def test_gpus_fit_a_terminal(width: str) -> None:
    text = shown("gpus", "--width", width)
    assert max(len(line) for line in text.splitlines()) <= int(width)
    assert "float16" in text or width == "60"


def test_gpus_are_tables_in_markdown() -> None:
    text = shown("gpus", "--format", "markdown")
    assert text.startswith("## Pascal, cards and modules\n\n| id | name | CC |")
    assert text.count("| id | name |") == text.count("## ")


@pytest.mark.parametrize("code", RETIRED)
def test_a_retired_rule_says_why_it_is_gone(code: str) -> None:
    first, second = shown(code.lower()).splitlines()
    assert first == f"{code} is retired: {RETIRED[code]}."
    assert second == "What silences it may stay, and its code is not used again."


@pytest.mark.parametrize(("word", "near"), [("TC1O1", "TC101"), ("gpu", "gpus"), ("TC999", "TC"), ("qqqq", "lists")])
def test_what_is_unknown_is_answered_with_the_nearest(word: str, near: str) -> None:
    done = explain(word)
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert error == f"tcprobe: error: nothing is called {word!r}"
    assert near in hint


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("e203", "E203: The file is not what its place or name promises, or it is damaged. Exit code 2."),
        ("step_time", "step_time_ns: figure: median length of a step, start to start, outside the profiled window"),
        ("kernels.uses_tc", "kernels.uses_tc: column: "),
        ("units", "table: a row is "),
        ("tail_ns", "kernels.tail_ns: column: "),
        ("H100-SXM", "H100 SXM"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn: kernel: uses no Tensor Cores, as its name tells"),
        ("flash_fwd_kernel<int>", "flash_fwd_kernel<int>: kernel: uses Tensor Cores"),
    ],
)
def test_words_of_a_report_are_explained(word: str, said: str) -> None:
    assert said in " ".join(explanation(word, width=100).split())
    assert said.partition(": ")[0].split()[0] in json.dumps(explained(word))


def test_figures_are_those_that_the_guide_explains() -> None:
    guide = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    summary = guide[guide.index("## Summary") : guide.index("## Model FLOPs")]
    told = {name for row in re.findall(r"^\| (`.*?) \|", summary, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert told - {"precision_P_time_pct"} == set(FIGURES)


def test_the_page_for_assistants_names_commands_and_keys_that_exist() -> None:
    page = shown("agent")
    assert json.loads(shown("agent", "--json"))["page"] == page
    asked = re.findall(r"`tcprobe ([a-z-]+)((?: [^`]*)?)`", page)
    verbs = {"report", "profile", "sweep", "audit-shapes", "compare", "baseline", "doctor", "explain"}
    assert {verb for verb, _ in asked} == verbs
    for verb, rest in asked:
        helped = warm.run_tcprobe(verb, "--help").stdout
        for option in re.findall(r"--[a-z]+(?:-[a-z]+)*", rest):
            assert option in helped, f"{verb} {option}"
    printed = warm.run_tcprobe("report", str(ROOT / "tests/fixtures/h100/jax_tf32.xplane.pb"), "--json").stdout
    report = json.loads(printed)
    assert set(report["verdict"]) >= {"word", "text", "limits"} and set(report["bar"]) >= {"rows", "total_ns"}
    assert set(report["advice"][0]) >= {"code", "text", "saving_ns", "at_most_ns", "beside"} and "summary" in report
