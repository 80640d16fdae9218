"""`bench/fit.py`: constants of a framework, and of convolutions, from timings in the sets' own formats, made here."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench import public
from tcprobe.cost.constants import shipped
from tcprobe.cost.measured import conv_record, gemm_record
from tcprobe.cost.predict import Target, op_cost, planner_of
from tcprobe.cost.spread import logs_of
from tcprobe.gemm.conv import convolution_of
from tcprobe.hardware import find_gpu
from tests.support import ROOT

FILES = {"a100-sxm-80": "a100_mm.zip", "h100-sxm-96": "h100_mm.zip"}
HEAD = (
    '{"name": "mm"}\n'
    "m,k,n,mat1_dtype,mat2_dtype,mat1_stride_0,mat1_stride_1,mat2_stride_0,mat2_stride_1,mat1_iscontig,mat2_iscontig,"
    "using_tf32,choice,feedback\n"
)


def fitted(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "fit.py"), kind, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
        timeout=300,
    )


def lines(gpu: str, count: int = 200) -> str:
    """Return products as the shipped constants of the framework time them, and rows that must not count."""
    draw, on = random.Random(3), Target(find_gpu(gpu))
    text = HEAD
    for number in range(count):
        m, n, k = (8 * int(2 ** draw.uniform(3, 10)) for _ in "mnk")
        cost = op_cost(gemm_record(m, n, k, "float16", transpose_b=number % 2 == 1), on)
        assert cost is not None
        right = f"1,{k}" if number % 2 else f"{n},1"
        product = f"{m},{k},{n},torch.float16,torch.float16,{k},1,{right},True,False,not_float_32"
        text += f"{product},extern_mm,{cost.timed_ns * 1e-6}\n{product},type=triton_BLOCK-M=16,{cost.ns * 1e-7}\n"
        text += (
            f"{m},{k},{n},torch.float16,torch.float16,{2 * k},1,{right},False,False,not_float_32,extern_mm,0.00001\n"
        )
    return text


def test_a_fit_finds_the_constants_behind_the_times(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    for gpu, name in FILES.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("set/mm.txt", lines(gpu))
    done = fitted("framework", tmp_path)
    assert done.returncode == 0, done.stderr
    gpus = json.loads(done.stdout)["gpus"]
    found = {gpu["gpu"]: gpu for gpu in gpus if gpu["stack"] == {"kind": "framework", "name": "PyTorch"}}
    assert found.keys() == FILES.keys()
    assert {gpu["gpu"] for gpu in gpus if gpu["stack"]["kind"] != "framework"} == shipped().keys()
    for name, gpu in found.items():
        rate, true = gpu["rates"]["tc16"], shipped("framework")[name].rates["tc16"]
        assert rate["t0_ns"] == 2500
        assert rate["launch_ns"] == pytest.approx(true.launch_ns, rel=0.15)
        assert rate["emax"] == pytest.approx(true.emax, rel=0.06)
    own = [line.split() for line in done.stderr.splitlines() if " tc16 fitted" in line]
    assert [float(line[4]) < 4 for line in own] == [True, True]  # error in percent on the products left out


def test_without_the_set_nothing_is_fitted(tmp_path: Path) -> None:
    done = fitted("framework", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no a100_mm.zip in " in done.stderr


def test_a_fit_of_convolutions_finds_the_powers_behind_the_times(tmp_path: Path) -> None:
    draw, text = random.Random(5), "B,Input_Size,Input_Channel,Output_Channel,Kernel_Szie,Stride,Padding,Latency\n"
    for _ in range(300):
        images, side, channels, filters = (int(2 ** draw.uniform(*ends)) for ends in ((1, 5), (4, 7), (5, 9), (5, 9)))
        record = conv_record("forward", "float32", (images, side, side, channels), filters, (3, 3), (1, 1), (1, 1))
        plan, conv = (
            planner_of(record, Target(find_gpu("t4"), tf32=False), "float32"),
            convolution_of(record, "forward"),
        )
        assert plan is not None and conv is not None
        a, b, c, d = logs_of(conv)
        time_ns = plan.ideal.ns * 0.8 * math.exp(-0.6 * a - 0.3 * b - 0.2 * c - 0.4 * d)
        text += f"{images},{side},{channels},{filters},3,1,1,{time_ns * 1e-6}\n"
    (tmp_path / "Tesla T4.csv").write_text(text, encoding="utf-8")
    done = fitted("winograd", tmp_path)
    assert done.stdout.strip() == '"t4": _Fit(0.800, (-0.600, -0.300, -0.200, -0.400), (1.00, 1.00)),', done.stderr
    assert "error 0.0 %, in range" in done.stderr


def test_a_fit_of_products_in_float32_finds_the_factors_behind_the_times(tmp_path: Path) -> None:
    draw, head = random.Random(6), "B,M,N,K,Device,Latency\n"
    on = Target(find_gpu("t4"), tf32=False)
    for kind, factor, folder in (("linear", 1.0, "test"), ("bmm", 0.7, "train/collect/bmm/p2.1.0")):
        text = head
        for _ in range(300):
            m, n, k = (int(2 ** draw.uniform(9, 11)) for _ in "mnk")
            batch = 1 if kind == "linear" else 8
            record = gemm_record(m, n, k, "float32", batch, transpose_b=batch == 1)
            plan = planner_of(record, on, "float32")
            assert plan is not None
            text += f"{batch},{m},{n},{k},Tesla T4,{plan.ideal.ns * factor * 1e-6}\n"
        text += "1,64,64,64,Tesla T4,0.09\n1,64,64,64,Tesla M60,9\n"  # too short, and a GPU that is left out
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{kind}.csv").write_text(text, encoding="utf-8")
    done = fitted("float32", tmp_path)
    # the shipped factor of a T4, which the times hold, and batched products 0.7 times as long
    assert done.stdout.strip() == '"t4": _Float32(1.26, (1.00, 1.00), (0.70, 0.70, 0.70)),', done.stderr
    assert len(public.products(tmp_path)["t4 PyTorch bmm float32"]) in range(100, 200)
