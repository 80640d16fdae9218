"""What the summary says of costs, profiles and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gpu.summary import costs, section
from bench.gpu.summary.__main__ import write
from bench.gpu.summary.clocks import clocks
from bench.gpu.tables import CLOCKS, write_table
from tests.bench.gpu import made


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a folder of results."""
    return (made.results(tmp_path_factory.mktemp("day")) / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        # predicted 1 / 1.1 of the measured time
        "| unaligned GEMMs | nn | float16 | 1 | 9.1 | -9.1 | 100.0 |",
        "| all |  |  | 8 | 9.1 | -9.1 | 100.0 |",
        "The worst 8 with shipped constants:",
        "### pairs-torch: 2 resize pairs",
        "Ratios in the predicted range: shipped 1 of 2",
        # idle samples are none of its clocks
        "| costs/pairs-torch | 1,755 | 1,868 | 1,980 | 640 | 55 | 1 | 2 | sw_power_cap |",
        "| gan | torch | bfloat16 | kineto | 1,100 | 1,000 | 10 | 600 | 2 | 100 | 0 |",
        "| plain-train-gan-float32-good | 2.21.0 | 128 | 5,000 |",
        "Figures that contradict one another: 0",
    ],
)
def test_the_page_says(text: str, line: str) -> None:
    assert line in text


def test_pairs_outside_a_predicted_range_are_listed() -> None:
    pair = {"pair": "p", "pass": "forward", "dtype": "float16", "shape_from": "a", "shape_to": "b", "spread_pct": 1.5}
    inside, outside = ({"low": 0.3, "likely": 0.4, "high": 0.5, "inside": flag} for flag in (True, False))
    rows = [
        {**pair, "ratio": ratio, "shipped": shipped, "calibrated": calibrated}
        for ratio, shipped, calibrated in ((0.41, inside, None), (0.6, outside, None), (0.45, inside, outside))
    ]
    lines = list(costs.show({"products": [], "pairs": [{"unit": "pairs-jax", "rows": rows}], "clocks": []}, False))
    assert "Ratios in the predicted range: shipped 2 of 3, calibrated 0 of 1." in lines
    listed = [line for line in lines if line.startswith("| p |")]
    assert listed == [
        "| p | forward | float16 | a | b | 0.6 | 1.5 | 0.3-0.5 (outside) |  |",
        "| p | forward | float16 | a | b | 0.45 | 1.5 | 0.3-0.5 | 0.3-0.5 (outside) |",
    ]


def test_what_a_driver_does_not_say_of_throttling_is_unknown(tmp_path: Path) -> None:
    unit = made.made_unit(tmp_path, "costs", "pairs-torch")
    write_table(unit / "clocks.csv.gz", CLOCKS, [{"second": 1, "sm_mhz": mhz, "power_w": 70} for mhz in (600, 1500)])
    (found,) = clocks(section.about(tmp_path))
    assert (found["samples"], found["sm_mhz"], found["throttled"]) == (2, [600, 1050, 1500], None)


def test_a_violated_check_is_listed(tmp_path: Path) -> None:
    place = made.results(tmp_path)
    made.run(place, "plain-train-gan-float32-bad", exit_code=1)
    write(place)
    text = (place / "summary.md").read_text(encoding="utf-8")
    assert "| exit code | plain-train-gan-float32-bad | exit_code 1 |" in text
