"""Small databases that would take gigabytes or for ever: pages that serve twice, texts on the same pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import WrongFormat
from tcprobe.readers.nsys import database
from tcprobe.readers.nsys.opening import MOST_DEFAULT, open_database
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.readers.nsys.forged import chained, shared
from tests.readers.nsys.made import PID, Made, global_tid, small

CALLS, GRAPHS, EVENTS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS"
LONG = 900_000
ROW = (0, 10**9, 59, None, None, None)  # of EVENTS, up to its text


def root_of(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(root)


def recording() -> Made:
    """Return a recording with calls that launched nothing, which the reader passes over, and launches of graphs."""
    made = Made()
    made.range("step", 0, 10**9)
    made.kernel("kernel", 0, 1)
    for number in range(100):
        made.add(CALLS, start=number, end=number + 1, eventClass=0, globalTid=global_tid(), nameId=1, returnValue=0)
        made.graph(1, number, number + 1)
    return made


def forge(path: Path, table: str, change: Callable[[bytes, int], bytes]) -> None:
    path.write_bytes(change(path.read_bytes(), root_of(path, table)))


def many(content: bytes, root: int) -> bytes:
    return shared(content, root, 15, 600)


def long(content: bytes, root: int) -> bytes:
    return chained(content + bytes(LONG // 4096 * 4096), root, ROW, LONG, 600)


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        (CALLS, many, "uses a page twice"),  # a condition that no row meets: no limit on rows ends it
        (GRAPHS, many, "uses a page twice"),  # count(*), which asks no progress handler
        (EVENTS, many, "uses a page twice"),
        ("StringIds", many, "uses a page twice"),
        (EVENTS, long, "holds rows longer than the whole file"),  # 500 MB of texts in 0.9 MB
        (CALLS, long, "holds rows longer than the whole file"),
        (EVENTS, lambda content, root: shared(content, root, 20, 1), "uses a page twice"),
    ],
    ids=["calls", "count", "ranges", "strings", "texts", "numbers", "deep"],
)
def test_pages_that_serve_twice_are_refused(
    tmp_path: Path, table: str, change: Callable[[bytes, int], bytes], said: str
) -> None:
    path = recording().write(tmp_path / "a.sqlite")
    forge(path, table, change)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(WrongFormat, match=f"a.sqlite: damaged SQLite database: table {table} {said}$"):
        open_profile(path)


def test_a_schema_whose_pages_serve_twice_is_not_read(tmp_path: Path) -> None:
    path = small().write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("BEGIN")
        for number in range(100):
            connection.execute(f"CREATE TABLE more_{number} (a INTEGER, b INTEGER, c INTEGER)")
    content = path.read_bytes()
    assert content[100] == 5  # the first page leads to others
    path.write_bytes(many(content, int.from_bytes(content[108:112], "big")))
    with pytest.raises(WrongFormat, match="table sqlite_master uses a page twice"):
        open_profile(path)
    assert database.finds(tmp_path) == [path]  # by its bytes


def test_a_table_that_is_not_read_may_be_damaged(tmp_path: Path) -> None:
    made = small()
    made.add("PROCESSES", globalPid=1, pid=PID, name="python")
    path = made.write(tmp_path / "a.sqlite")
    forge(path, "PROCESSES", many)
    assert len(open_profile(path).require("launches")) == 4


def test_a_text_that_no_page_holds_is_none(tmp_path: Path) -> None:
    """A default is in the schema: a text of 60 kB there is one of each row."""
    path = small(inline=False).write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE copied AS SELECT start, end, eventType, globalTid, domainId FROM NVTX_EVENTS")
        connection.execute("DROP TABLE NVTX_EVENTS")
        connection.execute("ALTER TABLE copied RENAME TO NVTX_EVENTS")
        connection.execute(f"ALTER TABLE NVTX_EVENTS ADD COLUMN text TEXT DEFAULT '{'t' * MOST_DEFAULT}'")
    assert set(open_profile(path).require("ranges").names("name").tolist()) == {""}


def names(profile: Profile) -> list[str | None]:
    return profile.require("launches").names("kernel").tolist()


def test_strings_are_read_once_whatever_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy made with CREATE TABLE AS has no key: a search for each id would be rows times ids."""
    monkeypatch.setattr("tcprobe.readers.nsys.opening._TABLES_STEPS", 1 << 20)
    monkeypatch.setattr("tcprobe.readers.nsys.opening._STEPS_A_BYTE", 16)
    made = small()
    for number in range(3000):
        made.launch(f"kernel_{number}", 10 * number, 10 * number + 3, 10 * number + 6)
    plain, copied = made.write(tmp_path / "a.sqlite"), made.write(tmp_path / "b.sqlite")
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute("CREATE TABLE copied AS SELECT value, id FROM StringIds ORDER BY id DESC")
        connection.execute("DROP TABLE StringIds")
        connection.execute("ALTER TABLE copied RENAME TO StringIds")
    assert names(open_profile(copied)) == names(open_profile(plain))


@pytest.mark.parametrize("page", [512, 1024, 8192, 65536])
@pytest.mark.parametrize("sql", ["PRAGMA auto_vacuum = FULL", "PRAGMA encoding = 'UTF-8'"])
def test_whole_databases_of_any_page_are_sound(tmp_path: Path, page: int, sql: str) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute(sql)
        connection.execute("CREATE TABLE x (a INTEGER, b TEXT)")
        connection.execute("CREATE TABLE y (a INTEGER PRIMARY KEY, b TEXT) WITHOUT ROWID")
        connection.execute("BEGIN")
        for number in range(3000):
            text = "t" * (number % 90 * (1 if number % 50 else 3000))
            for table in "xy":
                connection.execute(f"INSERT INTO {table} VALUES (?, ?)", (number, text))
        connection.execute("COMMIT")
        connection.execute("DELETE FROM x WHERE a % 3 = 0")
    with open_database(path) as opened:
        assert opened.has("x", "b") and opened.has("y", "b")
