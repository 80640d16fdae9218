"""Nsight Compute's own reports beside what `ncu --csv --page raw` prints of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcprobe.errors import EmptyInput, WrongFormat
from tcprobe.readers.ncu import profile
from tcprobe.readers.open import open_profile
from tests.support import shared

REPORTS = ("mlp_t4", "mlp_t4_v2", "cutlass_int8_a100")


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_holds_what_its_csv_does(name: str) -> None:
    pytest.importorskip("ncu_report", reason="NVIDIA's ncu-report is not installed")
    folder = shared("samples") / "ncu"
    report, sheet = (open_profile(folder / f"{name}.{ending}") for ending in ("ncu-rep", "raw.csv"))
    for table in ("kernels", "devices"):
        ours, theirs = report.require(table), sheet.require(table)
        assert [
            c for c in ("kernel", "name", "grid", "block") if c in ours and ours.values(c) != theirs.values(c)
        ] == []
    counters, printed = report.require("kernel_counters"), sheet.require("kernel_counters")
    key = ("kernel", "grid", "block", "metric")
    mine = dict(zip(zip(*map(counters.values, key), strict=True), counters.values("value"), strict=True))
    shown = dict(zip(zip(*map(printed.values, key), strict=True), printed.values("value"), strict=True))
    assert mine.keys() == shown.keys()
    pairs = np.array([(mine[one], shown[one]) for one in shown], np.float64)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=2e-6, atol=0.006)  # as it prints them


def test_a_damaged_report_is_one_clear_error(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report", reason="NVIDIA's ncu-report is not installed")
    (tmp_path / "a.ncu-rep").write_bytes(b"NVR\0\2\0" + b"\xff" * 100)
    with pytest.raises(EmptyInput, match="no launch that ncu-report reads: it is damaged") as error:
        open_profile(tmp_path / "a.ncu-rep")
    assert "ncu --import a.ncu-rep --csv --page raw > a.csv" in str(error.value.hint)


def test_without_the_package_it_says_how_to_have_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "reads_reports", lambda: False)
    (tmp_path / "a.ncu-rep").write_bytes(b"NVR\0\2")
    with pytest.raises(WrongFormat, match="Nsight Compute's own report") as error:
        open_profile(tmp_path)
    assert "pip install 'tcprobe[ncu]', or export it: ncu --import a.ncu-rep" in str(error.value.hint)
