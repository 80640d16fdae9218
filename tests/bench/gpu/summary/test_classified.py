"""What names say against what counters prove, of single launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gpu.summary.classified import Case, Kernel, Outcome, PrecisionOutcome, cases_of, kernels_of
from bench.gpu.tables import CASES, read_table, write_table
from tests.bench.gpu.made import KERNELS, MANGLED, NVJET, OLD, RELU, SGEMM, TRITON, Row, case, launch

H200 = (9, 0)


def judged(folder: Path, cases: list[Row], launches: list[Row], names: tuple[str, ...] = KERNELS) -> list[Kernel]:
    """Return the kernels of a table of launches."""
    unit = folder / "classification" / "ncu-torch"
    unit.mkdir(parents=True)
    write_table(unit / "cases.csv.gz", CASES, cases)
    write_table(unit / "kernels.csv.gz", names, launches)
    return kernels_of(unit / "kernels.csv.gz", {r["case"]: r for r in read_table(unit / "cases.csv.gz")}, H200)


@pytest.mark.parametrize(
    ("dtype", "kernel", "counted", "outcome", "precision"),
    [
        ("float16", NVJET, "fp16", "agreement", "agreement"),
        ("float16", NVJET, None, "contradiction", "agreement"),
        ("float16", SGEMM, "fp16", "contradiction", "contradiction"),
        ("float16", SGEMM, None, "agreement", "wider"),
        ("bfloat16", NVJET, "bf16", "agreement", "contradiction"),
        ("float32", SGEMM, None, "agreement", "agreement"),
        ("tf32", SGEMM, None, "agreement", "agreement"),
        ("bfloat16", TRITON, "bf16", "unknown", "untold"),
        ("float16", RELU, None, "agreement", "untested"),
    ],
)
def test_a_launch_is_judged(
    tmp_path: Path, dtype: str, kernel: str, counted: str | None, outcome: Outcome, precision: PrecisionOutcome
) -> None:
    (found,) = judged(tmp_path, [case("c", dtype, 1)], [launch("c", kernel, counted)])
    assert (found.outcome, found.precision) == (outcome, precision)


def test_no_counter_proves_nothing_and_a_dtype_stands_for_counters(tmp_path: Path) -> None:
    bare = [{k: v for k, v in launch("c", NVJET, None).items() if not k.startswith("sm__")}]
    (found,) = judged(tmp_path, [case("c", "bfloat16", 1)], bare)
    assert (found.outcome, found.counted) == ("unproved", None)
    assert (found.expected, found.precision) == ("bf16", "contradiction")


def test_launches_of_one_configuration_are_one_row_unless_counters_differ(tmp_path: Path) -> None:
    launches = [launch("c", NVJET, "fp16"), launch("c", NVJET, "fp16"), launch("c", NVJET, None)]
    found = judged(tmp_path, [case("c", "float16", 1)], launches)
    assert [(k.launches, k.duration_ns, k.outcome) for k in found] == [
        (2, 102400.0, "agreement"),
        (1, 51200.0, "contradiction"),
    ]


def test_a_mangled_name_counts_where_it_tells_something_else(tmp_path: Path) -> None:
    same, other = launch("c", RELU, None, 3.7, MANGLED), launch("d", NVJET, "fp16", mangled="_Z3foov")
    found = judged(tmp_path, [case("c", "float16", None, "elementwise"), case("d", "float16", 1)], [same, other])
    assert [(k.spelling, k.kernel, k.outcome) for k in found] == [
        ("demangled", RELU, "agreement"),
        ("demangled", NVJET, "agreement"),
        ("mangled", "_Z3foov", "unknown"),
    ]


def test_a_case_runs_on_tensor_cores_if_one_of_its_kernels_does(tmp_path: Path) -> None:
    cases = [case("a", "float16", 0), case("b", "float32", 1), case("c", "float8_e4m3fn", 0), case("d", "float16", 1)]
    launches = [
        launch("a", RELU, None),
        launch("a", OLD, "fp16"),
        launch("b", SGEMM, None),
        launch("c", OLD, "fp8"),
        launch("d", SGEMM, None),
    ]
    kernels = judged(tmp_path, cases, launches)
    rows = [{k: str(v) for k, v in row.items()} for row in cases]
    found: list[Case] = list(cases_of(rows, kernels, "classification/ncu-torch", H200))
    assert [(c.case, c.uses_tc, c.aligned, c.foretold) for c in found] == [
        ("a", "yes", False, "none"),
        ("b", "no", True, "tf32"),
        ("c", "yes", False, "shape_required"),
        ("d", "no", True, "none"),
    ]
