"""calls.bin as the probe writes it, and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.constants import CALLS_MAGIC, MOST_CALLS, TAKEN_BACK
from tcprobe.probe.core.journal import CallLog
from tcprobe.readers.run_folder import steps as reader
from tcprobe.readers.run_folder.steps import read_calls

HEADER = struct.pack("<8sHHI", CALLS_MAGIC, 1, 16, 0)


def record(start: int, key: int = 0, steps: int = 1, thread: int = 0) -> bytes:
    return struct.pack("<qII", start, key | thread << 24, steps)


def write(folder: Path, data: bytes) -> Path:
    path = folder / "probe" / "calls.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_what_the_probe_writes_is_read(tmp_path: Path) -> None:
    log = CallLog(str(tmp_path / "calls.bin"))
    log.add_all((3, 1), (10, 20), (1, 5))
    log.add(1, 25, 1, thread=77)
    log.take_back(30)
    log.add(2, 40, 0)
    log.flush()
    found, notes = read_calls(tmp_path / "calls.bin")
    assert found is not None and notes == ()
    assert [each.tolist() for each in (found.keys, found.start_ns, found.steps)] == [[3, 2], [10, 40], [1, 0]]


def test_each_record_takes_the_latest_call_back(tmp_path: Path) -> None:
    back = record(0, steps=TAKEN_BACK)
    path = write(tmp_path, HEADER + back + record(1, 1) + record(2, 2) + back + back + back + record(3, 3))
    found, _ = read_calls(path)
    assert found is not None
    assert found.keys.tolist() == [3]


def test_a_first_call_that_was_counted_late_stands_where_it_began(tmp_path: Path) -> None:
    records = record(10, 1) + record(30, 1) + record(20, 0) + record(40, 0)
    found, notes = read_calls(write(tmp_path, HEADER + records))
    assert found is not None and notes == ()
    assert [each.tolist() for each in (found.keys, found.start_ns)] == [[1, 0, 1, 0], [10, 20, 30, 40]]


def test_a_record_that_was_cut_off_is_none(tmp_path: Path) -> None:
    for cut in range(1, 16):
        found, notes = read_calls(write(tmp_path, HEADER + record(1) + record(2)[:cut]))
        assert found is not None and notes == ()
        assert found.start_ns.tolist() == [1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin"),
        (HEADER[:9], "does not begin"),
        (b"x" * 32, "does not begin"),
        (struct.pack("<8sHHI", CALLS_MAGIC, 2, 16, 0), "does not begin"),
        (struct.pack("<8sHHI", CALLS_MAGIC, 1, 24, 0), "does not begin"),
        (HEADER + record(1) + record(3) + record(2), "out of order"),
        (HEADER + record(2) + record(-1, 1), "out of order"),
        (HEADER + record(-1), "out of order"),
        (HEADER + record(1 << 60), "out of order"),
        (HEADER + struct.pack("<qIi", 5, 0, -1), "less than no step"),
    ],
)
def test_a_damaged_file_is_one_note(data: bytes, said: str, tmp_path: Path) -> None:
    found, (note,) = read_calls(write(tmp_path, data))
    assert found is None
    assert (note.code, said in note.message) == ("damaged-calls", True)


def test_a_missing_file_says_nothing_and_one_past_all_limits_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_calls(tmp_path / "calls.bin") == (None, ())
    assert reader.MOST_CALL_BYTES == 16 * (MOST_CALLS + 1)
    monkeypatch.setattr(reader, "MOST_CALL_BYTES", 40)
    found, (note,) = read_calls(write(tmp_path, HEADER + record(1) + record(2)))
    assert (found, note.code) == (None, "damaged-calls")


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_calls_or_one_note(tmp_path_factory: pytest.TempPathFactory, data: bytes, headed: bool) -> None:
    found, notes = read_calls(write(tmp_path_factory.mktemp("any"), (HEADER if headed else b"") + data))
    assert len(notes) == (found is None)
    assert found is None or len(found.keys) == len(found.steps) == len(found.start_ns) <= len(data) // 16
