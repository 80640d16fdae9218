"""`tcprobe compare`, `report --against` and `--fail-if` as a user runs them: exit code, both streams, files."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import warm
from tests.readers.run_folder.test_folder import make_run
from tests.support import ROOT, shared

GPU_RUN = ROOT / "tests/fixtures/gpu_run/run"
JITTER = (0, 3, 1, 4, 2, 0, 4, 1, 3, 2)
BEFORE = "samples/nsys/h100x2_bf16_before_nsys2026.sqlite"
AFTER = "samples/nsys/h100x2_bf16_after_nsys2026.sqlite"


def timed(folder: Path, step_ms: float, count: int = 40) -> Path:
    """A run without GPU of `count` steps of so many ms, each up to 4 % longer."""
    made, start, lines = make_run(folder), 0.0, ["step,start_ns,kind"]
    for number in range(count + 1):
        lines.append(f"{number},{int(start)},{'profiled' if number == count else 'measured'}")
        start += step_ms * 1e6 * (1 + JITTER[number % len(JITTER)] / 100)
    (made / "probe" / "steps.csv").write_text("\n".join([*lines, ""]))
    return made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of 10 ms a step, of as much again, of 8 ms, and of 3 steps."""
    home = tmp_path_factory.mktemp("runs")
    lengths = {"base": (10.0, 40), "again": (10.02, 40), "fast": (8.0, 40), "short": (10.0, 3)}
    return {name: timed(home / name, *how) for name, how in lengths.items()}


def refused(*args: str | Path) -> list[str]:
    """Run what must fail: exit code 2, nothing on standard output, an error and at most a hint on the other."""
    done = warm.run_tcprobe(*args)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert lines[0].startswith("tcprobe: error: ")
    assert [line[:6] for line in lines[1:]] == ["hint: "] * (len(lines) - 1)
    assert len(lines) <= 2
    return lines


def test_a_faster_run(runs: dict[str, Path]) -> None:
    done = warm.run_tcprobe("compare", runs["base"], runs["fast"])
    assert (done.returncode, done.stderr) == (0, "")
    # medians 10.2 and 8.16 ms: 20 % less
    said = " ".join(done.stdout.split())
    assert said.startswith("A base 40 steps on the CPU B fast 40 steps on the CPU B takes 8.16 ms a step, 20 % less")
    assert "than A with 10.2 ms (95 %: " in said and "from 40 steps of A and 40 of B." in said
    assert "\x1b" not in done.stdout


def test_noise_is_no_difference(runs: dict[str, Path]) -> None:
    assert "is within noise (95 %: " in " ".join(
        warm.run_tcprobe("compare", runs["base"], runs["again"]).stdout.split()
    )


def test_too_few_steps(runs: dict[str, Path]) -> None:
    text = " ".join(warm.run_tcprobe("compare", runs["base"], runs["short"]).stdout.split())
    assert "of A the length of 40 steps is known and of B of 3 steps, and at least 8 of each are needed" in text
    assert "Run each for more steps, and compare again." in text


@pytest.mark.parametrize(
    ("other", "conditions", "code", "outcomes"),
    [
        ("fast", ["step_time>+5%"], 0, ["not met"]),
        ("fast", ["step_time<-5%"], 1, ["met"]),
        ("fast", ["step_time<9ms", "step_time>+5%"], 1, ["met", "not met"]),
        ("again", ["step_time>+0%", "step_time<-0%"], 0, ["not met", "not met"]),
        ("short", ["step_time>+5%"], 2, ["cannot tell"]),
        ("short", ["step_time>+5%", "step_time>1ms"], 1, ["cannot tell", "met"]),
        ("fast", ["tc_kernel_time_pct<30"], 2, ["cannot tell"]),
    ],
)
def test_conditions(runs: dict[str, Path], other: str, conditions: list[str], code: int, outcomes: list[str]) -> None:
    options = [word for condition in conditions for word in ("--fail-if", condition)]
    done = warm.run_tcprobe("compare", runs["base"], runs[other], *options)
    assert done.returncode == code
    assert "Figures\n" in done.stdout
    said = zip(done.stderr.splitlines(), conditions, outcomes, strict=True)
    assert all(line.startswith(f"tcprobe: --fail-if {text}: {outcome}: {other}: ") for line, text, outcome in said)
    document = json.loads(warm.run_tcprobe("compare", runs["base"], runs[other], "--format", "json", *options).stdout)
    assert [(one["text"], one["outcome"]) for one in document["conditions"]] == list(
        zip(conditions, outcomes, strict=True)
    )


def test_every_format_and_its_file(runs: dict[str, Path], tmp_path: Path) -> None:
    pair: Sequence[Path] = (runs["base"], runs["fast"])
    starts = {"text": ("txt", "A  base"), "json": ("json", "{"), "csv": ("csv", "metric,"), "markdown": ("md", "# C")}
    for name, (ending, start) in starts.items():
        printed = warm.run_tcprobe("compare", *pair, "--format", name)
        path = tmp_path / f"a.{ending}"
        done = warm.run_tcprobe("compare", *pair, "-o", path, "--fail-if", "step_time<-5%")
        assert printed.stdout.startswith(start)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[0] == f"Wrote {path}"
        if name in ("text", "csv"):
            assert path.read_text() == printed.stdout


def test_a_folder_of_tables(runs: dict[str, Path], tmp_path: Path) -> None:
    done = warm.run_tcprobe("compare", runs["base"], runs["fast"], "-o", tmp_path / "t")
    names = {"figures", "layers", "ops", "kernels", "renamed", "places", "ranges", "losses", "settings"}
    assert {path.stem for path in (tmp_path / "t").iterdir()} == names
    assert done.stderr.startswith(f"Wrote 9 tables to {tmp_path / 't'}: ")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t" / "figures.csv").read_text())))
    step = [row for row in rows if row["metric"] == "step_time_ns"]
    assert [(row["run"], row["run_name"], row["difference"]) for row in step] == [
        ("0", "base", ""),
        ("1", "fast", "faster"),
    ]
    assert "exists already" in refused("compare", runs["base"], runs["fast"], "-o", tmp_path / "t")[0]


def test_one_csv_holds_one_table(runs: dict[str, Path]) -> None:
    pair = (runs["base"], runs["fast"], "--format", "csv")
    losses = list(csv.DictReader(io.StringIO(warm.run_tcprobe("compare", *pair, "--by", "loss").stdout)))
    assert {row["name"] for row in losses} == {"loss", "throughput"}
    assert "one CSV holds one table" in refused("compare", *pair, "--by", "loss", "--by", "layer")[0]


def test_three_runs(runs: dict[str, Path]) -> None:
    done = warm.run_tcprobe("compare", *(runs[n] for n in ("base", "fast", "again")), "--fail-if", "step_time<-5%")
    assert done.returncode == 1
    assert [line.split(": ")[2:4] for line in done.stderr.splitlines()] == [["met", "fast"], ["not met", "again"]]
    assert "change of B" in done.stdout
    assert "C takes 10.2 ms a step and A 10.2 ms: the difference is within noise" in done.stdout


def test_misuse(runs: dict[str, Path], tmp_path: Path) -> None:
    base = runs["base"]
    assert "two runs or more" in refused("compare", base)[0]
    assert "is given twice" in refused("compare", base, base)[0]
    assert "is given twice" in refused("compare", base, base / ".." / base.name)[0]
    assert "no such file or directory" in refused("compare", base, tmp_path / "none")[0]
    assert "is given twice" in refused("report", base, "--against", base)[0]
    assert "no such file or directory" in refused("report", base, "--against", tmp_path / "none")[0]
    assert warm.run_tcprobe("compare").returncode == 2


def test_a_bad_condition_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    lines = refused("compare", tmp_path / "none", tmp_path / "other", "--fail-if", "step_tme>+5%")
    assert "there is no figure step_tme" in lines[0]
    assert "did you mean step_time?" in lines[1]
    lines = refused("report", tmp_path / "none", "--fail-if", "step_time>+5%")
    assert "nothing is compared" in lines[0]
    assert "--against" in lines[1]


def test_an_error_is_json_too_and_counts_before_conditions(runs: dict[str, Path], tmp_path: Path) -> None:
    done = warm.run_tcprobe(
        "compare", runs["base"], tmp_path / "none", "--format", "json", "--fail-if", "step_time>1ms"
    )
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "E201")
    full = [warm.tcprobe(), "-m", "tcprobe", "compare", runs["base"], runs["fast"], "--fail-if", "step_time>1ms"]
    with Path("/dev/full").open("w") as out:
        lost = subprocess.run(full, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert lost.returncode == 2
    assert "standard output: cannot be written" in lost.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 1, ""),  # as of every command: the reader went away
        (["--fail-if", "step_time<-5%"], 1, "met"),
        (["--fail-if", "step_time>+5%"], 0, "not met"),
        (["--fail-if", "gpu_busy>+5%"], 2, "cannot tell"),
    ],
)
def test_a_closed_pipe_does_not_change_the_outcome(
    runs: dict[str, Path], options: list[str], code: int, said: str
) -> None:
    command = [warm.tcprobe(), "-m", "tcprobe", "compare", runs["base"], runs["fast"], *options]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    told = run.stderr.read()
    run.stderr.close()
    assert run.wait(timeout=120) == code
    assert f": {said}: " in told if said else told == ""


def test_report_against_another_run(runs: dict[str, Path], tmp_path: Path) -> None:
    args = (runs["fast"], "--against", runs["base"])
    done = warm.run_tcprobe("report", *args, "--fail-if", "step_time>+5%", "--fail-if", "step_time<9ms")
    assert done.returncode == 1
    assert [line.split(": ")[2:4] for line in done.stderr.splitlines()] == [["not met", "fast"], ["met", "fast"]]
    assert "Against base: this run takes 8.16 ms a step, 20 % less than the other run with 10.2 ms" in done.stdout
    assert done.stdout.index("Against base") < done.stdout.index("\nFigures\n")
    document = json.loads(warm.run_tcprobe("report", *args, "--format", "json", "--fail-if", "step_time>+5%").stdout)
    assert document["against"]["runs"][0]["name"] == "base"
    assert [one["outcome"] for one in document["conditions"]] == ["not met"]
    assert "**Against base: this run takes" in warm.run_tcprobe("report", *args, "--format", "markdown").stdout
    warm.run_tcprobe("report", *args, "-o", tmp_path / "t")
    assert {"summary.csv", "against_figures.csv"} <= {path.name for path in (tmp_path / "t").iterdir()}


def test_report_of_one_run_with_conditions() -> None:
    # the recorded run: 28.9 to 31.2 % of its kernel time on Tensor Cores, 246 kernels a step, three steps
    options = [w for c in ("tc_kernel_time<28%", "tc_kernel_time<30%", "kernels==738") for w in ("--fail-if", c)]
    done = warm.run_tcprobe("report", GPU_RUN, *options)
    assert [line.split(": ")[2] for line in done.stderr.splitlines()] == ["not met", "cannot tell", "met"]
    assert done.returncode == 1
    assert warm.run_tcprobe("report", GPU_RUN, *options[:4]).returncode == 2
    assert warm.run_tcprobe("report", GPU_RUN, *options[:2]).returncode == 0
    document = json.loads(warm.run_tcprobe("report", GPU_RUN, "--format", "json", *options[:2]).stdout)
    assert document["conditions"][0]["outcome"] == "not met"
    assert "against" not in document


def test_colour_is_for_terminals(runs: dict[str, Path]) -> None:
    pair = (runs["base"], runs["fast"])
    assert "\x1b[1m" in warm.run_tcprobe("compare", *pair, NO_COLOR="", FORCE_COLOR="1").stdout
    assert "\x1b" not in warm.run_tcprobe("compare", *pair, NO_COLOR="1", FORCE_COLOR="1").stdout


def test_two_captures_of_h100() -> None:
    done = warm.run_tcprobe(
        "compare", shared(BEFORE), shared(AFTER), "--fail-if", "kernel_time>+5%", "--fail-if", "kernels<-5%"
    )
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "no length of a step is known of A and B" in said and "Tensor Cores: GOOD in each." in said
    # SELECT SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL: 535,200,650 and 488,835,406 ns
    assert "Kernels take 535 ms of A and 489 ms of B, 8.7 % less, in the whole capture" in said
    assert "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128" in done.stdout  # whole, where nothing is cut
    narrow = warm.run_tcprobe("compare", shared(BEFORE), shared(AFTER), "--width", "100").stdout
    assert max(map(len, narrow.splitlines())) <= 100


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['tcprobe', 'compare', '--help']\n"
        "from tcprobe.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pandas', 'tensorflow', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"
    assert "--fail-if" in done.stdout


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("mfu<40%", 1, "mfu<40%: met: 0.3 %"),
        ("mfu<0.1%", 0, "mfu<0.1%: not met: 0.3 %"),
        ("mfu_peak<312", 0, "mfu_peak<312: not met: 312"),
        ("hfu<40%", 2, "hfu<40%: cannot tell: the run does not record it"),
    ],
)
def test_model_flops_utilisation_of_a_recorded_run(condition: str, code: int, said: str) -> None:
    done = warm.run_tcprobe("report", GPU_RUN, "--format", "json", "--fail-if", condition)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == f"tcprobe: --fail-if {said}"
    figures = {row["metric"]: row for row in json.loads(done.stdout)["summary"]}
    step, peak = (figures[name]["value"] for name in ("step_time_ns", "mfu_peak_tflop_per_s"))
    assert figures["mfu_pct"]["value"] == pytest.approx(100 * figures["flops_per_step"]["value"] / (step * peak * 1e3))
