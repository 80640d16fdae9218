"""Stands in for Nsight Systems on a rehearsal: hears NVTX with the tool of the tests, exports it as nsys does.

``fake_nsys.py profile ... -o TRACE COMMAND...`` and ``fake_nsys.py export --type sqlite -o FILE TRACE.nsys-rep``. Its
clock counts events. It needs a compiler of C (cc).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

TOOL: Final = Path(__file__).parents[3] / "tests/nvtx/tool.c"
SCHEMA: Final = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL, text TEXT,
    globalTid INTEGER, textId INTEGER, domainId INTEGER);
"""
Row = tuple[int, int | None, int, str | None, int | None, int | None, int]


def main() -> int:
    words = sys.argv[1:]
    place = words.index("-o")
    if words[0] == "profile":
        return listen(Path(words[place + 1]), words[place + 2 :])
    export(Path(words[place + 2]), Path(words[place + 1]))
    return 0


def listen(trace: Path, command: list[str]) -> int:
    """Run a command with the tool; return its exit status."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("fake nsys: no compiler of C (cc) is here", file=sys.stderr)
        return 1
    library, heard = trace.with_suffix(".so"), trace.with_suffix(".nsys-rep")
    subprocess.run([compiler, "-shared", "-fPIC", str(TOOL), "-o", str(library)], check=True)
    heard.touch()
    attached = {"NVTX_INJECTION64_PATH": str(library), "NVTX_LOG": str(heard)}
    return subprocess.run(command, env={**os.environ, **attached}, check=False).returncode


def export(heard: Path, to: Path) -> None:
    """Write what the tool heard as a database of nsys."""
    lines = [line.split("\t") for line in heard.read_text(encoding="utf-8").splitlines()]
    names = {name: number for number, name in enumerate(sorted({line[-1] for line in lines if line[0] == "push"}), 1)}
    domains = {name: number for number, name in enumerate(sorted({line[2] for line in lines}), 1)}
    created: list[Row] = [(0, None, 75, name, None, None, number) for name, number in domains.items()]
    with closing(sqlite3.connect(to)) as database, database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, name) for name, number in names.items()])
        rows = [*created, *pushed(lines, names, domains)]
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def pushed(lines: list[list[str]], names: dict[str, int], domains: dict[str, int]) -> list[Row]:
    """Return the ranges as rows, those that were left open without an end."""
    rows: list[Row] = []
    opened: dict[tuple[str, str], list[int]] = {}
    for clock, (what, thread, domain, *event) in enumerate(lines):
        stack = opened.setdefault((thread, domain), [])
        if what == "push":
            stack.append(len(rows))
            rows.append((clock, None, 59, None, int(thread.split("/")[1]), names[event[1]], domains[domain]))
        elif stack:
            begun = stack.pop()
            rows[begun] = (rows[begun][0], clock, *rows[begun][2:])
    return rows


if __name__ == "__main__":
    sys.exit(main())
