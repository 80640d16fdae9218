"""What merge takes from each source, column by column."""

from __future__ import annotations

from typing import Any

from tcprobe.readers.merge import fill, merge
from tcprobe.schema.columns import Table, TableSpec
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.tables import DEVICES, HOST_OPS, KERNELS, TABLES
from tests.analysis.builders import TC, launches, marks, table

NAMED = {"device": 0, "tensor_cores": "unknown", "state": "active"}


def source(name: str, *tables: Table, **metadata: Any) -> Profile:
    return Profile(Metadata(name, (f"{name}.file",), **metadata)).with_tables(*tables)


def devices(*rows: dict[str, Any]) -> Table:
    return table(DEVICES, [{**NAMED, **row} for row in rows])


def kernels(*rows: dict[str, Any]) -> Table:
    shared = {"device": 0, "kernel": TC, "uses_tc": "yes", "evidence": "e"}
    return table(KERNELS, [{**shared, **row} for row in rows])


def test_a_table_comes_whole_from_the_richest_that_has_rows() -> None:
    first, second = kernels({"calls": 3}), kernels({"calls": 5}, {"kernel": "other", "calls": 7})
    merged = merge([source("a", first), source("b", second)])
    assert merged.require("kernels").values("calls") == [3], "nothing is added up, no row is added"
    empty = kernels()
    assert merge([source("a", empty), source("b", second)]).require("kernels").values("calls") == [5, 7]


def test_a_column_that_is_not_known_is_filled_by_key() -> None:
    ours = kernels({"calls": 3}, {"kernel": "other", "op": "x", "calls": 4}, {"kernel": "alone", "calls": 1})
    theirs = kernels({"kernel": "other", "op": "x", "registers": 40, "calls": 9}, {"registers": 32, "calls": 9})
    merged = merge([source("a", ours), source("b", theirs)])
    found = merged.require("kernels")
    assert found.values("registers") == [32, 40, None]
    assert found.values("calls") == [3, 4, 1]
    a, b = merged.metadata.sources
    assert (a.tables, b.tables, b.columns) == (("kernels",), (), {"kernels": ("registers",)})
    assert merged.metadata.source_of("kernels", "registers") == "b"
    assert merged.metadata.source_of("kernels", "calls") == "a"


def test_a_key_that_occurs_twice_names_no_row() -> None:
    ours = kernels({"calls": 3}, {"calls": 4}, {"kernel": "x"})
    found, columns = fill(ours, kernels({"registers": 32}, {"kernel": "x", "registers": 8}))
    assert (found.values("registers"), columns) == ([None, None, 8], ("registers",))
    found, columns = fill(ours.take(ours.numbers("calls") == 3), kernels({"registers": 32}, {"registers": 33}))
    assert (found.values("registers"), columns) == ([None], ())


def test_what_another_source_cannot_add_is_said() -> None:
    merged = merge([source("a", devices({"name": "T4"})), source("b", devices({"name": "V100"}))])
    assert merged.require("devices").values("name") == ["T4"]
    assert merged.metadata.sources[1].left_out == {"devices": "a gives it"}


def test_tables_of_a_capture_come_from_the_one_that_has_launches() -> None:
    host = source("a", marks([0, 10], 5), table(HOST_OPS, []), window=Window(0, 1, 0, 20, "a"))
    gpu = source("b", launches((TC, -1, None, 5, 10)), window=Window(3, 4, 7, 9, "b"))
    merged = merge([host, gpu])
    assert merged.table("step_marks") is None
    assert len(merged.require("launches")) == 1
    assert merged.metadata.window.basis == "b"
    assert "another capture" in merged.metadata.sources[0].left_out["step_marks"]


def test_metadata_reasons_and_notes() -> None:
    first = source("a", host="h", notes=(Note("x", "1"),)).with_absent(ops="no ops in a", launches="none in a")
    second = source("b", kernels({}), host="g", profiler="p", gpu_used=True, notes=(Note("y", "2"),))
    merged = merge([first, second.with_absent(ops="none in b", ranges="none in b")])
    known = merged.metadata
    assert (known.format, known.host, known.profiler, known.gpu_used) == ("a", "h", "p", True)
    assert known.paths == ("a.file", "b.file")
    assert [n.code for n in known.notes] == ["x", "y"]
    assert merged.absent == {"ops": "no ops in a", "launches": "none in a", "ranges": "none in b"}


def test_keys_are_columns_and_captures_are_told() -> None:
    def names(spec: TableSpec) -> set[str]:
        return {column.name for column in spec.columns}

    assert all(set(spec.key) <= names(spec) for spec in TABLES.values())
    assert {name for name, spec in TABLES.items() if {"start_ns", "op_id"} & names(spec)} - {
        "steps", "iterations", "gaps", "stretches", "units",
    } <= {name for name, spec in TABLES.items() if spec.capture}  # fmt: skip
