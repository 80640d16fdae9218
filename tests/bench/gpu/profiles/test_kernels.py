"""Kernels by name, from traces of each profiler."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from bench.gpu.profiles import kernels
from bench.gpu.profiles.kernels import Tally
from tests.bench.gpu.profiles import fakes
from tests.support import shared


def test_kineto_says_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    fakes.kineto(path, [("gemm", 12.345), ("copy", 2), ("gemm", 10.0)])
    expected = {"gemm": Tally(2, 22_345, 10_000, 12_345), "copy": Tally(1, 2_000, 2_000, 2_000)}
    assert kernels.of_kineto(path) == expected
    fakes.kineto(path, [("gemm", 12.345)], kind="Kernel")  # PyTorch 1.8
    assert kernels.of_kineto(path) == {"gemm": Tally(1, 12_345, 12_345, 12_345)}


def test_nsys_names_kernels_by_id(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    fakes.nsys(path, [("gemm", 12), ("copy", 2), ("gemm", 10)])
    assert kernels.of_nsys(path) == {"gemm": Tally(2, 22, 10, 12), "copy": Tally(1, 2, 2, 2)}


def test_nsys_without_kernels_has_no_table(tmp_path: Path) -> None:
    fakes.nsys(tmp_path / "trace.sqlite", [])
    assert kernels.of_nsys(tmp_path / "trace.sqlite") == {}


def test_a_table_returns_as_written_and_costliest_first(tmp_path: Path) -> None:
    found = {"copy": Tally(1, 2, 2, 2), "gemm<a, b>": Tally(2, 22, 10, 12)}
    kernels.write(tmp_path, found)
    assert kernels.read(tmp_path) == found
    assert list(kernels.read(tmp_path)) == ["gemm<a, b>", "copy"]
    kernels.write(tmp_path, {})
    lines = gzip.decompress((tmp_path / kernels.FILE).read_bytes()).decode()
    assert lines == "kernel,calls,sum_ns,min_ns,max_ns\n"


def test_kineto_of_real_gpus(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress(shared("samples/kineto/b300_moe_large.json.gz").read_bytes()))
    events = [e for e in json.loads(path.read_bytes())["traceEvents"] if e.get("cat") == "kernel"]
    found = kernels.of_kineto(path)
    assert sum(one.calls for one in found.values()) == len(events) == 42
    assert sum(one.sum_ns for one in found.values()) == pytest.approx(1000 * sum(e["dur"] for e in events), abs=1)
    assert kernels.lost_by_kineto(path) == 0
    told = json.loads(path.read_bytes())
    told["traceEvents"].remove(next(e for e in told["traceEvents"] if e.get("cat") == "kernel"))
    path.write_text(json.dumps(told), encoding="utf-8")
    assert kernels.lost_by_kineto(path) == 1


@pytest.mark.parametrize("name", ["h100x2_bf16_after_nsys2026", "rtx3090_tensorrt_nsys2023.1"])
def test_nsys_of_real_gpus(name: str) -> None:
    path = shared(f"samples/nsys/{name}.sqlite")
    found = kernels.of_nsys(path)
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    rows = database.execute("SELECT start, end, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    database.close()
    assert sum(one.calls for one in found.values()) == len(rows)
    assert sum(one.sum_ns for one in found.values()) == sum(end - start for start, end, _ in rows)
    assert len(found) == len({name for *_, name in rows})
