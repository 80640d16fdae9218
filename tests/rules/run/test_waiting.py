"""What TC301 says of waiting of which nothing is recorded: input where it ends with the copy of a batch to the GPU."""

from __future__ import annotations

import pytest

from tcprobe.report.run.advice import advice_sentence
from tcprobe.rules.run.waiting import _evidence
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.tables import COPIES, HOST_EVENTS
from tests.rules.run.builders import MS, found, gap, subject, waited, waits

ORDERS = {
    "input": "Prepare batches ahead: DataLoader",
    "host": "Find what the host does then: ",
    "later": "Record later steps, and several: ",
}
KERNEL = {"before": "void conv(float*)"}


def order(gaps: list[Row], size: int | None, calls: int, steps: float = 10.0) -> str:
    """Return what to do, of steps of 100 ms of which the GPU waits 60 and copies so many bytes in so many calls."""
    run = subject(
        waiting=waits(100, 40),
        gaps=gaps,
        waits=(waited(600, "unknown", None),),
        steps=steps,
        framework="pytorch",
    )
    row: Row = {c.name: None for c in COPIES.columns}
    copied: Row = {"device": 0, "kind": "MemcpyH2D", "calls": calls, "size_bytes": size, "sum_ns": round(9 * MS)}
    event: Row = {c.name: None for c in HOST_EVENTS.columns}
    event |= {"thread": 1, "start_ns": 0, "duration_ns": 1, "name": "cudaLaunchKernel", "work": "launch"}
    tables = (Table.from_rows(COPIES, [{**row, **copied}]), Table.from_rows(HOST_EVENTS, [event]))
    vars(run)["profile"] = run.profile.with_tables(*tables)
    (item,) = [item for item in found(run) if item.kind == "feed_gpu"]
    return advice_sentence(item)


@pytest.mark.parametrize(
    ("gaps", "size", "calls", "of"),
    [
        ([gap(50, "unknown", None)] * 10, 10 << 20, 10, "input"),  # each ends with a copy of 1 MiB
        ([gap(50, "unknown", None)] * 10, 10 << 10, 10, "host"),  # 1 KiB is no batch
        ([gap(50, "unknown", None)] * 10, None, 10, "host"),  # nobody knows how much
        ([gap(40, "unknown", None), gap(60, "unknown", None, **KERNEL)], 10 << 20, 10, "host"),  # 40 of 100 ms
        ([gap(60, "unknown", None), gap(40, "unknown", None, **KERNEL)], 10 << 20, 10, "input"),
        ([], 10 << 20, 10, "host"),  # no long gap
    ],
)
def test_gaps_that_end_with_a_batch(gaps: list[Row], size: int | None, calls: int, of: str) -> None:
    assert order(gaps, size, calls).startswith(ORDERS[of])


def test_one_step_is_told_to_record_more() -> None:
    gaps = [gap(600, "unknown", None)]  # the start of the run may be in it
    assert order(gaps, 10 << 20, 10, steps=1.0).startswith(ORDERS["later"])


def test_of_waiting_that_takes_no_time_no_event_tells() -> None:
    rows: list[Row] = [{"host_op": "op", "idle_ns": idle} for idle in (0, None)]
    assert _evidence(rows) == (None, 0.0)
    assert _evidence([*rows, {"host_op": "copy", "idle_ns": 30}, {"host_op": None, "idle_ns": 10}]) == ("copy", 75.0)
