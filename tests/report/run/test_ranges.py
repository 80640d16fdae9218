"""Kernel time by range, as a report shows it."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.report import checked
from tcprobe.report.run import views
from tcprobe.report.run.tables import view_section
from tests.report.builders import gpu_profile, rendered, run, table, texts

ZEROS = {"launches": 1, "union_ns": 1, "tc_ns": 0, "unknown_ns": 0}
ROWS: list[dict[str, Any]] = [
    {**ZEROS, "name": f"r{i}", "domain": "D" if i % 2 else None, "bucket": "range", "sum_ns": 100 - i}
    for i in range(20)
]
LOST: list[dict[str, Any]] = [
    {**ZEROS, "bucket": bucket, "sum_ns": 1} for bucket in ("no launch record", "no enclosing range")
]


def test_what_is_in_no_range_is_always_shown() -> None:
    profile = gpu_profile().with_tables(table("range_kernels", *ROWS, *LOST))
    found = view_section(profile, views.RANGE_VIEW, 10)
    assert found is not None
    names = [row[0] for row in texts(found)]
    assert names == [
        *(f"D:r{i}" if i % 2 else f"r{i}" for i in range(10)),
        "(no launch record)",
        "(no enclosing range)",
    ]
    assert "10 more" in found.notes[0]


def test_the_section_is_there_only_with_the_table() -> None:
    profile = gpu_profile()
    assert "NVTX range" not in rendered("text", run(profile))
    profile = profile.with_tables(table("range_kernels", *ROWS))
    assert "Kernel time by NVTX range" in rendered("text", run(profile))
    assert rendered("csv", run(profile, by=("range",))).startswith("domain,name,bucket,kind,calls")


@pytest.mark.parametrize(("text", "said"), [("(a+)+b", "take it forever"), ("(a", "no regular expression")])
def test_patterns_that_fail_are_errors(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked("--step-range", text, "as in x")
