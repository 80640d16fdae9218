"""The recorder of GPUs, without one: its plan, what it reads of Nsight Compute, what contradicts, how it goes on."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import __main__ as recorder
from bench.gpu import machine
from bench.gpu.cases import Case, batches, gemm, plan
from bench.gpu.check import check, rows_of
from bench.gpu.machine import Failed, Machine, last_line, run
from bench.gpu.steps import CASES, LAUNCHES, OPS, Step, classify, keep_launches, steps, write
from tests.fixtures.ncu import make
from tests.support import ROOT, shared

SMI = {"name": "NVIDIA H200", "driver_version": "560.1", "compute_cap": "9.0"}
NVJET = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"
SGEMM = "ampere_sgemm_128x64_nn"
OPERATIONS = {p: f"sm__ops_path_tensor_src_{p}.sum" for p in ("fp16", "bf16", "tf32", "fp8", "int8", "fp64")}


# --- the plan ---------------------------------------------------------------------------------------------


def test_the_plan_has_every_kind_dtype_and_alignment_once() -> None:
    cases = plan()
    assert len({case.name for case in cases}) == len(cases)
    products = {(c.op, c.direction, c.dtype) for c in cases if c.op in ("gemm", "conv")}
    main = ("bfloat16", "float16", "tf32", "float32")
    assert products >= {(op, p, d) for op in ("gemm", "conv") for p in ("forward", "dgrad", "wgrad") for d in main}
    assert {c.dtype for c in cases if c.op == "gemm"} == {*main, "float8_e4m3fn", "int8"}
    for op, place in (("gemm", 1), ("conv", 2)):
        sizes = {c.sizes[place] for c in cases if (c.op, c.direction, c.dtype) == (op, "forward", "float16")}
        assert {math.gcd(size, 8) for size in sizes} == {8, 4, 2, 1}
    others = {
        "attention",
        "layer_norm",
        "batch_norm",
        "softmax",
        "add",
        "gelu",
        "sum",
        "max",
        "cast",
        "copy",
        "transpose",
    }
    assert others <= {c.op for c in cases}


@pytest.mark.parametrize(
    ("case", "aligned"),
    [
        (gemm(4096, 4096, 4096, "float16"), True),
        (gemm(4095, 4096, 4096, "float16"), True),  # rows alone do not count
        (gemm(4096, 4095, 4096, "float16"), False),
        (gemm(4095, 4096, 4096, "float16", "tn"), False),
        (gemm(4092, 4092, 4092, "tf32"), True),
        (gemm(4092, 4092, 4092, "float16"), False),
        (Case("add", "forward", "float16", "", (8192, 1023)), None),
    ],
)
def test_alignment_is_of_what_is_contiguous_in_bytes_and_stays_in_a_rehearsal(case: Case, aligned: bool | None) -> None:
    assert case.aligned is aligned
    assert case.small().aligned is aligned
    assert max(case.small().sizes) <= 32


def test_batches_hold_every_case_of_one_dtype() -> None:
    found = dict(batches(plan()))
    assert sorted(c.name for batch in found.values() for c in batch) == sorted(c.name for c in plan())
    assert all(len({c.dtype for c in batch}) == 1 for batch in found.values())


def test_what_is_missing_is_said_of_each_step() -> None:
    def lacking(*frameworks: str, ncu: str | None = None) -> dict[str, str | None]:
        there = Machine(SMI, dict.fromkeys(frameworks, "python"), {}, ncu)
        return {step.name.partition("-")[0]: step.lacking for step in steps(there, False)}

    assert list(lacking("torch", "tensorflow", ncu="ncu").values())[:2] == [None, None]
    assert lacking("torch", "jax", ncu="ncu")["trace"] is None
    assert "torch is missing" in str(lacking("tensorflow", ncu="ncu")["trace"])
    assert lacking("torch", ncu="ncu")["classify"] is None
    assert "TensorFlow is missing" in str(lacking("jax", ncu="ncu")["profile"])
    assert "ncu" in str(lacking("torch")["classify"])
    assert "PyTorch and JAX are missing" in str(lacking("tensorflow", ncu="ncu")["classify"])
    assert all(lacking().values())


def test_the_ops_run_on_python_3_8() -> None:
    ast.parse(OPS.read_text(encoding="utf-8"), feature_version=(3, 8))


# --- Nsight Compute ---------------------------------------------------------------------------------------


def counted(tmp_path: Path, text: str) -> list[dict[str, str]]:
    (tmp_path / "ncu.csv").write_text(text, encoding="utf-8")
    (tmp_path / "log.txt").touch()
    keep_launches(tmp_path)
    return rows_of(tmp_path / "launches.csv")


def test_launches_have_the_case_of_the_range_around_them(tmp_path: Path) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table(["case=gemm-1", "case=gemm-1", ""]))
    rows = counted(tmp_path, f"==PROF== Connected\n{text.getvalue()}")
    assert [row["case"] for row in rows] == ["gemm-1", "gemm-1", ""]
    assert [row["duration_ns"] for row in rows] == ["13056.0"] * 3
    assert (rows[0]["kernel"], rows[0]["grid"], rows[0]["sm__ops_path_tensor.sum"]) == (NVJET, "32,4,1", "8589934592")


def table(ranges: list[str]) -> list[list[str]]:
    """Return page raw of one kernel launched in each range of the process; an empty one is none."""
    head = [
        "ID",
        "Process ID",
        "Kernel Name",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        make.STARTED,
        make.SPENT,
        make.OPS,
    ]
    units = [*[""] * 8, "ns", ""]
    texts = [f'0  "<default domain>:{one}:none:none:none:none:none:none" ' if one else "" for one in ranges]
    rows = [
        [str(at), "7", NVJET, "(128, 1, 1)", "(32, 4, 1)", "0", "9.0", text, "13056", "8589934592"]
        for at, text in enumerate(texts)
    ]
    return [head, units, *rows]


def test_a_file_without_ranges_of_the_process_names_no_case(tmp_path: Path) -> None:
    rows = counted(tmp_path, make.raw(make.LAUNCHES))
    assert len(rows) == len(make.LAUNCHES) and not any(row["case"] for row in rows)


def test_a_refusal_is_a_reason_without_paths(tmp_path: Path) -> None:
    said = "==PROF== Connected to process 7 (/usr/bin/python3)\n==ERROR== ERR_NVGPUCTRPERM - see /home/me/x.txt\n"
    with pytest.raises(Failed, match=r"ERR_NVGPUCTRPERM - see x\.txt"):
        counted(tmp_path, said)


PROGRAM = """
import json, sys
orders = json.load(open(sys.argv[1]))
with open(orders["results"], "a") as file:
    for case in orders["cases"]:
        file.write(json.dumps({"case": case["case"], "status": "ran"}) + "\\n")
"""
NCU = """#!{python}
import subprocess, sys
if "--query-metrics" in sys.argv:
    print("sm__ops_path_tensor")
else:
    at = sys.argv.index("--log-file")
    open(sys.argv[at + 1], "w").write({csv!r})
    assert "sm__ops_path_tensor.sum" in sys.argv[sys.argv.index("--metrics") + 1]
    sys.exit(subprocess.call(sys.argv[at + 2 :]) or {code})
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_batch_under_nsight_compute_keeps_cases_and_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cases = [gemm(4096, 4096, 4096, "float16"), gemm(4095, 4095, 4095, "float16")]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(table([f"case={case.name}" for case in cases]))
    (tmp_path / "ops.py").write_text(PROGRAM)
    (tmp_path / "ncu").write_text(NCU.format(python=sys.executable, csv=text.getvalue(), code=code))
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setattr("bench.gpu.steps.OPS", tmp_path / "ops.py")
    there = Machine(SMI, {"torch": sys.executable}, {}, str(tmp_path / "ncu"))
    of = classify(there, "torch", cases, False, tmp_path, 60)
    assert (of["ran"], of["cases"], bool(of["reason"])) == (2, 2, bool(code))  # what was counted stays
    assert [(r["case"], r["aligned"], r["status"]) for r in rows_of(tmp_path / "cases.csv")] == [
        (cases[0].name, "True", "ran"),
        (cases[1].name, "False", "ran"),
    ]
    assert [r["case"] for r in rows_of(tmp_path / "launches.csv")] == [case.name for case in cases]


def test_real_launches_of_a_t4_contradict_no_name(tmp_path: Path) -> None:
    folder = recording(tmp_path, {**SMI, "compute_cap": "7.5"})
    step = folder / "classify-gemm-float16"
    (step / "ncu.csv").symlink_to(shared("samples/ncu/mlp_t4.raw.csv"))
    keep_launches(step)
    contradictions, outcomes = check(folder)
    assert contradictions == []
    assert outcomes["agreement"] and not outcomes["contradiction"]


# --- contradictions ---------------------------------------------------------------------------------------


def recording(folder: Path, smi: dict[str, str] = SMI) -> Path:
    """Write what a GPU might have left: two products, four runs, a calibration; nothing in it contradicts."""
    (folder / "provenance.json").write_text(json.dumps({"dry_run": False, "gpu": smi, "calls": []}))
    done: dict[str, Any] = {"status": "done", "reason": None, "seconds": 1.0}
    runs = {f"profile-{p}": {**done, "batch": 4096} for p in ("float32", "tf32", "mixed_float16", "mixed_bfloat16")}
    of = {"calibrate": {**done, "refused": None}, "classify-gemm-float16": done, "classify-gemm-float32": done, **runs}
    for name, step in of.items():
        (folder / name).mkdir()
        (folder / name / "step.json").write_text(json.dumps(step))
    for name in runs:
        summary(folder / name, tc_time_ns=0 if name == "profile-float32" else 4e8)
    for dtype, kernel, precision in (("float16", NVJET, "fp16"), ("float32", SGEMM, "")):
        product(folder / f"classify-gemm-{dtype}", gemm(4096, 4096, 4096, dtype), kernel, precision)
    return folder


def summary(step: Path, **figures: float | None) -> None:
    usual = {"kernel_time_ns": 1e9, "tc_time_ns": 4e8, "window_ns": 2e9, "coverage_pct": 99.9, "step_time_ns": 1e8}
    more = {"throughput": 40960, "gpu_busy_pct": 50, "peak_pct": 20, "tc_kernel_time_pct": 40, "flops_per_step": 1e12}
    rows = [{"metric": name, "value": value} for name, value in {**usual, **more, **figures}.items()]
    write(step / "summary.csv", ("metric", "value"), rows)


def product(step: Path, case: Case, kernel: str, precision: str) -> None:
    """Write the one launch of a case; its operations on Tensor Cores are of a precision, or none."""
    sizes = "x".join(map(str, case.sizes))
    write(step / "cases.csv", CASES, [{**case.order(), "sizes": sizes, "aligned": case.aligned, "status": "ran"}])
    counts = {metric: 1e9 if of == precision else 0 for of, metric in OPERATIONS.items()}
    launch = {"case": case.name, "kernel": kernel, "grid": "1,1,1", "block": "128,1,1", "duration_ns": 51200, **counts}
    write(step / "launches.csv", (*LAUNCHES, *OPERATIONS.values()), [launch])


def test_a_sound_recording_has_no_contradiction(tmp_path: Path) -> None:
    contradictions, outcomes = check(recording(tmp_path))
    assert contradictions == []
    assert outcomes == {"agreement": 2, "unknown": 0, "unproved": 0, "contradiction": 0}
    rows = rows_of(tmp_path / "comparison.csv")
    assert [(r["dtype"], r["counters"], r["name"], r["counted_precision"]) for r in rows] == [
        ("float16", "yes", "yes", "fp16"),
        ("float32", "no", "no", ""),
    ]


HALF, FULL = "classify-gemm-float16", "classify-gemm-float32"
ALIGNED, ODD = gemm(4096, 4096, 4096, "float16"), gemm(4095, 4095, 4095, "float16")
WRONG: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a Tensor Core kernel that none ran": (
        lambda f: product(f / HALF, ODD, NVJET, ""),
        [f"{NVJET}: by its name yes fp16 (rule nvjet), by counters no"],
    ),
    "another precision": (
        lambda f: product(f / HALF, ALIGNED, NVJET, "bf16"),
        [f"{NVJET}: by its name yes fp16 (rule nvjet), by counters yes bf16"],
    ),
    "an aligned product on CUDA cores": (
        lambda f: product(f / HALF, ALIGNED, SGEMM, ""),
        [f"{ALIGNED.name}: aligned, and ran on no Tensor Core"],
    ),
    "float32 on Tensor Cores": (
        lambda f: product(f / FULL, gemm(4096, 4096, 4096, "float32"), "my_gemm", "tf32"),
        ["gemm-forward-float32-nn-4096-4096-4096: ran on Tensor Cores, in float32 without TF32"],
    ),
    "refused constants": (
        lambda f: (f / "calibrate/step.json").write_text('{"status": "done", "refused": "worse"}') and None,
        ["calibrate: worse"],
    ),
    "no kernel": (lambda f: summary(f / "profile-tf32", kernel_time_ns=None), ["profile-tf32: no kernel was recorded"]),
    "more than the window": (
        lambda f: summary(f / "profile-tf32", kernel_time_ns=3e9),
        ["profile-tf32: kernels took 3000000000 ns of a window of 2000000000 ns"],
    ),
    "too many unknown kernels": (
        lambda f: summary(f / "profile-tf32", coverage_pct=89),
        ["profile-tf32: 89.0 % of kernel time has a verdict"],
    ),
    "two clocks": (
        lambda f: summary(f / "profile-tf32", step_time_ns=1.2e8),
        ["profile-tf32: a step takes 120000000 ns, by the workload's own log 100000000 ns"],
    ),
    "beyond the peak": (lambda f: summary(f / "profile-tf32", peak_pct=130), ["profile-tf32: peak_pct is 130.0"]),
    "Tensor Cores in float32": (
        lambda f: summary(f / "profile-float32", tc_time_ns=5),
        ["profile-float32: 5 ns on Tensor Cores, in float32"],
    ),
    "none in float16": (
        lambda f: summary(f / "profile-mixed_float16", tc_time_ns=0),
        ["profile-mixed_float16: nothing ran on Tensor Cores"],
    ),
    "other FLOPs": (
        lambda f: summary(f / "profile-tf32", flops_per_step=2e12),
        ["profile-tf32: 2000000000000 FLOP in a step, 1000000000000 in the middle of all runs"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_contradiction_is_found_and_nothing_else(tmp_path: Path, what: str) -> None:
    change, expected = WRONG[what]
    change(recording(tmp_path))
    found, _ = check(tmp_path)
    assert [text[: len(start)] for text, start in zip(found, expected, strict=True)] == expected


def test_what_a_gpu_does_not_have_and_what_is_not_known_are_no_contradiction(tmp_path: Path) -> None:
    recording(tmp_path, {**SMI, "compute_cap": "7.0"})
    for name in ("tf32", "mixed_bfloat16"):
        summary(tmp_path / f"profile-{name}", tc_time_ns=0)  # Volta has float16 alone
    summary(tmp_path / "profile-mixed_float16", tc_time_ns=None, throughput=None, window_ns=None, coverage_pct=None)
    assert check(tmp_path)[0] == []


# --- a recording ------------------------------------------------------------------------------------------


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Return what records three steps as on a machine with a GPU: one works, one fails, one lacks something."""
    monkeypatch.setattr(recorder, "look", lambda pythons: Machine(SMI, {}, {}, None))
    monkeypatch.setattr(recorder, "smi", lambda fields: {})

    def works(folder: Path, seconds: float) -> dict[str, Any]:
        (folder / "log.txt").write_text("/home/me")
        (folder / "raw.csv").write_text("kept")
        return {"refused": None}

    def fails(folder: Path, seconds: float) -> dict[str, Any]:
        (folder / "log.txt").write_text("why")
        raise Failed("it broke")

    done = [Step("calibrate", 60, works), Step("profile-x", 60, fails), Step("classify-x", 60, works, "no ncu")]
    monkeypatch.setattr(recorder, "steps", lambda machine, dry: done)
    return lambda *words: recorder.main(["--out", str(tmp_path / "out"), *words])


def test_a_failing_step_stops_no_other_and_the_same_command_goes_on(
    record: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record() == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split()[1] for line in said.err.splitlines()[1:4]] == ["done", "failed", "missing"]
    assert "it broke" in said.err and "no ncu" in said.err
    out = tmp_path / "out"
    assert sorted(p.name for p in (out / "calibrate").iterdir()) == ["raw.csv", "step.json"]  # nothing with a path
    assert (out / "profile-x/log.txt").exists()
    (out / "calibrate/raw.csv").write_text("not measured again")
    (out / "profile-x/log.txt").write_text("done anew")
    assert record() == 0
    assert (out / "calibrate/raw.csv").read_text() == "not measured again"
    assert (out / "profile-x/log.txt").read_text() == "why"
    assert len(json.loads((out / "provenance.json").read_text())["calls"]) == 2


def test_a_contradiction_is_printed_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    product(recording(tmp_path) / HALF, ODD, NVJET, "")
    assert recorder.main(["--out", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out.startswith(f"CONTRADICTION {NVJET}: by its name yes fp16")


def test_another_gpu_s_folder_is_refused(
    record: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    before = {"dry_run": False, "gpu": {**SMI, "name": "Tesla T4"}, "calls": []}
    (tmp_path / "out/provenance.json").write_text(json.dumps(before))
    assert record() == 2
    assert "holds another recording (gpu: " in capsys.readouterr().err
    assert record("--dry-run") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--check"], "nothing is recorded in"),
        (["--only", "nosuch"], "no step begins with nosuch"),
        (["--only", "profile"], "nothing is recorded in"),
    ],
)
def test_where_nothing_is_recorded_it_exits_2(
    record: Callable[..., int], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert record(*words) == 2
    assert says in capsys.readouterr().err


def test_a_damaged_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recording(tmp_path) / HALF / "launches.csv").write_text("case,kernel\n")
    (tmp_path / HALF / "cases.csv").write_text("")
    (tmp_path / HALF / "step.json").write_text("{")
    assert recorder.main(["--out", str(tmp_path), "--check"]) == 2
    assert "is damaged, or no recording" in capsys.readouterr().err


def test_without_a_gpu_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "smi", lambda fields: {})
    assert recorder.main(["--out", str(tmp_path / "out")]) == 2
    assert "--dry-run" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_interpreter_that_does_not_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorder.main(["--out", str(tmp_path), "--python", "/nosuch/python"]) == 2
    assert "/nosuch/python is no interpreter" in capsys.readouterr().err


def test_a_step_past_its_time_ends_with_all_that_it_started(tmp_path: Path) -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with pytest.raises(Failed, match="took longer than 2 s"):
        run([sys.executable, "-c", code], 2, tmp_path / "log.txt")
    child = int((tmp_path / "log.txt").read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("its child still runs")


def test_a_command_that_cannot_start_and_the_last_line_of_one_that_failed(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="No such file"):
        run(["/nosuch"], 5, tmp_path / "log.txt")
    assert (
        run([sys.executable, "-c", "print('a'); raise SystemExit('cannot read /home/me/x')"], 60, tmp_path / "log.txt")
        == 1
    )
    assert last_line(tmp_path / "log.txt") == "cannot read x"
    (tmp_path / "log.txt").write_text("talk\ntcprobe: error: PyTorch sees no GPU\nhint: another\n")
    assert last_line(tmp_path / "log.txt") == "tcprobe: error: PyTorch sees no GPU"


def test_the_page_names_the_command_s_options() -> None:
    page = (ROOT / "docs/contribute-a-gpu.md").read_text(encoding="utf-8")
    for option in ("--out", "--python", "--only", "--check", "--dry-run"):
        assert f"`{option}" in page
