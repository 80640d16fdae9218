"""The table of op types: read beside the probe wherever that lies, and done without where it is absent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.bypath import PROBE
from tcprobe.gemm.ops import family_of
from tcprobe.probe.tensorflow.graph.called import GEMM_TYPES, is_gemm
from tests.support import ROOT

ASK = "from tcprobe_probe.tensorflow.graph.called import GEMM_TYPES; print(*sorted(GEMM_TYPES))"
UNCOUNTED = {"Conv", "XlaDot", "XlaDotV2", "XlaConv", "XlaConvV2"}


def recorded(folder: Path) -> set[str]:
    """Return the types that the probe in a folder records."""
    done = subprocess.run([sys.executable, "-c", ASK], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("link", [True, False])
def test_it_lies_beside_the_probe_that_is_started(tmp_path: Path, link: bool) -> None:
    PROBE.command(sys.executable, tmp_path / "src", {}, tmp_path / "config.json", link=link)
    assert recorded(tmp_path / "src") == GEMM_TYPES
    assert len(GEMM_TYPES) == 30


def test_without_it_the_probe_runs_and_records_no_product(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tcprobe/probe", tmp_path / "tcprobe_probe")
    assert recorded(tmp_path) == set()


def test_what_is_recorded_is_what_is_counted() -> None:
    assert {name for name in GEMM_TYPES if family_of(name) is None} == UNCOUNTED
    for name in GEMM_TYPES:
        assert is_gemm(name) and is_gemm(f"_MklNative{name}")
        assert family_of(f"_Fused{name}") == family_of(name)
    for name in ("Relu", "CudnnRNNParamsSize", "_FusedBatchNormEx", "MatMulish", ""):
        assert not is_gemm(name)
