"""Raw CSVs: what is written is read, and damage is named by line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.calibration.files import gpu_of, read_raw
from tcprobe.calibration.plan import Case, cases_for, dry_cases
from tcprobe.cost.measured import MEASUREMENT_COLUMNS, Measurement, csv_of, gemm_record
from tcprobe.errors import EmptyInput, MissingInput, UnreadableInput, UsageError, WrongFormat
from tcprobe.hardware import find_gpu
from tests.calibration.made import raw_csv

GPUS = [find_gpu(name) for name in ("h200-sxm", "t4")]
CASES = [case for gpu in GPUS for case in cases_for(gpu, "cublas12", "torch")[::25]] + dry_cases()[:5]
GEMM = {"gpu": "t4", "library": "cublas11", "op": "gemm", "pass": "forward", "dtype": "float16"}
GEMM |= {"m": 8, "n": 16, "k": 24, "batch": 1, "transpose_a": 0, "transpose_b": 1, "time_ns": 5000, "source": "x, y"}
CONV = {"gpu": "t4", "library": "cublas11", "op": "conv", "pass": "dgrad", "dtype": "float16", "images": 2, "height": 9}
CONV |= {"width": 9, "channels": 8, "filters": 8, "kernel": "3x3", "stride": "1x1", "padding": "SAME", "time_ns": 7000}


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=20), st.floats(1.0, 1e12))
def test_rows_of_a_plan_come_back(tmp_path_factory: pytest.TempPathFactory, cases: list[Case], ns: float) -> None:
    path = tmp_path_factory.mktemp("raw") / "raw.csv"
    path.write_text(csv_of({**case.row, "time_ns": ns, "source": 'a, "b"'} for case in cases), encoding="utf-8")
    rows = read_raw(path)
    assert [(r.gpu, r.record.dtype, r.time_ns, r.source) for r in rows] == [
        (case.row["gpu"], case.dtype, ns, 'a, "b"') for case in cases
    ]
    assert all(r.record.output_shape and None not in r.record.output_shape for r in rows)


def damaged(path: Path, first: dict[str, object], **changed: object) -> Path:
    path.write_text(csv_of([GEMM, CONV, first | changed]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (GEMM, "gpu", "t5"), (GEMM, "gpu", ""), (GEMM, "library", "cublas9"), (GEMM, "op", "sum"), (GEMM, "m", "0"),
        (GEMM, "n", "-8"), (GEMM, "k", "8.5"), (GEMM, "batch", ""), (GEMM, "m", "\u0663"), (GEMM, "dtype", ""),
        (GEMM, "time_ns", "0"), (GEMM, "time_ns", "nan"), (GEMM, "time_ns", "inf"),
        (GEMM, "time_ns", "1e-300"), (GEMM, "time_ns", "1e300"), (GEMM, "time_ns", "fast"),
        (CONV, "pass", "backward"), (CONV, "images", "x"), (CONV, "kernel", "3"), (CONV, "stride", "0x1"),
        (CONV, "padding", "round"), (CONV, "filters", ""),
    ],
)  # fmt: skip
def test_damage_is_named_by_line_and_column(tmp_path: Path, row: dict[str, object], column: str, value: str) -> None:
    with pytest.raises(WrongFormat, match=f"line 4: column '{column}' is {value!r}"):
        read_raw(damaged(tmp_path / "raw.csv", row, **{column: value}))


def test_a_line_that_was_cut(tmp_path: Path) -> None:
    path = damaged(tmp_path / "raw.csv", GEMM)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("5000") + 2], encoding="utf-8")
    with pytest.raises(WrongFormat, match="line 4: column 'source' is missing"):
        read_raw(path)
    path.write_text(text.rstrip("\n") + ",1,2\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="line 4: column 'source' is followed by more values"):
        read_raw(path)


def test_a_column_that_lacks(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(",".join(c for c in MEASUREMENT_COLUMNS if c != "kernel") + "\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="line 1: no column 'kernel'"):
        read_raw(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    with pytest.raises(MissingInput):
        read_raw(path)
    with pytest.raises(UnreadableInput):
        read_raw(tmp_path)
    for text in ("", "\n \n", csv_of([])):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(EmptyInput):
            read_raw(path)
    path.write_bytes(b"\xff\xfe\x00gpu")
    with pytest.raises(WrongFormat, match="not a text file"):
        read_raw(path)
    path.write_text(csv_of([GEMM]) + "a\0b\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="line 3"):
        read_raw(path)


def test_whose_rows_are_fitted(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    record = gemm_record(8, 8, 8, "float16")
    h200, t4, cpu = (Measurement(gpu, "cublas12", record, 1.0) for gpu in ("h200-sxm", "t4", "cpu"))
    assert gpu_of([t4, t4], path, None).id == "t4"
    assert gpu_of([t4, cpu], path, None).id == "t4"
    assert gpu_of([t4, h200], path, "Tesla T4").id == "t4"
    with pytest.raises(UsageError, match="measurements of h200-sxm, t4"):
        gpu_of([t4, h200], path, None)
    with pytest.raises(UsageError, match="none of a100-sxm-40"):
        gpu_of([t4], path, "a100-sxm-40")
    with pytest.raises(WrongFormat, match="times of a CPU"):
        gpu_of([cpu], path, None)


def test_a_made_file_is_whole(tmp_path: Path) -> None:
    rows = read_raw(raw_csv(tmp_path / "raw.csv", GPUS[1], levels=1))
    assert len(rows) > 50
    assert {row.gpu for row in rows} == {"t4"}
