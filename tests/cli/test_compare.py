"""`tcprobe compare`, and what it gives `tcprobe report`: exit code, standard output, standard error."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.gpu_run.make import RUN, Run, load
from tests.support import shared

BEFORE = "samples/nsys/h100x2_bf16_before_nsys2026.sqlite"
AFTER = "samples/nsys/h100x2_bf16_after_nsys2026.sqlite"
SLOWER = 1.25


def tcprobe(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcprobe", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
    )


def with_steps(run: Run, count: int, ns: int) -> None:
    """Give a run `count` steps after the window, of some ns each but for what makes them differ by a thousandth."""
    head, *rows = run.texts["probe/steps.csv"].splitlines()
    start = int(rows[-1].split(",")[1])
    kept = [row for row in rows if not row.endswith("after")]
    starts = [start + at * ns + (at % 3) * ns // 1000 for at in range(count + 1)]
    more = [f"{len(kept) + at},{when},after" for at, when in enumerate(starts)]
    run.texts["probe/steps.csv"] = "\n".join([head, *kept, *more]) + "\n"
    run.texts["probe/metrics.csv"] = "step,name,value,unit\n0,g_loss,0.7,\n1,g_loss,0.6,\n"


def write(folder: Path, count: int, ns: int) -> Path:
    run = load()
    with_steps(run, count, ns)
    return run.write(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of 20 steps of 4 ms, and one whose steps take a quarter longer."""
    folder = tmp_path_factory.mktemp("runs")
    return write(folder / "fast", 20, 4_000_000), write(folder / "slow", 20, 5_000_000)


def test_the_answer_comes_first(runs: tuple[Path, Path]) -> None:
    done = tcprobe("compare", *runs)
    assert (done.returncode, done.stderr) == (0, "")
    paths, answer = done.stdout.split("\n\n")[:2]
    assert paths.split() == ["fast", str(runs[0]), "slow", str(runs[1])]
    assert answer.startswith("slow takes 25.0 % more than fast: 5.00 ms against 4.00 ms a step (95 %: +2")
    assert "from 20 and 20 steps outside the profiler)" in answer
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("step_time>+5%", 1, "failed: --fail-if 'step_time>+5%' of slow: it is +25"),
        ("step_time>+30%", 0, "passed: --fail-if 'step_time>+30%' of slow: it is +25"),
        ("tc_kernel_time_pct<30", 2, "cannot tell: --fail-if 'tc_kernel_time_pct<30' of slow: it is 28.9"),
        ("tc_kernel_time_pct<40", 1, "failed: "),
    ],
)
def test_a_condition_decides_the_exit_code(runs: tuple[Path, Path], condition: str, code: int, said: str) -> None:
    done = tcprobe("compare", *runs, "--fail-if", condition)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1
    assert "Figures (against fast)" in done.stdout


def test_a_run_against_itself_has_not_changed(runs: tuple[Path, Path]) -> None:
    made = json.loads(tcprobe("compare", runs[0], runs[0], "--format", "json").stdout)
    step = next(figure for figure in made["figures"] if figure["metric"] == "step_time_ns")
    assert step["changes"][0]["difference"] in ("same", "within noise")
    assert not [row for row in made["kernels"] if any(row["changes"])]
    assert made["renamed"] == []


def test_too_few_steps_cannot_tell(runs: tuple[Path, Path], tmp_path: Path) -> None:
    few = write(tmp_path / "few", 7, 9_000_000)
    done = tcprobe("compare", runs[0], few, "--fail-if", "step_time>+5%")
    assert done.returncode == 2
    assert "Cannot tell whether few is faster or slower than fast" in done.stdout
    assert "What to do: profile more steps" in done.stdout
    assert "cannot tell: --fail-if 'step_time>+5%' of few" in done.stderr


def test_formats(runs: tuple[Path, Path], tmp_path: Path) -> None:
    made = json.loads(tcprobe("compare", *runs, "--format", "json", "--fail-if", "kernels>5").stdout)
    assert made["schema"] == 1
    assert made["conditions"][0]["outcome"] == "met"
    assert [run["name"] for run in made["runs"]] == ["fast", "slow"]
    rows = list(csv.DictReader(io.StringIO(tcprobe("compare", *runs, "--format", "csv").stdout)))
    step = [row for row in rows if row["metric"] == "step_time_ns"]
    assert [float(row["value"]) for row in step] == pytest.approx([4e6, 5e6], rel=0.01)
    assert step[1]["difference"] == "slower"
    page = tcprobe("compare", *runs, "--format", "markdown").stdout
    assert page.startswith("## tcprobe: fast and slow\n")
    assert "| step time |" in page
    assert "<details>" in page
    done = tcprobe("compare", *runs, "-o", tmp_path / "tables")
    assert done.returncode == 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} >= {"figures.csv", "kernels.csv", "layers.csv"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((RUN,), "compare takes two runs or more"),
        ((RUN, "nowhere"), "nowhere"),
        ((RUN, RUN, "--fail-if", "step_time"), "--fail-if 'step_time' is no condition"),
        ((RUN, RUN, "--fail-if", "stepp_time>5"), "there is no figure stepp_time"),
    ],
)
def test_what_cannot_be_compared_is_one_error(args: tuple[str | Path, ...], said: str) -> None:
    done = tcprobe("compare", *args)
    first, *rest = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert first.startswith("tcprobe: error: ")
    assert said in first
    assert len(rest) <= 1


def test_a_report_against_another_run(runs: tuple[Path, Path]) -> None:
    done = tcprobe("report", runs[1], "--against", runs[0], "--fail-if", "step_time>+5%")
    assert done.returncode == 1
    page = done.stdout
    assert page.index("Kernels that use Tensor Cores") < page.index("slow takes 25.0 % more than fast")
    assert page.index("Figures (against fast)") < page.index("What to do first")
    assert done.stderr == "failed: --fail-if 'step_time>+5%' of slow: it is +25.0 %\n"
    made = json.loads(tcprobe("report", runs[1], "--against", runs[0], "--format", "json").stdout)
    assert made["against"]["runs"][0]["name"] == "fast"
    assert made["conditions"] == []


def test_a_report_fails_on_its_own_figures() -> None:
    done = tcprobe("report", RUN, "--fail-if", "tc_kernel_time_pct<40", "--by", "device")
    assert done.returncode == 1
    assert done.stderr.startswith("failed: --fail-if 'tc_kernel_time_pct<40': it is 28.9")
    assert "GPUs (1" in done.stdout
    refused = tcprobe("report", RUN, "--fail-if", "step_time>+5%")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--against" in refused.stderr


def test_names_cannot_write_markdown(tmp_path: Path) -> None:
    odd = load().write(tmp_path / "a|b`<img>")
    page = tcprobe("compare", RUN, odd, "--format", "markdown").stdout
    assert "<img>" not in page
    assert "a|b" not in page.replace("\\|", "")


def test_before_and_after_on_two_gpus() -> None:
    done = tcprobe("compare", shared(BEFORE), shared(AFTER), "--format", "json")
    made = json.loads(done.stdout)
    figures = {figure["metric"]: figure for figure in made["figures"]}
    assert [side["value"] for side in figures["kernel_time_ns"]["sides"]] == [535_200_650, 488_835_406]
    assert figures["tc_kernel_time_pct"]["sides"][1]["value"] == pytest.approx(60.0, abs=0.05)
    assert not made["per_step"]
