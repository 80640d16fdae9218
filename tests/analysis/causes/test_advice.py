"""Which advice comes first: what the rules read of a profile, and the order of what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis.causes.advice import advise, off_tensor_cores, related
from tcprobe.report.run.advice import advice_sentence
from tcprobe.rules.run.base import Facts, TinyKernels
from tcprobe.schema.advice import LAUNCHES, WAITING, Advice, Concern
from tcprobe.schema.columns import Value
from tcprobe.schema.kinds import Blocker
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.statement import say
from tcprobe.schema.waits import Tuning, Waiting
from tests.report.builders import figure, table
from tests.rules.run import builders as built
from tests.support import examples

MS = 1_000_000
V100 = {"device": 0, "name": "Tesla V100-SXM2-16GB", "vendor": "Nvidia", "tensor_cores": "yes", "state": "active"}


def waits(step: float, busy: float, **more: Any) -> Waiting:
    return Waiting(**{"step_ns": step * MS, "length": "between steps", "busy_ns": busy * MS,
                      "idle_ns": (step - busy) * MS, **more})  # fmt: skip


def op(name: str, ms: float, **blocker: Any) -> dict[str, Value]:
    kept = Blocker(**{"kind": "dtype", "dtype": "float32", "gpu": "Tesla V100 SXM2", **blocker})
    return {"op": name, "op_type": "MatMul", "tc_capable": "yes", "sum_ns": round(ms * MS), "tc_ns": 0,
            **kept.columns()}  # fmt: skip


def run(
    *ops: dict[str, Value],
    waiting: Waiting | None,
    kernels: float = 100.0,
    devices: tuple[dict[str, Value], ...] = (V100,),
    **more: Any,
) -> Profile:
    """A window of one step whose kernels take so many ms."""
    kernel: dict[str, Value] = {"kernel": "k", "op": "of no row", "sum_ns": round(kernels * MS), "uses_tc": "no",
                                "evidence": "its name"}  # fmt: skip
    step: dict[str, Value] = {"iteration": 0, "in_window": True, "steps": 1}
    profile = Profile(Metadata("xplane", window=Window(0, 0)), waiting=waiting, **more)
    tables = [table("kernels", kernel), table("ops", *ops), table("devices", *devices), table("iterations", step)]
    profile = profile.with_tables(*tables)
    return of_one_step(advise(replace(profile, off=off_tensor_cores(profile))))


def of_one_step(profile: Profile) -> Profile:
    """Without what is said of every profile of one step."""
    return replace(profile, advice=tuple(item for item in profile.advice if item.code != "TC313"))


def codes(profile: Profile) -> list[str]:
    return [item.code for item in profile.advice]


@pytest.mark.parametrize(
    ("busy", "first"),
    [(0.07, ["TC301"]), (5, ["TC301", "TC303"]), (20, ["TC301", "TC303"]), (60, ["TC303", "TC301"]), (96, ["TC303"])],
)
def test_what_saves_most_of_the_step_comes_first(busy: float, first: list[str]) -> None:
    """Of kernels that take so much of a step of 100 ms, 90 % could run on Tensor Cores: 0.787 of their time at most."""
    profile = run(op("a", 0.9 * busy), waiting=waits(100, busy), kernels=busy)
    assert codes(profile) == first
    saves = [item.saves_ns or 0.0 for item in profile.advice]
    assert saves == sorted(saves, reverse=True)


def test_a_hundredth_of_the_step_is_the_least() -> None:
    # 1.2 ms less 12.5 % of it: 1.05 ms at most; 1.1 ms: 0.96 ms
    assert codes(run(op("a", 1.2), waiting=waits(100, 99))) == ["TC303"]
    assert codes(run(op("a", 1.1), waiting=waits(100, 99))) == []


def test_the_table_says_the_same() -> None:
    profile = run(op("a", 50.0), waiting=waits(200, 100))
    *rows, last = profile.require("advice").rows()
    assert (last["rank"], last["code"], last["share_pct"], last["at_most_ns"]) == (3, "TC313", 100.0, None)
    assert [(row["rank"], row["code"], row["name"]) for row in rows] == [
        (1, "TC301", "waiting-gpu"), (2, "TC303", "precision-off-tensor-cores"),
    ]  # fmt: skip
    assert rows[0]["at_most_ns"] == 100 * MS
    assert (rows[0]["share_pct"], rows[0]["share_of"], rows[0]["step_length"]) == (50.0, "step", "between steps")
    assert rows[1]["kernel_ns"] == 50 * MS
    assert rows[1]["at_most_ns"] == pytest.approx(50 * MS * (1 - 15.7 / 125.3), rel=0.01)
    assert rows[1]["step_pct"] == pytest.approx(100 * float(rows[1]["at_most_ns"] or 0) / (200 * MS))
    assert rows[1]["text"] is None


def test_of_several_gpus_the_busiest_is_the_measure() -> None:
    devices = tuple({**V100, "device": n, "sum_ns": ms * MS} for n, ms in enumerate((60, 20)))
    profile = run(op("a", 80.0, kind="gpu"), waiting=waits(100, 40), kernels=80.0, devices=devices)
    assert {item.code: item.saves_ns for item in profile.advice} == {"TC301": 60 * MS, "TC305": 60 * MS}


def test_gpus_that_are_not_told_apart_share_nothing() -> None:
    devices = tuple({**V100, "device": n} for n in range(2))
    profile = run(op("a", 80.0, kind="gpu"), waiting=waits(100, 90), kernels=80.0, devices=devices)
    assert profile.advice[0].saves_ns == 80 * MS


def test_without_a_clock_shares_order() -> None:
    profile = run(op("a", 30.0), op("b", 40.0, kind="library", dtype=None, kernel="sgemm"), waiting=None)
    assert [(item.code, item.concern.share_pct, item.step_pct) for item in profile.advice] == [
        ("TC308", 40.0, None), ("TC303", 30.0, None),
    ]  # fmt: skip


def test_autotuning_comes_before_all_and_its_kernels_stay_shares() -> None:
    tuning = Tuning(2, 90, 80.0 * MS, 80.0, "conv", 45)
    profile = run(op("a", 50.0), waiting=waits(400, 100), tuning=tuning)  # nothing tells what for: TC302 says enough
    assert codes(profile) == ["TC302", "TC303"]
    assert [item.concern.kernel_ns for item in profile.advice] == [None, None]
    assert profile.advice[0].saves_ns is None
    assert profile.advice[1].saves_ns == pytest.approx(50 * MS * (1 - 15.7 / 125.3), rel=0.01)  # half of the busy time


def summed(pct: float | None, *more: dict[str, Value], **columns: Any) -> Profile:
    """A source with sums alone: 75 ms of kernels in a capture of 200 ms."""
    told = [figure("tc_kernel_time_pct", pct, **columns), figure("kernel_time_ns", 75.0 * MS), *more]
    profile = Profile(Metadata("dlprof_json"), waiting=waits(200, 80, length="capture"))
    return advise(profile.with_tables(table("summary", *told)))


def test_kernels_of_ops_that_no_one_names_are_spoken_of() -> None:
    later, first, second = summed(20.0).advice
    assert (later.kind, later.saves_ns) == ("profile_usual_steps", None)  # nothing tells when the GPU waits
    assert (first.code, first.saves_ns) == ("TC301", 120 * MS)
    assert (second.code, second.concern.share_pct, second.saves_ns) == ("TC309", 80.0, 60 * MS)
    assert codes(summed(20.0, high=40.0)) == ["TC313", "TC301", "TC309"]
    assert summed(20.0, high=40.0).advice[2].concern.share_pct == pytest.approx(60.0)
    assert codes(summed(100.0)) == codes(summed(None)) == ["TC313", "TC301"]


def test_reported_steps_divide_the_kernel_time() -> None:
    profile = summed(20.0, figure("iterations_in_window", 3.0))
    steps = replace(profile, waiting=waits(200, 80, length="reported"))
    assert advise(steps).advice[1].concern.kernel_ns == pytest.approx(20 * MS)


def test_nothing_known_is_no_advice_and_an_empty_table() -> None:
    profile = advise(Profile(Metadata("xplane")))
    assert profile.advice == ()
    assert profile.table("advice") is not None


OPS = st.lists(st.tuples(st.floats(0.1, 80), st.sampled_from(["dtype", "gpu", "library", "tf32"])), max_size=6)


@settings(max_examples=examples(60))
@given(OPS, st.floats(0.01, 100), st.randoms())
def test_the_order_of_ops_never_matters_and_the_first_saves_most(
    drawn: list[tuple[float, str]], busy: float, random: Any
) -> None:
    ops = [
        op(f"op {n}", ms, kind=kind, dtype="float32" if kind == "dtype" else None) for n, (ms, kind) in enumerate(drawn)
    ]
    shuffled = ops.copy()
    random.shuffle(shuffled)
    waiting = waits(100, busy)
    profile, again = (run(*each, waiting=waiting, kernels=500.0) for each in (ops, shuffled))
    saves = [item.saves_ns for item in profile.advice]
    assert codes(profile) == codes(again)
    assert saves == pytest.approx([item.saves_ns for item in again.advice])
    known = np.array([ns for ns in saves if ns is not None])
    assert (np.diff(known) <= 0).all()
    assert (known <= waiting.step_ns).all()


def drawing(code: str, pct: float, *names: str) -> Advice:
    concern = Concern(pct, "step", None, pct * MS, 100.0 * MS, "between steps")
    return Advice(code, say("feed_gpu"), concern, draws_on=frozenset(names))


LAUNCHING = f"{WAITING} launch"


def test_items_name_those_above_them_that_draw_on_the_same_time() -> None:
    ranked = [
        drawing("TC303", 40, "a", "b"), drawing("TC301", 30, LAUNCHING), drawing("TC306", 20, "b"),
        drawing("TC310", 10, LAUNCHING, LAUNCHES), drawing("TC307", 5, "b", "a", "c"), drawing("TC302", 1),
    ]  # fmt: skip
    assert [item.beside for item in related(ranked)] == [(), (), ("TC303",), ("TC301",), ("TC303", "TC306"), ()]


def test_an_item_beside_another_says_so_in_words_and_in_its_row() -> None:
    """TC310 counts the pauses between kernels, of which TC301 speaks."""
    subject = built.subject(
        waiting=built.waits(100, 60), facts=Facts(tiny=TinyKernels(1000, 900, 6.0 * MS)),
        waits=(built.waited(30, "queued", None, short=True), built.waited(10)),
    )  # fmt: skip
    items = {item.code: item for item in related(sorted(built.found(subject), key=lambda item: item.code))}
    assert items["TC310"].beside == ("TC301",)
    assert items["TC310"].figures()["beside"] == "TC301"
    assert advice_sentence(items["TC310"]).endswith(" Part of TC301: do not add the two.")
    assert items["TC301"].figures()["beside"] is None


@pytest.mark.parametrize("code", ["TC303", "TC304", "TC305"])
def test_a_size_and_the_precision_of_one_layer_are_related(code: str) -> None:
    kind: Any = {"TC303": "dtype", "TC304": "tf32", "TC305": "gpu"}[code]
    subject = built.subject(built.off(kind, 40, "a", dtype="float32"), sizes=(built.size("a", "change", ms=30),))
    items = {item.code: item.beside for item in related(sorted(built.found(subject), key=lambda item: item.code))}
    assert items == {code: (), "TC306": (code,)}
