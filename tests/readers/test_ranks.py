"""Other hosts and ranks of one run: their launches are added, with GPUs, ops and threads of their own."""

from __future__ import annotations

from typing import Any

from tcprobe.analysis import analyse
from tcprobe.readers.merge import merge
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import HOST_OPS, LAUNCH_CONFIGS
from tests.analysis.builders import FP32, TC, details, devices, launches, marks, table


def host_ops(*rows: tuple[str, int, int, int]) -> Table:
    """Rows of (op, calls, shortest, longest)."""
    made = [
        {"op": op, "op_type": "MatMul", "calls": calls, "sum_ns": 10 * calls, "min_ns": low, "max_ns": high}
        for op, calls, low, high in rows
    ]
    return table(HOST_OPS, made)


def rank(name: str, kernel: str, number: int | None, *more: Table, **metadata: Any) -> Profile:
    """Two GPUs, one op, one launch on each."""
    made = launches((kernel, 0, 0, 10, 5, 0), (kernel, -1, 0, 20, 7, 1)).with_columns(config_id=[0, -1], thread=[4, 5])
    configs = table(LAUNCH_CONFIGS, [{"grid": f"{len(kernel)},1,1", "block": "1,1,1"}])
    return Profile(Metadata(name, (f"{name}.file",), rank=number, gpu_used=True, **metadata)).with_tables(
        made, configs, details((f"op of {name}", "MatMul")), devices({}, {"device": 1}), marks([0], 50), *more
    )


def test_launches_of_another_rank_stand_beside() -> None:
    merged = merge(
        [rank("a", TC, 0, host_ops(("x", 1, 3, 9))), rank("b", FP32, 1, host_ops(("x", 2, 2, 8), ("y", 1, 1, 1)))]
    )
    found = merged.require("launches")
    assert found.values("device") == [0, 1, 2, 3]
    assert found.values("op_id") == [0, -1, 1, -1]
    assert found.values("config_id") == [0, -1, 1, -1]
    assert found.values("thread") == [4, 5, 10, 11]
    assert found.values("kernel") == [TC, TC, FP32, FP32]
    assert merged.require("op_details").values("op") == ["op of a", "op of b"]
    assert merged.require("devices").values("device") == [0, 1, 2, 3]
    assert len(merged.require("step_marks")) == 1, "all ranks run the same steps"
    (x, y) = merged.require("host_ops").rows()
    assert (x["calls"], x["sum_ns"], x["min_ns"], x["max_ns"], y["calls"]) == (3, 30, 2, 9, 1)
    (note,) = merged.metadata.notes
    assert note.message == "GPUs by host: rank 0: 0-1; rank 1: 2-3"
    assert [s.format for s in merged.metadata.sources] == ["a", "b"]
    assert merged.metadata.paths == ("a.file", "b.file")


def test_their_sums_are_those_of_all() -> None:
    found = analyse(merge([rank("a", TC, None, host="m"), rank("b", FP32, None, host="n")]))
    assert sum(int(v or 0) for v in found.require("kernels").values("sum_ns")) == 24
    assert found.require("iterations").values("launches") == [4]


def test_the_same_host_and_rank_is_never_added_up() -> None:
    for metadata in ({}, {"host": "m"}):
        merged = merge([rank("a", TC, 0, **metadata), rank("b", FP32, 0, **metadata)])
        assert merged.require("launches").values("kernel") == [TC, TC]
    assert len(merge([rank("a", TC, 0), rank("b", FP32, None)]).require("launches")) == 2, "b may be rank 0 as well"


def test_what_has_no_launches_is_joined_wherever_it_was_written() -> None:
    other = Profile(Metadata("b", host="n")).with_tables(host_ops(("x", 1, 1, 1)))
    merged = merge([rank("a", TC, 0, host="m"), other])
    assert len(merged.require("host_ops")) == 1
    assert merged.metadata.notes == ()
