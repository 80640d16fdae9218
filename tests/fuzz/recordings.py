"""Seeds of Nsight Systems: small databases of several schemas, with what the reader looks for."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.fuzz.inputs import Input
from tests.readers.nsys.made import OTHER_PID, Made, small

LOG: Final = bytes.fromhex("377f0682 002de218 00000200 00000000") + bytes(16 + 24 + 512)
"""A write-ahead log of one empty frame."""
PAGE: Final = 512  # bytes, so that a change of a page leaves most of the others


def databases() -> list[Input]:
    """Return one database a schema, one of ranges alone, and one whose last change is in its write-ahead log."""
    made = {"old": small("2.9.1"), "plain": small("3.0.0", inline=False), "rich": _rich(), "cpu": _cpu()}
    return [*(Input({f"{name}.sqlite": _packed(one)}) for name, one in made.items()), _logged()]


def _rich() -> Made:
    """Return a recording with all that a reader tells apart: processes, threads, domains, graphs, PyTorch's names."""
    made = small("3.25.0")
    made.cuda_device(0, 0)
    made.thread("MPI Rank 1")
    made.environment("Hostname", "node1")
    made.captured("COMMAND_LINE", "python train.py --token=abc")
    made.range("aten::mm, seq = 7, op_id = 3, sizes = [[8, 16], [16, 8]]", 2_000_000, 2_100_000)
    made.range("step 2", 2_000_000, 2_900_000, domain="tcprobe")
    made.range("open", 2_000_000, None, eventType=60, endGlobalTid=1)
    made.launch("ampere_sgemm_32x32_nn", 2_010_000, 2_020_000, 2_050_000, graphNodeId=5, graphId=1)
    made.launch("ncclDevKernel_AllReduce", 2_060_000, 2_070_000, 2_090_000, pid=OTHER_PID, deviceId=1)
    made.copy(8, 1 << 20, 2_030_000, 2_040_000)
    made.set(64, 2_040_000, 2_041_000)
    made.graph(1, 2_200_000, 2_300_000)
    return made


def _cpu() -> Made:
    made = Made("3.7.2")
    for step in range(3):
        made.range(f"step {step}", 1000 * step, 1000 * step + 900, domain="tcprobe")
    return made


def _packed(made: Made) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = made.write(Path(folder) / "made.sqlite")
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA page_size = {PAGE}")
            database.execute("VACUUM")
        return path.read_bytes()


def _logged() -> Input:
    """Return a database that somebody is still writing: its header tells of a log, and there is one beside it."""
    content = _packed(small("3.1.2"))
    return Input({"made.sqlite": content[:18] + b"\2\2" + content[20:], "made.sqlite-wal": LOG})
