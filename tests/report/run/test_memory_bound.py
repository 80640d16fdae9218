"""What a report says of kernels that multiply nothing, where counters tell how fast memory was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.analysis.flow import analyse
from tcprobe.report.run.headline import answer
from tcprobe.schema.tables import KERNEL_COUNTERS
from tests.analysis import builders as b

ADD = "matrix_addition2D(float *, float *, float *, int, int)"
THROUGHPUT = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"


def answered(pct: float | None, kernel: str = ADD) -> str:
    counter = {"kernel": kernel, "metric": THROUGHPUT, "value": pct, "unit": "%", "launches": 1}
    launched = b.launches((kernel, -1, None, 0, 1000))
    made = b.profile(b.devices({}), launched, b.table(KERNEL_COUNTERS, [] if pct is None else [counter]))
    return " ".join(answer(analyse(made)))


def test_an_addition_at_91_pct_of_the_memory_is_bound_by_it() -> None:
    said = answered(90.76)
    assert "Tensor Cores have nothing to gain in them, and how well training uses them is not told." in said
    assert "Memory bounds them (90.8 % of its peak throughput)" in said


def test_of_kernels_that_a_user_chose_nothing_more_is_to_be_told() -> None:
    made = b.profile(b.devices({}), b.launches((ADD, -1, None, 0, 1000)))
    lines = answer(analyse(replace(made, traits=frozenset({"serialises_kernels"}))))
    assert (
        "No kernel that was recorded multiplies matrices (elementwise): Tensor Cores have nothing to gain in them."
        in lines
    )


@pytest.mark.parametrize("pct", [59.9, None])
def test_a_slower_one_and_one_that_was_not_measured_are_not(pct: float | None) -> None:
    assert "Memory bounds" not in answered(pct)


def test_a_product_is_not_spoken_of() -> None:
    assert "Memory bounds" not in answered(90.0, b.FP32)
