"""Values as a person reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe import formatting as f
from tcprobe.formatting import about, range_text
from tcprobe.schema.finding import Range
from tcprobe.visible import columns, visible


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"), (0, "0 ns"), (1, "1 ns"), (999, "999 ns"), (1000, "1.00 us"), (1234, "1.23 us"),
        (55_000_000, "55.0 ms"), (812_500_000, "812 ms"), (17_090_000_000, "17.1 s"), (999_600_000, "1.00 s"),
        (86_461_724_964, "86.5 s"), (12_345_678_901_234, "12346 s"), (2.5, "2.5 ns"),
    ],
)  # fmt: skip
def test_duration(ns: float | None, text: str) -> None:
    assert f.duration(ns) == text


SIZES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@given(st.integers(0, 10**18))
def test_a_duration_reads_back_within_half_a_percent(ns: int) -> None:
    number, unit = f.duration(ns).split()
    assert float(number) * SIZES[unit] == pytest.approx(ns, rel=0.0051, abs=0.5)
    assert float(number) < 1000 or unit == "s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0.0 %"), (0.001, "<0.1 %"), (0.05, "0.1 %"), (35.4, "35.4 %"), (99.97, ">99.9 %"),
        (100.0, "100.0 %"),
    ],
)  # fmt: skip
def test_percent_never_rounds_to_none_or_all(value: float | None, text: str) -> None:
    assert f.percent(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0, 99.97, "0.0 to >99.9 %"), (0.01, 31.2, "<0.1 to 31.2 %"),
        (30.0, 38.0, "30.0-38.0 %"), (30.0, 30.01, "30.0 %"), (None, 5.0, "5.0 %"), (5.0, None, "5.0 %"),
        (None, None, "-"),
    ],
)  # fmt: skip
def test_a_range_shows_both_ends_where_they_differ(low: float | None, high: float | None, text: str) -> None:
    assert f.percents(low, high) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("gpu_busy_pct", 90.909, "90.9 %"), ("step_time_ns", 1.01e8, "101 ms"), ("memory_bytes", 2**30, "1.00 GiB"),
        ("kernels", 1234567.0, "1,234,567"), ("flops_per_step", 26_344_681_920.0, "26.3 GFLOP"),
        ("loss", 0.123456, "0.1235"), ("gpu_busy_pct", None, "-"),
    ],
)  # fmt: skip
def test_a_figure_takes_its_unit_from_its_name(metric: str, value: float | None, text: str) -> None:
    assert f.metric_text(metric, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(2 * 4096 * 100 * 3136, "2.57 GFLOP"), (12, "12 FLOP"), (0, "0 FLOP"), (3.2e15, "3.20 PFLOP"), (None, "-")],
)
def test_flops(value: float | None, text: str) -> None:
    assert f.flops(value) == text


@given(st.text(min_size=1).map(visible), st.integers(5, 60))
def test_shortening_keeps_both_ends_and_the_width(text: str, width: int) -> None:
    short = f.shorten(text, width)
    assert columns(short) <= width
    assert short == text or any(
        text.startswith(short[:i]) and text.endswith(short[i + 2 :]) and short[i : i + 2] == ".." and i
        for i in range(len(short))
    )


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert f.shorten("\u5c42" * 10, 11) == "\u5c42\u5c42..\u5c42\u5c42"
    assert f.shorten("e\u0301" * 6, 6) == "e\u0301" * 6
    assert f.wrapped("\u5c42\u5c42 \u5c42 ab", 6) == ["\u5c42\u5c42", "\u5c42 ab"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[[4096,100],[100,3136]] -> [4096,3136]", "4096x100, 100x3136 -> 4096x3136"),
        ("[[null,8]]", "?x8"), ("[]", "scalar"), ("[[],[3]]", "scalar, 3"), ("[null]", "?"),
        ("f32[4,8] x f32[8]", "f32[4,8] x f32[8]"), ("7", "7"), (None, "-"),
        ("[[64, 128], [128, 10]] -> null", "64x128, 128x10 -> -"),
    ],
)  # fmt: skip
def test_shapes(text: str | None, shown: str) -> None:
    assert f.shapes(text) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_never_turns_into_another(value: float) -> None:
    shown = f.full_number(value, 10)
    assert float(shown) == pytest.approx(value, rel=1e-9, abs=0.5 if abs(value) > 1e9 else 0)
    assert re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", shown)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([60.4, 20.4, 8.1, 11.1], ["61 %", "20 %", "8 %", "11 %"]),  # 60 + 20 + 8 + 11 = 99
        ([33.5, 33.5, 33.0], ["34 %", "33 %", "33 %"]),  # 34 + 34 + 33 = 101
        ([99.6, 0.4], [">99 %", "<1 %"]),
        ([100.0], ["100 %"]),
        ([], []),
    ],
)
def test_whole_shares_add_up(values: list[float], said: list[str]) -> None:
    assert [f.whole_text(*one) for one in zip(values, f.whole_numbers(values), strict=True)] == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (400_000, 600_000, "0.4-0.6 ms"),
        (12_000_000, 14_000_000, "12-14 ms"),
        (90_000, 94_000, "90-94 us"),
        (1_230_000, 1_240_000, "1.2 ms"),
        (0, 5_000, "up to 5 us"),
        (-2_000, 5_000, "up to 5 us"),
        (2_500_000_000, 3_000_000_000, "2.5-3 s"),
        (3, 4, "3-4 ns"),
        (900, 1_300_000, "up to 1.3 ms"),
        (30_000_000, 150_000_000, "30-150 ms"),
        (120, 990, "120-990 ns"),
    ],
)
def test_a_range_of_time_in_one_unit(low: float, high: float, said: str) -> None:
    assert range_text(Range(low, (low + high) / 2, high)) == said


@pytest.mark.parametrize(
    ("low", "mid", "high", "said"),
    [
        (400e3, 500e3, 600e3, "0.4-0.6 ms"),
        (0, 1e6, 4e6, "up to 4 ms (likely 1 ms)"),
        (-1e6, 0, 4e6, "up to 4 ms (likely nothing)"),
        (160e3, 350e3, 690e3, "0.16-0.69 ms (likely 0.35 ms)"),
        (0, 800, 4e6, "up to 4 ms (likely 800 ns)"),
    ],
)
def test_a_wide_range_says_what_is_likely(low: float, mid: float, high: float, said: str) -> None:
    assert about(Range(low, mid, high)) == said


def test_a_name_without_its_namespace_begins_with_no_colon() -> None:
    """A line that begins with two commands some CI machines, and is escaped when it is printed."""
    name = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>(float*, int)"
    assert f.shortened(name, 24) == "softmax_warp_forward"
    assert (
        f.shortened("at::native::<unnamed>::norm_kernel<float, float, (bool)0>(int)", 24) == "at::native::norm_kernel"
    )
