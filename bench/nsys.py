"""Measure `tcprobe report` on a large database of Nsight Systems.

    python bench/nsys.py --sample SAMPLE.sqlite [--copies 200] [--runs 5] [--keep FOLDER]

Makes the database by repeating the sample in time: later copies start later and have correlation and op ids of their
own, as a longer recording has. Indexes are left out: nsys makes none. 200 copies of the two-GPU sample hold 0.69
million kernels, 1.16 million API calls and 3.36 million ranges.
Each run is a process of its own, which reads, joins, analyses and prints everything, with the ADBC driver for SQLite
where this interpreter has it, and with Python's sqlite3 alone: the best wall and user time, the largest peak of memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cost import best

BETWEEN_NS = 10_000_000  # from the end of one copy to the start of the next
EVENTS = ("CUPTI_ACTIVITY_KIND_%", "NVTX_EVENTS", "CUDA_%EVENTS", "OSRT_API", "CUDNN_EVENTS", "CUBLAS_EVENTS")
SHIFTED = {"start": "span", "end": "span", "correlationId": "ids", "gridId": "ids", "syncId": "ids"}
"""Columns of events that differ from copy to copy, and by what."""
OP_ID = "instr(text, 'op_id = ')"
TCPROBE = "import sys; {hidden}from tcprobe.__main__ import main; sys.exit(main())"
HIDDEN = "sys.modules['adbc_driver_sqlite'] = None; "


def replicate(sample: Path, copies: int, out: Path) -> None:
    """Write `sample` repeated `copies` times in time."""
    shutil.copyfile(sample, out)
    out.chmod(0o644)
    with closing(sqlite3.connect(out)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        for (index,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql > ''").fetchall():
            database.execute(f'DROP INDEX "{index}"')
        tables = [table for table in _tables(database) if "start" in _columns(database, table)]
        _shifts(database, tables, copies)
        for table in tables:
            _repeat(database, table)
        database.execute("DROP TABLE copies")
        database.commit()
        database.execute("VACUUM")


def _tables(database: sqlite3.Connection) -> list[str]:
    named = " OR ".join(["name LIKE ?"] * len(EVENTS))
    found = database.execute(f"SELECT name FROM sqlite_master WHERE type = 'table' AND ({named})", EVENTS)
    return [name for (name,) in found]


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def _shifts(database: sqlite3.Connection, tables: list[str], copies: int) -> None:
    """Make the table `copies`: for each copy but the first, what is added to times, ids and the ids of ops."""

    def most(column: str) -> int:
        held = [f'SELECT max("{column}") AS most FROM "{t}"' for t in tables if column in _columns(database, t)]
        return int(database.execute(f"SELECT max(most) FROM ({' UNION ALL '.join(held)})").fetchone()[0] or 0)

    least = " UNION ALL ".join(f'SELECT min(start) AS least FROM "{table}"' for table in tables)
    (first,) = database.execute(f"SELECT min(least) FROM ({least})").fetchone()
    span = max(most("end"), most("start")) - first + BETWEEN_NS
    ids, ops = max(most("correlationId"), most("gridId")) + 1, 10_000_000
    database.execute(
        "CREATE TABLE copies AS WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k + 1 < ?) "
        "SELECT k * ? AS span, k * ? AS ids, k * ? AS ops FROM n WHERE k < ?",
        (copies, span, ids, ops, copies),
    )


def _repeat(database: sqlite3.Connection, table: str) -> None:
    """Add the copies of the rows of a table, in the order of time."""
    columns = _columns(database, table)
    made = [f'"{c}" + copies.{SHIFTED[c]}' if c in SHIFTED else f'"{c}"' for c in columns]
    if "text" in columns:
        after = f"substr(text, {OP_ID} + 8)"
        other = f"substr(text, 1, {OP_ID} + 7) || ({after} + copies.ops) || ltrim({after}, '0123456789')"
        made[columns.index("text")] = f"CASE WHEN {OP_ID} THEN {other} ELSE text END"
    last = database.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0] or 0
    database.execute(
        f'INSERT INTO "{table}" SELECT {", ".join(made)} FROM copies CROSS JOIN "{table}" AS event '
        "WHERE event.rowid <= ? ORDER BY span, event.rowid",
        (last,),
    )


def ours(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each way in which tcprobe reads: a label and a command."""
    arguments = ["report", str(file), "--format", "json"]
    if find_spec("adbc_driver_sqlite"):
        yield "tcprobe report, ADBC", [sys.executable, "-c", TCPROBE.format(hidden=""), *arguments]
    else:
        print("  ADBC: this interpreter has no adbc_driver_sqlite")
    yield "tcprobe report, sqlite3", [sys.executable, "-c", TCPROBE.format(hidden=HIDDEN), *arguments]


def size(file: Path) -> str:
    """Return how large a database is: bytes, kernels, API calls, ranges."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as database:
        rows = {table: database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in _tables(database)}
    counted = ", ".join(f"{table} {count:,}" for table, count in rows.items() if count > max(rows.values()) / 100)
    return f"{file.stat().st_size / 1e6:.0f} MB: {counted}"


def report(file: Path, runs: int) -> None:
    """Measure every command on `file` and print the figures."""
    print(f"{file.name}, {size(file)}; load {os.getloadavg()[0]:.1f}", flush=True)
    for label, command in ours(file):
        print(f"  {label:34} {best(command, runs)}", flush=True)


def main() -> None:
    """Make the database, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=Path, required=True, help="database of Nsight Systems to repeat")
    parser.add_argument("--copies", type=int, nargs="+", default=[200], help="sizes to make; 2000 take 4 GB of disk")
    parser.add_argument("--runs", type=int, default=5, help="runs of tcprobe")
    parser.add_argument("--keep", type=Path, help="folder for the databases, which stay there and are taken again")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as folder:
        for copies in options.copies:
            file = Path(folder) / f"{options.sample.stem}-{copies}.sqlite"
            if not file.exists():
                replicate(options.sample, copies, file)
            report(file, options.runs)


if __name__ == "__main__":
    main()
