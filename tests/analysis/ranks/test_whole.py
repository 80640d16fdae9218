"""A job of ranks as one profile: every figure by hand, and the same however its parts are joined."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.analysis.ranks.clocks import moments_of
from tcprobe.analysis.ranks.join import KEYS, OF_ONE, RULES
from tcprobe.analysis.ranks.part import Part, joined, part_of, tree
from tcprobe.analysis.ranks.whole import Unread, numbers, whole
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import COLLECTIVES, TABLES
from tests.analysis.builders import FP32, TC, V100, devices, launches
from tests.support import examples


def calls(*starts: int, ends: tuple[int, ...]) -> Table:
    rows = [{"name": "MPI_Barrier", "start_ns": s, "duration_ns": e - s} for s, e in zip(starts, ends, strict=True)]
    return Table.from_rows(COLLECTIVES, rows)


def rank(number: int, late: int = 0, behind: int = 0, kernel: str = TC) -> Profile:
    """10 us of which a kernel runs 4 us and more by `late`; three barriers that all leave at 3, 6 and 9 us."""
    ends = tuple(3000 * n + behind for n in (1, 2, 3))
    entered = [end - 500 + late for end in ends]
    gpu = number % 4
    made = launches((kernel, -1, 0, behind, 2000, gpu), (FP32, -1, 0, 8000 + behind, 2000 + late, gpu))
    meta = Metadata("nsys", (f"rank-{number}.sqlite",), rank=number, gpu_used=True, host="node")
    return Profile(meta).with_tables(made, devices({**V100, "device": gpu}), calls(*entered, ends=ends))


def parts_of(*profiles: Profile) -> list[Part]:
    reference, parts = None, []
    for profile in map(analyse, profiles):
        moments = moments_of(profile)
        reference = reference or moments
        parts.append(part_of(profile, profile.metadata.rank, moments, reference))
    return parts


def job(*profiles: Profile, unread: tuple[Unread, ...] = ()) -> Profile:
    found = tree(parts_of(*profiles))
    assert found is not None
    return whole(found, "job", unread)


def rows(profile: Profile, name: str) -> list[dict[str, Any]]:
    return list(profile.require(name).rows())


def test_sums_are_over_all_gpus_and_shares_are_theirs() -> None:
    made = job(rank(0), rank(1, kernel=FP32, behind=700), rank(2, behind=-900))
    assert {r["kernel"]: (r["device"], r["calls"], r["sum_ns"], r["max_ns"]) for r in rows(made, "kernels")} == {
        TC: (None, 2, 4000, 2000),
        FP32: (None, 4, 8000, 2000),
    }
    assert [(r["device"], r["sum_ns"], r["tc_ns"]) for r in rows(made, "devices")] == [
        (0, 4000, 2000), (1, 4000, 0), (2, 4000, 2000),
    ]  # fmt: skip
    figure = made.figure("tc_kernel_time_pct")
    assert figure is not None
    assert figure["value"] == pytest.approx(100 / 3) and figure["reason"] == "over the kernel time of 3 ranks"
    assert (made.value("kernel_time_ns"), made.value("kernels")) == (12000.0, 6.0)
    assert made.value("gpu_busy_pct") == pytest.approx(40.0)
    assert made.waiting is not None and (made.waiting.step_ns, made.waiting.busy_ns) == (10000.0, 4000.0)
    assert sum(float(r["share_pct"]) for r in rows(made, "causes")) == pytest.approx(100.0)
    assert (made.metadata.host, made.metadata.rank, made.metadata.paths) == ("node", None, ("job",))
    assert made.screen is not None and made.screen.bar is not None and made.screen.bar.gpus == 3


def test_every_time_of_a_joined_table_has_a_rule() -> None:
    """Else it would be that of one rank. The mean of ranges is computed anew."""
    times = {c.name for name in KEYS for c in TABLES[name].columns if c.name.endswith("_ns")}
    assert times - RULES.keys() - OF_ONE == {"mean_ns"}


def test_who_holds_the_others_up_and_by_what() -> None:
    made = job(rank(0), rank(1, late=450, behind=700), rank(2), rank(3))
    found = {r["rank"]: r for r in rows(made, "ranks")}
    assert {n: (r["waited_ns"], r["last"], r["collective_ns"]) for n, r in found.items()} == {
        0: (1350.0, 0, 1500.0), 1: (0.0, 3, 150.0), 2: (1350.0, 0, 1500.0), 3: (1350.0, 0, 1500.0),
    }  # fmt: skip
    assert [n for n, r in found.items() if r["straggler"]] == [1]
    assert (found[1]["held_by"], found[1]["held_ns"]) == ("kernels", 450.0)
    assert (found[1]["clock_offset_ns"], found[1]["clock_residual_ns"], found[1]["first_device"]) == (-700.0, 0.0, 1)
    text = " ".join("".join(p.text for p in line.parts) for b in RunDocument(made, ReportSpec(brief=True)).screen()
                    for line in getattr(b, "lines", ()))  # fmt: skip
    assert "1 holds the others up" in text and "what takes rank 1 longer: its kernels, 450 ns" in text


def test_without_collectives_the_slow_step_alone_tells() -> None:
    def alone(number: int, length: int) -> Profile:
        return Profile(Metadata("nsys", (f"{number}",), rank=number, gpu_used=True)).with_tables(
            launches((TC, -1, 0, 0, 10, 0), (TC, -1, 0, length - 10, 10, 0)), devices(V100)
        )

    made = job(alone(0, 1000), alone(1, 1000), alone(2, 1100))
    assert [r["straggler"] for r in rows(made, "ranks")] == [False, False, True]
    assert "clocks-apart" in {note.code for note in made.metadata.notes}


def test_what_is_not_there_is_named() -> None:
    lost = Unread("rank-4.sqlite", 4, "is damaged", "copy it again")
    made = job(rank(1), rank(6), unread=(lost, Unread("x.sqlite", None, "is damaged")))
    assert [(r["rank"], r["state"]) for r in rows(made, "ranks")] == [
        (0, "missing"), (1, "read"), (2, "missing"), (3, "missing"), (4, "unreadable"), (5, "missing"), (6, "read"),
        (None, "unreadable"),
    ]  # fmt: skip
    said = [note.message for note in made.metadata.notes]
    assert "rank-4.sqlite is left out: is damaged" in said
    assert "no file of rank 0, 2, 3, 5: sums are of the ranks that are there" in said
    assert numbers([0, 1, 2, 4, 6, 7, None]) == "0 to 2, 4, 6, 7, of unknown number"


POOL = parts_of(*(rank(at, late, at * 37, (TC, FP32)[at % 2]) for at, late in enumerate((0, 400, 55, 1, 0))))


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.sampled_from(POOL), min_size=2, max_size=7), st.data())
def test_any_order_of_joining_gives_the_same(parts: list[Part], data: st.DataObject) -> None:
    folded, found = whole(reduce(joined, parts), "job"), list(parts)
    while len(found) > 1:
        at = data.draw(st.integers(0, len(found) - 2))
        found[at : at + 2] = [joined(found[at], found[at + 1])]
    other = whole(found[0], "job")
    assert other.tables.keys() == folded.tables.keys()
    for name, table in folded.tables.items():
        for column in table.columns:
            for ours, theirs in zip(table.values(column), other.tables[name].values(column), strict=True):
                same = ours == pytest.approx(theirs, rel=1e-12) if isinstance(ours, float) else ours == theirs
                assert same, (name, column)
