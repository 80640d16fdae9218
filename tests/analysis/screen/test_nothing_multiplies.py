"""The verdict on kernels that multiply nothing, where counters tell how fast memory was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.analysis.flow import analyse
from tcprobe.report.run import verdict
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import Answer
from tcprobe.schema.tables import KERNEL_COUNTERS
from tests.analysis import builders as b

ADD = "matrix_addition2D(float *, float *, float *, int, int)"
THROUGHPUT = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"


def recorded(pct: float | None, kernel: str = ADD) -> Profile:
    counter = {"kernel": kernel, "metric": THROUGHPUT, "value": pct, "unit": "%", "launches": 1}
    launched = b.launches((kernel, -1, None, 0, 1000))
    return b.profile(b.devices({}), launched, b.table(KERNEL_COUNTERS, [] if pct is None else [counter]))


def judged(profile: Profile, chosen: bool = True) -> Answer:
    """Return the verdict on kernels that a user chose to look at, or on what records steps."""
    traits = frozenset({"serialises_kernels"}) if chosen else frozenset[str]()
    screen = analyse(replace(profile, traits=traits)).screen
    assert screen is not None
    return screen.answer


def said(answer: Answer) -> str:
    return verdict.verdict(answer.word, answer.says)


def test_an_addition_at_91_pct_of_the_memory_is_bound_by_it() -> None:
    assert said(judged(recorded(90.76))) == (
        "Tensor Cores: NOTHING TO GAIN. matrix_addition2D is elementwise: no matrix product. "
        "Memory bounds it: 91 % of the peak."
    )


def test_what_records_steps_may_have_missed_their_products() -> None:
    answer = judged(recorded(None), chosen=False)
    assert answer.word == "CANNOT TELL"
    assert said(answer).endswith("No matrix multiplication ran, so this is hardly a whole step: elementwise.")


@pytest.mark.parametrize("pct", [59.9, None])
def test_a_slower_one_and_one_that_was_not_measured_are_not(pct: float | None) -> None:
    assert "Memory bounds" not in said(judged(recorded(pct)))


def test_of_a_product_it_is_not_said() -> None:
    assert judged(recorded(90.0, b.FP32)).word != "NOTHING TO GAIN"
