"""What holds of every prediction, whatever ran: bounds, sums, order, and that a change made is none to make."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import flow
from tcprobe.analysis.whatif.flow import with_what_ifs
from tcprobe.schema.profile import Profile
from tcprobe.schema.whatif import WhatIf
from tests.analysis import builders as b
from tests.analysis.whatif.runs import A100, analysed, dense, run, shipped
from tests.support import examples

V100 = dict(b.V100)
T4 = {"name": "Tesla T4", "compute_capability": "7.5", "sm_count": 40}
SIZES = st.sampled_from([8, 64, 100, 1000, 1001, 2042, 4090, 4096])
LAYERS = st.lists(
    st.tuples(SIZES, SIZES, st.sampled_from([b.TC, b.FP32, b.UNKNOWN]), st.integers(0, 300)), min_size=1, max_size=5
)
GPUS = st.sampled_from([A100, V100, T4])
DTYPES = st.sampled_from(["float32", "float32", "float16", "bfloat16"])
PRECISIONS = st.sampled_from([None, "float32", "tf32"])
Layers: TypeAlias = list[tuple[int, int, str, int]]


def made(layers: Layers, dtype: str, gpu: dict[str, Any], precision: str | None, devices: int = 1) -> Profile:
    """Return a run whose steps may hold more kernel time than they last: the kernels then overlap."""
    rows = [(dense(f"l{n}", i, u, dtype), kernel, ns) for n, (i, u, kernel, ns) in enumerate(layers)]
    return run(*rows, gpu=gpu, precision=precision, devices=tuple(range(devices)))


def busy(profile: Profile) -> float:
    """Return how long the GPU is busy in a step; with equal GPUs, each of them."""
    assert profile.waiting is not None
    return profile.waiting.busy_ns


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, DTYPES, GPUS, PRECISIONS, st.integers(1, 2))
def test_no_gain_is_negative_or_above_the_time_spent(
    layers: Layers, dtype: str, gpu: dict[str, Any], precision: str | None, devices: int
) -> None:
    profile = analysed(made(layers, dtype, gpu, precision, devices), shipped)
    for one in profile.what_ifs:
        gain, then = one.gain_ns, one.new_step_ns
        assert 0 <= gain.low <= gain.mid <= gain.high <= one.spent_ns * (1 + 1e-9)
        assert one.spent_ns <= busy(profile) * (1 + 1e-9)
        assert one.step_ns and then and 0 <= then.low <= then.mid <= then.high <= one.step_ns
        assert gain.mid >= 0.01 * one.step_ns
        assert gain.low == 0 if one.may_cost else True
        assert one.ops == len(one.op_names) > 0
        assert one.constants is not None and one.evidence is not None
    assert [one.columns() for one in profile.what_ifs] == [
        {name: row[name] for name in one.columns()}
        for one, row in zip(profile.what_ifs, b.rows(profile, "what_ifs"), strict=True)
    ]


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, DTYPES, GPUS, PRECISIONS)
def test_largest_first_and_all_together_last(
    layers: Layers, dtype: str, gpu: dict[str, Any], precision: str | None
) -> None:
    what_ifs = analysed(made(layers, dtype, gpu, precision), shipped).what_ifs
    singles = [one for one in what_ifs if one.change != "together"]
    assert [one.gain_ns.mid for one in singles] == sorted((one.gain_ns.mid for one in singles), reverse=True)
    assert [one.change for one in what_ifs[len(singles) :]] in ([], ["together"])
    if singles and len(singles) < len(what_ifs):
        last = what_ifs[-1]
        assert last.gain_ns.mid >= singles[0].gain_ns.mid * (1 - 1e-9)
        assert len(last.holds) >= 2
        assert len([kind for kind, layer in last.holds if layer is None]) <= 1


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(SIZES, SIZES, st.integers(1, 150)), min_size=2, max_size=4))
def test_sizes_alone_add_up_to_all_of_them_together(layers: list[tuple[int, int, int]]) -> None:
    """A size gets its part of what all save: of two sizes of one product the parts add up to the whole."""
    profile = analysed(made([(i, u, b.TC, ns) for i, u, ns in layers], "float16", A100, None), shipped)
    singles = [one for one in profile.what_ifs if one.change == "change_size"]
    together = [one for one in profile.what_ifs if one.change == "together"]
    for whole in together:
        small = 0.01 * 1000 * len(whole.holds)  # those under 1 % have no row
        assert whole.gain_ns.mid <= sum(one.gain_ns.mid for one in singles) + small + _follow(profile, singles)


def _follow(profile: Profile, singles: list[WhatIf]) -> float:
    """Return what sizes save that are no row of their own, as another layer puts them out."""
    rows = b.rows(profile, "bad_sizes")
    return sum(max(0.0, float(row["saving_ns"] or 0)) for row in rows if row["advice_kind"] == "change_before")


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, DTYPES, PRECISIONS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(layers: Layers, dtype: str, precision: str | None, chance: Any) -> None:
    profile = made(layers, dtype, A100, precision)
    mixed = profile
    for name in ("launches", "graph_ops", "step_marks"):
        table = profile.require(name)
        order = list(range(len(table)))
        chance.shuffle(order)
        mixed = mixed.with_tables(table.take(np.array(order)))
    first, second = (analysed(one, shipped).what_ifs for one in (profile, mixed))
    assert [told(one) for one in first] == [told(one) for one in second]
    for one, other in zip(first, second, strict=True):
        assert one.gain_ns.mid == pytest.approx(other.gain_ns.mid)
        assert one.gain_ns.low == pytest.approx(other.gain_ns.low)
        assert one.gain_ns.high == pytest.approx(other.gain_ns.high)


def told(one: WhatIf) -> tuple[Any, ...]:
    return one.change, one.layer, one.size, one.next_size, one.op_names, one.unpredicted, one.holds, one.evidence


def test_a_change_that_is_made_is_no_change_to_make() -> None:
    """Each what-if of a run is gone once it is done, and its step is as long as was predicted."""
    bad = run((dense("a", units=4090), b.FP32, 400), precision="float32")
    before = {one.change: one for one in analysed(bad).what_ifs}
    assert set(before) == {"mixed_float16", "mixed_bfloat16", "allow_tf32", "together"}
    # 400 ns at 19.5 TFLOP/s; at half of 156: 100; at half of 312: 50; at 312: 25
    for change, dtype, units, precision, ns in (
        ("allow_tf32", "float32", 4090, "tf32", 100),
        ("mixed_float16", "float16", 4090, "mixed_float16", 50),
        ("together", "float16", 4096, "mixed_float16", 25),
    ):
        then = before[change].new_step_ns
        assert then and then.mid == pytest.approx(1000 - 400 + ns)
        after = analysed(run((dense("a", units=units, dtype=dtype), b.TC, ns), precision=precision)).what_ifs
        assert change not in {one.change for one in after}
        assert not after or change != "together"


def test_more_time_of_a_product_is_more_gain() -> None:
    gains = [analysed(run((dense("a"), b.TC, ns))).what_ifs[0].gain_ns.mid for ns in (50, 100, 200)]
    assert gains == [pytest.approx(25), pytest.approx(50), pytest.approx(100)]


def test_a_gpu_twice_as_busy_in_one_stream_spends_twice() -> None:
    """Two kernels at the same time take the time of one: what one op gains of it is its part."""
    layers = dense("a"), dense("b")
    names = b.details(*((str(layer["op"]), "MatMul") for layer in layers))
    rows = [(b.TC, op, step, 1000 * step, 300) for step in range(5) for op in (0, 1)]
    marks = b.marks([1000 * step for step in range(5)], 999)
    profile = b.profile(b.launches(*rows), names, b.devices(A100), b.graph(*layers), marks)
    (one, *_) = analysed(profile).what_ifs
    # 600 ns of kernels in 300 ns: all of it at half the time is 150
    assert (one.spent_ns, one.gain_ns.mid) == (pytest.approx(300, rel=1e-3), pytest.approx(150, rel=1e-3))


def test_layout_kernels_of_an_op_are_no_part_of_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 ns of one op 100 are a kernel with the cause `layout`, which stays as it is: 300 are halved."""
    layer = dense("a")
    rows = [(b.TC, 0, step, 1000 * step, 300) for step in range(5)]
    rows += [(b.OTHER, 0, step, 1000 * step + 300, 100) for step in range(5)]
    profile = b.profile(
        b.launches(*rows), b.details((str(layer["op"]), "MatMul")), b.devices(A100), b.graph(layer),
        b.marks([1000 * step for step in range(5)], 999),
    )  # fmt: skip

    def with_causes(known: Profile, *rest: Any) -> Profile:
        kernels = known.require("kernels")
        cause = ["layout" if kernel == b.OTHER else "none" for kernel in kernels.values("kernel")]
        return with_what_ifs(known.with_tables(kernels.with_columns(cause=cause)), *rest)

    assert analysed(profile).what_ifs[0].gain_ns.mid == pytest.approx(200)
    monkeypatch.setattr(flow, "with_what_ifs", with_causes)
    (one, *_) = analysed(profile).what_ifs
    assert (one.spent_ns, one.gain_ns.mid) == (pytest.approx(300), pytest.approx(150))
