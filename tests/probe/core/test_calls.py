"""The log of calls: what stands in calls.bin, and when."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

import pytest

from tcprobe.probe.core import journal
from tcprobe.probe.core.journal import CallLog
from tests.probe.core.test_ranges import run

HEADER = b"tcprobe\0" + bytes([1, 0, 16, 0]) + bytes(4)


def rows(path: Path) -> list[tuple[int, int, int, int]]:
    """Return start, key, thread and steps of each record."""
    data = path.read_bytes()
    assert data[:16] == HEADER
    found = struct.iter_unpack("<qII", data[16:])
    return [(start, what & 0xFFFFFF, what >> 24, steps) for start, what, steps in found]


def test_calls_are_appended_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "calls.bin"
    log = CallLog(str(path))
    log.flush()
    assert rows(path) == []
    log.add_all((0, 1), (100, 200), (1, 5))
    log.add(70_000, 300, 1, thread=12345)
    log.flush()
    log.take_back(400)
    log.add(1, 500, 0, thread=99)
    log.flush()
    log.flush()
    assert rows(path) == [(100, 0, 0, 1), (200, 1, 0, 5), (300, 70_000, 1, 1), (400, 0, 0, 2**31 - 1), (500, 1, 2, 0)]
    assert (log.kept, log.lost) == (5, 0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_threads_past_the_last_number_share_it(tmp_path: Path) -> None:
    log = CallLog(str(tmp_path / "calls.bin"))
    for thread in range(1, 400):
        log.add(0, thread, 1, thread)
    log.flush()
    assert [row[2] for row in rows(tmp_path / "calls.bin")] == [*range(1, 255), *[255] * 145]


def test_a_full_file_counts_what_it_does_not_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_CALLS", 5)
    log = CallLog(str(tmp_path / "calls.bin"))
    log.add_all((0, 1, 2), (1, 2, 3), (1, 1, 1))
    log.add_all((3, 4, 5, 6), (4, 5, 6, 7), (1, 1, 1, 1))
    log.take_back(8)
    log.flush()
    assert [row[1] for row in rows(tmp_path / "calls.bin")] == [0, 1, 2, 3, 4]
    assert (log.kept, log.lost) == (5, 3)


def test_what_could_not_be_written_is_written_later_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "calls.bin", os.write
    log = CallLog(str(path))
    log.add(0, 1, 1)
    log.flush()
    log.add_all((1, 2), (2, 3), (1, 1))

    def full(file: int, data: bytes) -> int:
        """Take 20 bytes, a record and a quarter of the next, and then no more."""
        if len(data) < 32:
            raise OSError(28, "No space left on device")
        return write(file, data[:20])

    monkeypatch.setattr(os, "write", full)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            log.flush()
        assert [row[1] for row in rows(path)] == [0]
    monkeypatch.setattr(os, "write", write)
    log.flush()
    assert [row[1] for row in rows(path)] == [0, 1, 2]


def test_a_file_that_was_removed_is_not_begun_anew(tmp_path: Path) -> None:
    """Its first calls are gone, and without them nothing tells where a step begins."""
    path = tmp_path / "calls.bin"
    log = CallLog(str(path))
    log.flush()
    path.unlink()
    log.add(0, 1, 1)
    with pytest.raises(FileNotFoundError):
        log.flush()
    assert not path.exists()


def test_no_call_is_lost_between_the_thread_that_adds_and_the_one_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "calls.bin"
    log, done = CallLog(str(path)), threading.Event()

    def work() -> None:
        while not done.is_set():
            log.flush()

    writer = threading.Thread(target=work)
    writer.start()
    for call in range(20_000):
        log.add(call, call, 1)
    done.set()
    writer.join()
    log.flush()
    assert [row[1] for row in rows(path)] == list(range(20_000))


def test_who_takes_the_steps_over_is_kept(tmp_path: Path) -> None:
    """The main thread trains on where the first one is gone."""
    script = """
first = threading.Thread(target=train, args=(9, "d")); first.start(); first.join()
train(5, "d")
"""
    code, _ = run(tmp_path, script, {}, window=("none",))
    found = rows(tmp_path / "probe" / "calls.bin")
    assert (code, [row[1:] for row in found]) == (0, [(0, 0, 1)] * 9 + [(1, 2, 2**31 - 2)] + [(0, 0, 1)] * 5)
