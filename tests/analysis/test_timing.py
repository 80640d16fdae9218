"""Figures per iteration and per device, against the same figures counted launch by launch."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import Options, analyse
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.support import examples

KINDS = {b.TC: "tc_ns", b.FP32: "", b.UNKNOWN: "unknown_ns"}
OPS = ("m/fc/MatMul", "m/fc/BiasAdd", "m/fc/MatMul")  # the first and the last are one op


class Launch(NamedTuple):
    """One launch; in the order that `builders.launches` takes."""

    kernel: str
    op: int
    step: int | None
    start_ns: int
    duration_ns: int
    device: int


LAUNCHES = st.lists(
    st.builds(
        Launch, st.sampled_from(list(KINDS)), st.integers(-1, 2), st.none() | st.integers(0, 3), st.integers(0, 60),
        st.integers(1, 20), st.integers(0, 2),
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip


def covered(launches: list[Launch]) -> int:
    """The time that the launches of each device cover, counted tick by tick."""
    return len({(x.device, t) for x in launches for t in range(x.start_ns, x.start_ns + x.duration_ns)})


def counted_by_hand(launches: list[Launch]) -> dict[str, Any]:
    classes = {
        name: sum(x.duration_ns for x in launches if KINDS[x.kernel] == name) for name in ("tc_ns", "unknown_ns")
    }
    whole = sum(x.duration_ns for x in launches)
    return {"launches": len(launches), "sum_ns": whole, "union_ns": covered(launches), **classes}


def run(launches: list[Launch]) -> Profile:
    details = b.details(*((op, op.rpartition("/")[2]) for op in OPS))
    gpus = b.devices(*({"device": i} for i in range(3)))
    steps = b.marks([0, 20, 40, 60], 15)  # the window is from 20 to 60
    return analyse(b.profile(b.launches(*launches), details, gpus, steps), Options(iter_start=1, iter_stop=2))


def figures(row: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in like}


@settings(max_examples=examples(50))
@given(LAUNCHES)
def test_every_sum_and_union_is_that_of_its_launches(launches: list[Launch]) -> None:
    launches = [*launches, *(Launch(b.TC, 0, step, 10 * step, 5, 0) for step in (1, 2))]
    out = run(launches)
    inside = [x for x in launches if x.step in (1, 2)]
    for row in b.rows(out, "iterations"):
        mine = counted_by_hand([x for x in launches if x.step == row["iteration"]])
        assert figures(row, mine) == mine
    for row in b.rows(out, "devices"):
        mine = counted_by_hand([x for x in inside if x.device == row["device"]])
        within = [x for x in launches if x.device == row["device"]]
        ticks = {t for x in within for t in range(x.start_ns, x.start_ns + x.duration_ns) if 20 <= t < 60}
        assert figures(row, mine) == {**mine, "union_ns": len(ticks)}
    ops = {row["op"]: row for row in b.rows(out, "ops")}
    assert set(ops) == {OPS[x.op] if x.op >= 0 else "(no op)" for x in inside}
    for op, row in ops.items():
        mine = counted_by_hand([x for x in inside if (OPS[x.op] if x.op >= 0 else "(no op)") == op])
        assert figures(row, mine) == mine
