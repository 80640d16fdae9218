"""Databases that are cut off, written, locked or made to harm: one error each, and nothing left beside them."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, InputError, TcprobeError, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.readers.nsys import database
from tcprobe.readers.nsys.opening import open_database
from tcprobe.readers.open import open_profile
from tests.readers.nsys.made import small


def made(folder: Path, *sql: str) -> Path:
    """Write the small recording, then change it."""
    path = small().write(folder / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        for one in sql:
            connection.execute(one)
    return path


def refused(path: Path) -> TcprobeError:
    with pytest.raises(TcprobeError) as caught:
        open_profile(path)
    assert caught.value.exit_code == 2 and "\n" not in caught.value.message
    return caught.value


def test_nothing_changes_and_nothing_appears(tmp_path: Path) -> None:
    """As root a folder without write permission is written to all the same: that nothing appears proves more."""
    path = made(tmp_path)
    before = path.read_bytes()
    tmp_path.chmod(0o555)
    path.chmod(0o444)
    open_profile(path)
    open_profile(tmp_path)
    tmp_path.chmod(0o755)
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"] and path.read_bytes() == before


def test_a_log_that_is_empty_is_read_without_touching_it(tmp_path: Path) -> None:
    path = made(tmp_path, "PRAGMA journal_mode=WAL")
    (tmp_path / "a.sqlite-wal").write_bytes(b"")
    assert path.read_bytes()[18:20] == b"\x02\x02"
    assert len(open_profile(path).require("launches")) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.sqlite", "a.sqlite-wal"]


@pytest.mark.parametrize(("ending", "held"), [("-wal", b"x"), ("-journal", bytes.fromhex("d9d505f920a163d7"))])
def test_changes_beside_it_are_refused(tmp_path: Path, ending: str, held: bytes) -> None:
    path = made(tmp_path)
    Path(f"{path}{ending}").write_bytes(held)
    assert isinstance(refused(path), UnreadableInput)


def test_a_journal_that_is_done_with_does_not_matter(tmp_path: Path) -> None:
    path = made(tmp_path)
    Path(f"{path}-journal").write_bytes(bytes(28))
    assert len(open_profile(path).require("launches")) == 4


def test_one_that_is_being_written_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert "is being written" in refused(path).message
        writer.execute("ROLLBACK")


@pytest.mark.parametrize("size", [1, 99, 100, 4096, 10_000, -4096, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, size: int) -> None:
    path = made(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    assert isinstance(refused(path), WrongFormat)


def test_an_empty_file_and_a_database_of_another_kind_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    empty.write_bytes(b"")
    assert isinstance(refused(empty), EmptyInput)
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    assert "SQLite" in refused(other).message and database.finds(tmp_path) == []


def test_every_damaged_page_is_an_error_or_read(tmp_path: Path) -> None:
    """Pages of noise, one at a time: SQLite notices some, of others only values are odd; nothing crashes."""
    path = made(tmp_path)
    whole = path.read_bytes()
    refusals = 0
    for page in range(len(whole) // 4096):
        for fill in (b"\0", b"\xff", b"\x05"):
            path.write_bytes(whole[: page * 4096] + fill * 4096 + whole[(page + 1) * 4096 :])
            try:
                database.read([path])
            except InputError:
                refusals += 1
    assert refusals > len(whole) // 4096


VIEW = "CREATE VIEW {0} AS SELECT * FROM moved"


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds", "TARGET_INFO_GPU"])
def test_a_view_in_place_of_a_table_is_never_run(tmp_path: Path, table: str) -> None:
    path = made(tmp_path, f"ALTER TABLE {table} RENAME TO moved", VIEW.format(table))
    assert "is a view" in refused(path).message


def test_a_view_of_another_name_does_not_matter(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT n FROM n"
    path = made(tmp_path, f"CREATE VIEW mine AS {endless}")
    assert len(open_profile(path).require("launches")) == 4


def test_a_table_made_of_an_expression_has_no_such_column(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, deviceId INT, end AS (hex(zeroblob(1000000000))))",
    )
    assert isinstance(refused(path), UnsupportedVersion)


def spoiled(folder: Path, column: str, value: object) -> Path:
    path = made(folder, f"CREATE TABLE copied AS SELECT * FROM {TABLE}", f"DROP TABLE {TABLE}")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"ALTER TABLE copied RENAME TO {TABLE}")
        connection.execute(f"UPDATE {TABLE} SET [{column}] = ? WHERE _rowid_ = 2", (value,))
    return path


TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize("column", ["start", "end", "deviceId", "correlationId", "gridX", "demangledName"])
def test_text_where_numbers_stand_is_an_error(tmp_path: Path, column: str) -> None:
    assert "no whole number" in refused(spoiled(tmp_path, column, "many")).message


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((name, value) for name in ("start", "end") for value in (None, 2**63 - 1, -(2**63))),
        *(("end", -5), ("deviceId", None), ("deviceId", -1), ("deviceId", 2**40)),
    ],
)
def test_a_kernel_that_cannot_be_is_left_out_and_counted(tmp_path: Path, column: str, value: int | None) -> None:
    profile = open_profile(spoiled(tmp_path, column, value))
    assert len(profile.require("launches")) == 3
    assert [note.message[:2] for note in profile.metadata.notes if note.code == "gpu-events-odd"] == ["1 "]


@pytest.mark.parametrize(
    ("column", "value"),
    [("gridX", None), ("gridX", -1), ("blockZ", 2**62), ("streamId", None), ("registersPerThread", -(2**63))],
)
def test_a_figure_that_cannot_be_is_not_known(tmp_path: Path, column: str, value: int | None) -> None:
    profile = open_profile(spoiled(tmp_path, column, value))
    config = int(profile.require("launches").numbers("config_id")[1])
    row = list(profile.require("launch_configs").rows())[config]
    assert row["grid" if column == "gridX" else "block"] is None or column in ("streamId", "registersPerThread")
    assert row["registers"] == (None if column == "registersPerThread" else 32)
    assert int(profile.require("launches").numbers("stream")[1]) == (-1 if column == "streamId" else 7)


def loop(connection: sqlite3.Connection) -> None:
    connection.execute(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT max(n) FROM n"
    ).fetchone()


def write(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM StringIds")


@pytest.mark.parametrize(("does", "said"), [(loop, "more steps"), (write, "readonly")])
def test_the_connection_neither_works_for_ever_nor_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: Callable[[sqlite3.Connection], None], said: str
) -> None:
    monkeypatch.setattr("tcprobe.readers.nsys.opening._TABLES_STEPS", 1 << 22)
    with pytest.raises(InputError, match=said), open_database(made(tmp_path)) as opened:
        does(opened.connection)


def test_a_python_without_sqlite_says_so_and_reads_what_is_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = made(tmp_path)
    dldb = tmp_path / "dldb.sqlite"
    with closing(sqlite3.connect(dldb)) as connection:
        connection.execute("CREATE TABLE runs (id)")
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    assert "this Python lacks" in refused(recording).message
    assert database.finds(tmp_path) == [recording]  # DLProf's own does not stand in the way of its reports
