"""`tcprobe report` as a user runs it: exit code, standard output, standard error."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests import warm
from tests.readers.run_folder.test_folder import OP, graph, make_run
from tests.support import ROOT, shared

T4 = "samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"


def tcprobe(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm.run_tcprobe("report", *args, **environment)


def refused(*args: str | Path) -> list[str]:
    """Run what must fail: exit code 2, nothing on standard output, an error and at most a hint on the other."""
    done = tcprobe(*args)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert lines[0].startswith("tcprobe: error: ")
    assert len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])
    return lines


@cache
def shown(*args: str | Path, **environment: str) -> str:
    """Return what a report without a complaint shows; the same command runs once."""
    done = tcprobe(*args, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_missing_path(tmp_path: Path) -> None:
    assert "no such file or directory" in refused(tmp_path / "none.pb")[0]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").touch()
    assert "the file is empty" in refused(tmp_path / "a.xplane.pb")[0]


def test_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_text("hello, this is text\n")
    lines = refused(tmp_path / "a.xplane.pb")
    assert "text that starts with 'hello, this is text'" in lines[0]
    assert "expected" in lines[1]


def test_a_directory_without_a_profile(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("pass\n")
    assert "no profile in this directory (it holds model.py)" in refused(tmp_path)[0]


def test_a_truncated_profile(tmp_path: Path) -> None:
    whole = shared(T4).read_bytes()
    (tmp_path / "a.xplane.pb").write_bytes(whole[: len(whole) // 2])
    assert str(tmp_path / "a.xplane.pb") in refused(tmp_path / "a.xplane.pb")[0]


def test_several_paths_are_refused_with_the_folder_that_is_read_as_one(tmp_path: Path) -> None:
    """What a shell makes of rank*.json, and both pages of one report: before as --counters, the last one counted."""
    one, other = str(tmp_path / "raw.csv"), str(tmp_path / "details.csv")
    assert refused(one, other) == [
        "tcprobe: error: report reads one path, and 2 are named",
        f"hint: pages of one report and ranks of one job are read as one from their folder: tcprobe report {tmp_path}",
    ]
    assert refused(one, "--counters", one, "--counters", other)[1].endswith(f": --counters {tmp_path}")
    assert refused(one, "elsewhere/a.json")[1].endswith(": tcprobe report FOLDER")


def test_an_unknown_format_is_a_usage_error(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "--format", "jsn")
    assert done.returncode == 2
    assert "json" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_existing_file_is_refused_before_the_profile_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    lines = refused(tmp_path / "none.pb", "-o", tmp_path / "a.json")
    assert "a.json: exists already" in lines[0]
    assert "--force" in lines[1]
    assert (tmp_path / "a.json").read_text() == "mine"


def test_a_failure_opens_no_output(tmp_path: Path) -> None:
    refused(tmp_path / "none.pb", "-o", tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_json_too_where_json_is_read(tmp_path: Path) -> None:
    done = tcprobe(tmp_path / "none.pb", "--format", "json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2
    assert error["code"] == "E201"
    assert done.stderr.startswith(f"tcprobe: error: {error['message']}\n")


@pytest.mark.parametrize("form", ["text", "csv", "json", "markdown"])
def test_a_closed_pipe_is_quiet(form: str) -> None:
    command = [sys.executable, "-m", "tcprobe", "report", str(shared(T4)), "--top", "0", "--format", form]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait(timeout=120) == 1


def test_a_path_with_blanks_and_letters_of_any_language(tmp_path: Path) -> None:
    path = tmp_path / "mein lauf é" / "x ü.xplane.pb"
    path.parent.mkdir()
    path.write_bytes(shared(T4).read_bytes())
    text = shown(path, PYTHONIOENCODING="utf-8")
    assert text.startswith("x ü.xplane.pb ") and f"\nprofile      {path}\n" in text
    assert tcprobe(path, "-o", path.with_suffix(".md"), PYTHONIOENCODING="ascii").returncode == 0


def test_csv_on_standard_output_is_one_table() -> None:
    kernels = list(csv.DictReader(io.StringIO(shown(shared(T4), "--format", "csv"))))
    ops = list(csv.DictReader(io.StringIO(shown(shared(T4), "--format", "csv", "--by", "op"))))
    assert {row["uses_tc"] for row in kernels} <= {"yes", "no", "unknown"}
    assert len(kernels) > 10
    assert {"op", "tc_blocker"} <= set(ops[0])


def test_a_folder_of_tables(tmp_path: Path) -> None:
    done = tcprobe(shared(T4), "-o", tmp_path / "tables")
    names = {p.name for p in (tmp_path / "tables").iterdir()}
    assert (done.returncode, done.stdout) == (0, "")
    assert {f"{n}.csv" for n in ("summary", "kernels", "ops", "layers", "iterations", "devices")} <= names
    assert done.stderr.startswith(f"Wrote {len(names)} tables to {tmp_path / 'tables'}: summary.csv, ")


def test_the_ending_chooses_the_format(tmp_path: Path) -> None:
    for ending, start in ((".json", "{"), (".md", "# "), (".txt", "tf24_t4_alexnet"), (".csv", "device,kernel,")):
        done = tcprobe(shared(T4), "-o", tmp_path / f"a{ending}", TCPROBE_FORMAT="csv")
        assert done.stderr == f"Wrote {tmp_path / f'a{ending}'}\n"
        assert (tmp_path / f"a{ending}").read_text().startswith(start)


def test_the_environment_sets_format_and_rows() -> None:
    document = json.loads(shown(shared(T4), TCPROBE_FORMAT="json", TCPROBE_TOP="3"))
    assert len(document["tables"]["kernels"]) == 3


def test_width_and_colour_are_the_users() -> None:
    wide, narrow = shown(shared(T4)), shown(shared(T4), "--width", "100")
    assert "\x1b" not in wide
    assert max(map(len, narrow.splitlines())) <= 100 < max(map(len, wide.splitlines()))
    assert "\x1b[1m" in shown(shared(T4), NO_COLOR="", FORCE_COLOR="1")


def test_an_ascii_terminal_gets_every_line() -> None:
    assert shown(shared(T4), PYTHONIOENCODING="ascii", PYTHONUTF8="0")


def test_the_same_profile_gives_the_same_bytes() -> None:
    for kind in ("text", "json"):
        one, other = (shown(shared(T4), "--format", kind, PYTHONHASHSEED=seed) for seed in ("1", "2"))
        assert one == other


def test_reading_an_xspace_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['tcprobe', 'report', {str(shared(T4))!r}]\n"
        "from tcprobe.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'pandas', 'tensorflow', 'google.protobuf', 'rich', 'nvtx'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def headline(path: str) -> str:
    """Return the lines of a sample's report above its figures: the first screen, what it is of, what to do."""
    return shown(shared(path), "--top", "3").split("\nFigures\n")[0]


def test_a_t4_in_float32() -> None:
    text = shown(shared(T4))
    assert "Tesla T4 (inferred)" in text
    assert "Tensor Cores are NOT USED: every matrix op runs in float32." in text
    assert "1. mixed_float16: tf.keras.mixed_precision" in text
    assert "float32 cannot use a T4's Tensor Cores" in text
    assert "it may include warm-up" in text


def test_the_ops_of_a_t4_are_capable_and_blocked() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(shared(T4), "--format", "csv", "--by", "op"))))
    capable = [row for row in rows if row["tc_capable"] == "yes"]
    assert {row["tc_blocker"] for row in capable} == {"float32 cannot use a T4's Tensor Cores"}
    # TensorFlow's own kernel_stats calls 52 launches (51 kernels) eligible: all but the fused convolutions' 20 and one
    # gradient of the dense layer (volta_sgemm_32x128_nt), whose op it leaves out.
    fused = sum(int(row["launches"]) for row in capable if row["op_type"] == "_FusedConv2D")
    assert fused == 20
    assert sum(int(row["launches"]) for row in capable) == 52 + fused + 1


def test_a_p100_has_no_tensor_cores() -> None:
    text = headline("samples/xplane/tf24_p100_alexnet_fp32.xplane.pb")
    assert "Tensor Cores: NOT APPLICABLE. Tesla P100 PCIe has none." in text
    assert " 0.0 %" not in text


def test_of_eight_v100_two_were_active() -> None:
    text = headline("samples/xplane/tf22_8xv100_bert_step0.xplane.pb")
    assert "8 x Tesla V100" in text
    assert "2 active (4, 6), 6 idle (0, 1, 2, 3, 5, 7)" in text


@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_an_mi300_is_no_nvidia_gpu(name: str) -> None:
    text = headline(f"samples/xplane/jax08_mi300_{name}.xplane.pb")
    assert "not an NVIDIA GPU" in text
    assert "a100" not in text


@pytest.mark.parametrize("name", ["tf24_v100_alexnet_fp32", "tf25_turing_chess_fp32"])
def test_one_step_is_reported_with_a_warning(name: str) -> None:
    text = shown(shared(f"samples/xplane/{name}.xplane.pb"))
    assert "warning: only one step was recorded" in text
    assert "every matrix op runs in float32." in text


def test_dlprofs_own_efficiency_is_shown() -> None:
    document = json.loads(shown(shared("samples/dlprof/a100x4_pytorch_1.7_summary.csv"), "--format", "json"))
    figures = {row["metric"]: row for row in document["summary"]}
    assert figures["tc_capable_time_pct"]["value"] == 35.4
    assert figures["tc_capable_time_pct"]["basis"] == "reported"


def test_a_folder_of_dlprof_reports_is_one_profile() -> None:
    text = shown(shared("samples/dlprof/pytorch_1.8"))
    assert "GeForce RTX 2070 SUPER" in text
    assert "float32 cannot use an RTX 2070 SUPER's Tensor Cores" in text
    assert "autocast" not in text.split("Figures")[0]  # of a step of 2.86 s the kernels take 303 us


def test_dlprofs_ops_of_tensorflow_1() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(
        shared("samples/dlprof/v100_tf1_0.13_detailed.csv"), "--format", "csv", "--by", "op"
    ))))  # fmt: skip
    assert len(rows) == 387


def test_a_folder_of_many_profiles_names_them() -> None:
    lines = refused(shared("samples/dlprof/simple_0.16_json"))
    assert "11" in lines[0]
    assert "tcprobe report" in lines[1]


def test_a_run_with_phases_is_reported_per_phase(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", window={"first_step": 32, "last_step": 36})
    phases = [(0, 29, 1, "train.pretrain"), (30, 59, 2, "train.step")]
    (folder / "probe" / "probe.json").write_text(
        json.dumps(
            {
                "phases": [
                    {"first_step": low, "last_step": high, "parts": [{"key": key, "name": name, "calls_per_step": 1}]}
                    for low, high, key, name in phases
                ]
            }
        )
    )
    functions = [
        {
            **graph({**OP, "layer": name, "repeats": 1})["functions"][0],
            "name": name,
            "key": key,
            "calls_per_step": calls,
        }
        for (_, _, key, name), calls in zip(phases, (0, 1), strict=True)
    ]
    (folder / "probe" / "graph.json").write_text(json.dumps({"schema": 1, "functions": functions}))
    lines = [f"{i},{i * 10**7 + max(0, i - 30) * 10**7},{'warm-up' if i < 32 else 'after'}" for i in range(60)]
    (folder / "probe" / "steps.csv").write_text("\n".join(["step,start_ns,kind", *lines, ""]))
    text = shown(folder)
    assert "phase 2 of 2, steps 30 to 59" in text
    rows = [re.split("  +", line.strip()) for line in text.splitlines() if re.match(r" +\d+  +\d+ to \d+ ", line)]
    assert [row[:3] for row in rows] == [["1", "0 to 29", "10.0 ms"], ["2", "30 to 59", "20.0 ms"]]
    assert ["train.pretrain" in rows[0], "train.step" in rows[1]] == [True, True]  # sentences stand last
    assert any("--iter-start 2" in cell for cell in rows[0])
    assert "note: the counted steps do not call train.pretrain, which the run trained with" in text
    (first, second) = csv.DictReader(io.StringIO(shown(folder, "--by", "phase", "--format", "csv")))
    assert (first["in_window"], second["in_window"], second["step_ns"]) == ("false", "true", "20000000")


def on_a_terminal(*args: str | Path) -> list[str]:
    """Return the lines that a terminal of 80 columns shows, with their colours."""
    words = [sys.executable, "-m", "tcprobe", "report", *map(str, args)]
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")} | {"TERM": "xterm"}
    with subprocess.Popen(words, stdout=writing, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment) as running:
        os.close(writing)
        found = b""
        with suppress(OSError):  # it has ended
            while piece := os.read(reading, 65536):
                found += piece
        os.close(reading)
    assert running.returncode == 0
    return found.decode().replace("\r\n", "\n").splitlines()


def test_a_terminal_shows_one_screen_in_colour_and_all_of_it_where_asked() -> None:
    path = ROOT / "tests/fixtures/h100/jax_tf32.xplane.pb"
    lines = on_a_terminal(path)
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert len(plain) <= 22 and max(map(len, plain)) <= 80
    assert any("\x1b[32m" in line for line in lines)  # green on Tensor Cores
    assert any("\x1b[31mPARTLY\x1b[0m" in line for line in lines)
    whole = on_a_terminal(path, "--all")
    assert whole[: len(lines)] == lines and len(whole) > 60
