"""Bar, verdict and items of profiles made by hand, and what holds of any bar."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.screen.flow import drawn_rows, within
from tcprobe.report.run.verdict import further, verdict
from tcprobe.schema.advice import Advice, Concern, Saving
from tcprobe.schema.finding import Range
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.screen import Bar, BarRow, FirstScreen
from tcprobe.schema.statement import say
from tests.analysis import builders as b

US = 1000
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMV = (
    "void gemv2T_kernel_val<int, int, float, float, float, 128, 16, 4, 4, false, false, cublasGemvParams<float>>(float)"
)
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"


def screen(*launches: tuple[Any, ...], gpu: dict[str, Any] = b.V100) -> FirstScreen:
    found = analyse(b.profile(b.devices(gpu), b.launches(*launches))).screen
    assert found is not None
    return found


def rows(found: FirstScreen) -> dict[str, float]:
    assert found.bar is not None
    return {row.kind: row.ns for row in found.bar.rows}


def test_a_capture_divided_by_hand() -> None:
    """From 0 to 100 us: 40 on Tensor Cores, 10 off them, 20 of additions, 5 between GPUs, 25 nothing."""
    found = screen(
        (b.TC, -1, None, 0, 40 * US),
        (b.FP32, -1, None, 40 * US, 10 * US),
        (ADD, -1, None, 50 * US, 20 * US),
        (NCCL, -1, None, 95 * US, 5 * US),
    )
    assert rows(found) == pytest.approx(
        {"used": 40 * US, "off": 10 * US, "others": 20 * US, "communication": 5 * US, "idle": 25 * US}
    )
    assert found.bar is not None and found.bar.total_ns == 100 * US and found.bar.of == "capture"
    assert found.answer.word == "PARTLY" and found.answer.says.get("on_pct") == pytest.approx(80.0)


def test_what_a_profiler_says_of_its_own_recording_is_counted() -> None:
    errors = [Note("profiler-error", f"the profiler says: {text}", level="error") for text in ("no samples", "no MMAP")]
    made = analyse(b.profile(b.devices(b.V100), b.launches((b.TC, -1, None, 0, US)), notes=tuple(errors))).screen
    assert made is not None and [one for one in made.limits if one.kind in ("noted", "profiler_errors")] == [
        say("profiler_errors", errors=2)
    ]


@pytest.mark.parametrize(
    ("launches", "word"),
    [
        ([(b.TC, 0, 90), (ADD, 90, 10)], "GOOD"),
        ([(b.TC, 0, 94), (b.FP32, 94, 6)], "PARTLY"),
        ([(b.FP32, 0, 90), (ADD, 90, 10)], "NOT USED"),
        ([(b.FP32, 0, 10), (ADD, 90, 1), (ADD, 94, 1), (ADD, 99, 1)], "WAITING"),
        ([(b.FP32, 0, 10), (ADD, 98, 1), (ADD, 99, 1)], "CANNOT TELL"),  # nothing repeats: a start
        ([(ADD, 0, 10), (ADD, 99, 1)], "CANNOT TELL"),  # nothing multiplies: this is no step
        ([(b.UNKNOWN, 0, 90), (b.TC, 90, 10)], "CANNOT TELL"),  # the class of most is unknown
    ],
)
def test_the_word_of_a_capture(launches: list[tuple[str, int, int]], word: str) -> None:
    assert screen(*((name, -1, None, at * US, ns * US) for name, at, ns in launches)).answer.word == word


@pytest.mark.parametrize(
    ("last", "said"),
    [(ADD, "Every op that can use"), (b.FP32, "Nearly every op that"), (b.UNKNOWN, "Nearly every op that")],
)
def test_every_op_uses_them_only_where_no_other_product_ran_or_may_have(last: str, said: str) -> None:
    word = screen((b.TC, -1, None, 0, 97 * US), (last, -1, None, 97 * US, 3 * US)).answer
    assert word.word == "GOOD" and further(word.says).startswith(said)
    assert verdict(word.word, word.says).startswith(f"Tensor Cores: GOOD. {said[:-5]}")


def test_products_with_vectors_alone_say_nothing_of_the_step_nor_of_names() -> None:
    found = screen((GEMV, -1, None, 0, 60 * US), (ADD, -1, None, 60 * US, 40 * US))
    assert (found.answer.word, found.answer.says.kind) == ("CANNOT TELL", "no_matrices")
    assert found.answer.says.get("kinds") == ("matrix_vector", "elementwise")


def test_a_gpu_without_tensor_cores_has_no_verdict_on_them() -> None:
    p100 = {**b.V100, "name": "Tesla P100-PCIE-16GB", "compute_capability": "6.0"}
    found = screen((b.FP32, -1, None, 0, 90 * US), gpu=p100)
    assert found.answer.word == "NOT APPLICABLE" and "matmul" in rows(found)


def test_a_run_without_a_gpu_was_not_measured() -> None:
    found = analyse(Profile(b.profile(gpu_used=False).metadata)).screen
    assert found is not None and (found.answer.word, found.bar, found.items) == ("NOT MEASURED", None, ())


spans = st.lists(
    st.tuples(st.sampled_from([b.TC, b.FP32, ADD, NCCL, b.UNKNOWN]), st.integers(0, 500), st.integers(1, 90))
)


@given(spans.filter(bool))
def test_rows_add_up_and_nothing_saves_more_than_its_rows(made: list[tuple[str, int, int]]) -> None:
    found = screen(*((name, -1, None, at * US, ns * US) for name, at, ns in made))
    assert found.bar is not None
    assert sum(row.ns for row in found.bar.rows) == pytest.approx(found.bar.total_ns)
    assert all(row.ns > 0 for row in found.bar.rows)
    for item in found.items:
        drawn = [row.ns for row in found.bar.rows if row.kind in drawn_rows(item.advice)]
        assert item.saves_ns is None or 0 < item.saves_ns <= max(drawn) * (1 + 1e-9)


BAR = Bar(
    "step",
    100.0,
    (BarRow("used", 20, 20), BarRow("layout", 10, 10), BarRow("others", 40, 40, (("copy", 15), ("elementwise", 25)))),
)


@pytest.mark.parametrize(
    ("kind", "most"),
    [("fuse_chain", 40), ("change_size", 20), ("keep_layout", 15), ("larger_batch", 40), ("feed_gpu", 60)],
)
def test_an_item_saves_no_more_than_the_largest_row_that_it_draws_on(kind: Any, most: float) -> None:
    """Of 60: of changes of layout those within others alone, 15; of waiting there is no row, so nothing is known."""
    item = Advice("TC300", say(kind, work="launch"), Concern(60.0, "step", None, 60.0, 100.0))
    found = within(item, BAR)
    assert (found.saves_ns, found.concern.share_pct) == (most, most)
    assert within(found, BAR) == found


def test_a_predicted_saving_stays_within_its_row_too() -> None:
    saving = Saving(Range(10.0, 30.0, 50.0), 30.0, "step", calibrated=False)
    item = Advice("TC306", say("change_size", others=0), Concern(40.0, "kernel_time"), saving=saving)
    found = within(item, BAR).saving
    assert found is not None and (found.ns, found.pct) == (Range(10.0, 20.0, 20.0), 20.0)
