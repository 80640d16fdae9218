"""Raw traces as they are kept."""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

from bench.gpu.profiles import kernels, raw
from tests.bench.gpu.profiles import fakes


def test_the_first_trace_that_is_small_enough_is_kept(tmp_path: Path) -> None:
    long, short = tmp_path / "long.json", tmp_path / "short.json"
    long.write_bytes(os.urandom(raw.MOST + 1))
    fakes.kineto(short, [("gemm", 1.0)])
    assert raw.keep([(30, long), (3, short)], tmp_path, ()) == ("trace.json.gz", 3)
    (tmp_path / "kept.json").write_bytes(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert kernels.of_kineto(tmp_path / "kept.json") == kernels.of_kineto(short)
    assert raw.keep([(30, long)], tmp_path, ()) is None


def test_a_trace_tells_nothing_of_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    fakes.kineto(path, [("gemm", 1.0)])
    told = raw.anonymous(path, (tmp_path,)).decode()
    assert "box-17" not in told
    assert str(tmp_path) not in told
    assert '"host_name": "-"' in told


def test_an_xspace_is_cleaned_as_a_runs_is_and_one_that_is_cut_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    told = str(tmp_path / "model.py").encode()
    path.write_bytes(b"\x0a" + bytes([len(told)]) + told)
    assert raw.keep([(30, path)], tmp_path, (tmp_path,)) == ("trace.xplane.pb.gz", 30)
    kept = gzip.decompress((tmp_path / "trace.xplane.pb.gz").read_bytes())
    assert kept[2:] == b"x" * len(str(tmp_path)) + b"/model.py"
    path.write_bytes(path.read_bytes()[:-1])
    assert raw.keep([(30, path)], tmp_path, ()) is None


def test_an_export_of_nsys_forgets_environment_and_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    fakes.nsys(path, [("gemm", 10)])
    before = kernels.of_nsys(path)
    kept = tmp_path / "kept.sqlite"
    kept.write_bytes(raw.anonymous(path, ()))
    assert b"secret" not in kept.read_bytes()
    assert b"other-work" not in kept.read_bytes()
    assert kernels.of_nsys(kept) == before
    database = sqlite3.connect(kept)
    assert database.execute("SELECT value FROM META_DATA_CAPTURE").fetchall() == [("-",), ("cuda",)]
    database.close()
