"""Samples of `nvidia-smi`: each driver's field, what a board does not say, a line that was cut off."""

from __future__ import annotations

from datetime import datetime

from bench.gpu.costs.clocks import FIELDS, THROTTLE, rows_of

BEGAN = datetime(2026, 8, 25, 10, 0, 0)
SAID = """\
2026/08/25 10:00:00.512, 345, 2619, 76.42, 31, 0x0000000000000001
2026/08/25 10:00:01.513, 1980, 2619, 698.11, 52, 0x0000000000000004
2026/08/25 10:00:02.514, 1410, 2619, [N/A], 83, 0x0000000000000060
2026/08/25 10:00:03.515, 1980, [Not Supported], 412.00, 60, 0x0000000000000000
2026/08/25 10:00:04.516, 1980, 2619, 412.00, 60, [N/A]
2026/08/25 10:00:05.516, 1980, 26"""


def test_samples_are_read() -> None:
    rows = rows_of(SAID, ("timestamp", *FIELDS, THROTTLE[0]), BEGAN)
    assert rows[0] == {
        "second": "0.5", "sm_mhz": "345", "memory_mhz": "2619", "power_w": "76.42", "temperature_c": "31",
        "throttle": "gpu_idle",
    }  # fmt: skip
    assert [row["second"] for row in rows] == ["0.5", "1.5", "2.5", "3.5", "4.5"]
    reasons = ["gpu_idle", "sw_power_cap", "sw_thermal_slowdown hw_thermal_slowdown", "none", None]
    assert [row["throttle"] for row in rows] == reasons
    assert (rows[2]["power_w"], rows[3]["memory_mhz"]) == (None, None)


def test_a_driver_without_reasons_says_the_rest() -> None:
    (row,) = rows_of(
        "2026/08/25 10:00:01.000, 1530, 877, 41.10, 35\nNVIDIA-SMI has failed\n", ("timestamp", *FIELDS), BEGAN
    )
    assert (row["sm_mhz"], row["throttle"]) == ("1530", None)
    assert rows_of("Failed to initialize NVML: Driver/library version mismatch\n", ("timestamp", *FIELDS), BEGAN) == []


def test_a_new_reason_is_not_lost() -> None:
    (row,) = rows_of("2026/08/25 10:00:01.000, 1, 2, 3, 4, 0x204\n", ("timestamp", *FIELDS, THROTTLE[1]), BEGAN)
    assert row["throttle"] == "sw_power_cap 0x200"
