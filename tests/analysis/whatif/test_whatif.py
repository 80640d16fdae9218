"""What a change is predicted to give: worked by hand on a GPU of simple constants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcprobe.schema.finding import Range
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.analysis.whatif.runs import A100, analysed, dense, found, run, simple

LAYER = dense("a")


def all_at(ns: float) -> tuple[Any, Any, Any]:
    return (pytest.approx(ns),) * 3


def exactly(of: Range | None) -> tuple[float, float, float] | None:
    return of and (of.low, of.mid, of.high)


def test_tf32_to_16_bits_is_half_of_the_products_and_nothing_else() -> None:
    # 300 of 1,000 ns run at 156 TFLOP/s, then at 312: 150 less. The other 100 ns and the waiting stay.
    what_ifs = found(run((LAYER, b.TC, 300)))
    assert list(what_ifs) == ["mixed_float16", "mixed_bfloat16"]
    one = what_ifs["mixed_float16"]
    assert exactly(one.gain_ns) == all_at(150)
    assert exactly(one.new_step_ns) == all_at(850)
    assert (one.spent_ns, one.step_ns, one.ops, one.unpredicted) == (300, 1000, 1, 0)
    assert (one.basis, one.evidence, one.may_cost) == ("measured x calibrated", "timed", False)
    assert one.op_names == {("model/a/MatMul", "MatMul")}


def test_float32_on_cuda_cores_gains_by_the_peak_rates() -> None:
    # 300 ns at 19.5 TFLOP/s: 300 x (1 - 19.5 / 312) = 281.25 in 16 bits, 300 x (1 - 19.5 / 156) = 262.5 as TF32.
    what_ifs = found(run((LAYER, b.FP32, 300), precision="float32"))
    assert {name: one.gain_ns.mid for name, one in what_ifs.items()} == {
        "mixed_float16": pytest.approx(281.25), "mixed_bfloat16": pytest.approx(281.25),
        "allow_tf32": pytest.approx(262.5),
    }  # fmt: skip


def test_tf32_is_no_change_where_it_was_allowed() -> None:
    """The library chose a kernel without it: allowing it again changes nothing."""
    assert list(found(run((LAYER, b.FP32, 300), precision="tf32"))) == ["mixed_float16", "mixed_bfloat16"]


def test_a_layer_on_cuda_cores_beside_one_on_tensor_cores() -> None:
    # 100 x (1 - 156 / 312) + 200 x (1 - 19.5 / 312) = 50 + 187.5
    one = found(run((LAYER, b.TC, 100), (dense("b"), b.FP32, 200)))["mixed_float16"]
    assert (one.gain_ns.mid, one.ops) == (pytest.approx(237.5), 2)


def test_before_ampere_there_is_float16_alone() -> None:
    assert list(found(run((LAYER, b.FP32, 300), gpu=b.V100))) == ["mixed_float16"]


@pytest.mark.parametrize("devices", [(0,), (0, 1), (0, 1, 2)])
def test_several_gpus_that_do_the_same_are_one_step(devices: tuple[int, ...]) -> None:
    one = found(run((LAYER, b.TC, 300), devices=devices))["mixed_float16"]
    assert (one.gain_ns.mid, one.spent_ns) == (pytest.approx(150), pytest.approx(300))


def test_a_size_saves_half_and_its_column_says_which() -> None:
    """4090 columns run in the tiles of 4096 at half the rate."""
    profile = analysed(run((dense("a", units=4090, dtype="float16"), b.TC, 300)))
    (one,) = profile.what_ifs
    assert (one.change, one.layer, one.dimension, one.size, one.next_size) == ("change_size", "a", "units", 4090, 4096)
    assert exactly(one.gain_ns) == all_at(150)
    assert one.source == "model.py:3"
    (size,) = b.rows(profile, "bad_sizes")
    assert size["saving_ns"] == 150


def test_all_together_counts_each_product_once() -> None:
    # TF32 at half its rate, then 16 bits at the full rate: a quarter is left. Alone each change halves it.
    what_ifs = found(run((dense("a", units=4090), b.TC, 400)))
    assert {name: one.gain_ns.mid for name, one in what_ifs.items()} == {
        "mixed_float16": pytest.approx(200), "mixed_bfloat16": pytest.approx(200), "change_size a": pytest.approx(200),
        "together": pytest.approx(300),
    }  # fmt: skip
    together = what_ifs["together"]
    assert together.spent_ns == pytest.approx(400)
    assert together.holds == (("mixed_float16", None), ("change_size", "a"))


def test_sizes_that_cost_nothing_as_it_is_count_with_a_lower_precision() -> None:
    """On CUDA cores alignment is no matter; in 16 bits 4090 would run at half the rate: 1 - 1/8, then 1 - 1/16."""
    what_ifs = found(run((dense("a", units=4090), b.FP32, 400), precision="float32"))
    assert set(what_ifs) == {"mixed_float16", "mixed_bfloat16", "allow_tf32", "together"}
    assert what_ifs["mixed_float16"].gain_ns.mid == pytest.approx(350)
    assert what_ifs["together"].gain_ns.mid == pytest.approx(375)


def test_what_takes_a_size_changes_with_it_where_one_layer_alone_puts_it_out() -> None:
    """Either side of the number halves its own product."""
    layers = (dense("a", units=2042), b.TC, 200), (dense("b", size=2042), b.TC, 300)
    what_ifs = found(run(*layers, precision="tf32"))
    assert what_ifs["change_size a"].gain_ns.mid == pytest.approx(250)
    assert what_ifs["change_size a"].ops == 2
    two = found(run(*layers, (dense("c", units=2042), b.TC, 50), precision="tf32"))
    assert two["change_size a"].gain_ns.mid == pytest.approx(100)


def test_no_gain_exceeds_its_share_of_a_step_outside_the_profiler() -> None:
    """Steps of 200 ns hold kernels of 400 ns under the profiler: 300 of these are 150 of it."""
    timed = b.steps(*((n, 200 * n, 200, "after") for n in range(10, 16)))
    one = found(run((LAYER, b.TC, 300), tables=(timed,)))["mixed_float16"]
    assert (one.step_ns, one.spent_ns) == (200, pytest.approx(150))
    assert exactly(one.gain_ns) == all_at(75)


def test_throughput_grows_as_the_step_shrinks() -> None:
    timed = b.steps(*((n, 1000 * n, 1000, "after") for n in range(10, 16)))
    logged = b.metrics(*((n, "throughput", 850.0, "img/s") for n in range(10, 16)))
    one = found(run((LAYER, b.TC, 300), tables=(timed, logged)))["mixed_float16"]
    assert one.throughput is not None
    assert (one.throughput.now, one.throughput.unit) == (850.0, "img/s")
    assert exactly(one.throughput.then) == all_at(1000)


def test_without_a_known_step_gains_are_of_the_capture() -> None:
    rows = [(b.TC, 0, None, 1000 * n, 300) for n in range(4)]
    profile = b.profile(b.launches(*rows), b.details((str(LAYER["op"]), "MatMul")), b.devices(A100), b.graph(LAYER))
    one = found(profile)["mixed_float16"]
    assert (one.gain_ns.mid, one.spent_ns, one.step_ns, one.new_step_ns) == (600, 1200, None, None)
    assert one.throughput is None


def test_ops_of_unknown_class_or_shape_stay_as_they_are() -> None:
    known, unknown = (LAYER, b.TC, 300), (dense("b"), b.UNKNOWN, 200)
    open_ = (b.dense("c", 64, 64, batch=None, dtype="float32"), b.TC, 100)  # type: ignore[arg-type]
    one = found(run(known, unknown, open_))["mixed_float16"]
    assert (one.gain_ns.mid, one.ops, one.unpredicted) == (pytest.approx(150), 1, 2)


def test_a_gain_under_a_hundredth_has_no_row_but_counts() -> None:
    # 18 ns of 1,000 at half the rate save 9, 0.9 %; together with 300 ns at half the rate: 159
    layers = (dense("a", units=4090, dtype="float16"), b.TC, 300), (dense("b", units=4094, dtype="float16"), b.TC, 18)
    what_ifs = found(run(*layers))
    assert list(what_ifs) == ["change_size a", "together"]
    assert what_ifs["together"].gain_ns.mid == pytest.approx(159)


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (b.profile(b.graph(LAYER), gpu_used=False), "no GPU"),
        (run((LAYER, b.FP32, 300), gpu={"name": "GeForce GTX 1650", "compute_capability": "7.5", "sm_count": 14}),
         "no Tensor Cores"),
        (run((LAYER, b.TC, 300), gpu={"name": None, "name_basis": None, "vendor": None, "compute_capability": None,
                                      "sm_count": None}), "which GPU ran"),
        (run(({**LAYER, "op": "elsewhere", "executed_op": "elsewhere2"}, b.TC, 300)).with_tables(
            b.details(("another/MatMul", "MatMul"), ("other", "Relu"))), "no op with known shapes"),
    ],
    ids=["no GPU", "no Tensor Cores", "unknown GPU", "not joined"],
)  # fmt: skip
def test_why_nothing_is_predicted(profile: Profile, why: str) -> None:
    made = analysed(profile)
    assert made.what_ifs == ()
    assert why in made.absent["what_ifs"]


def test_a_window_with_autotuning_is_no_usual_step() -> None:
    tried = run((LAYER, b.TC, 300), (dense("b"), "redzone_checker", 20))
    made = analysed(tried)
    assert made.tuning is not None
    assert "autotuning" in made.absent["what_ifs"]


@pytest.mark.parametrize("more", [{"precision": "mixed_float16"}, {}])
def test_a_run_in_16_bits_has_no_precision_to_lower(more: dict[str, Any]) -> None:
    """A mixed run keeps its last layer in float32."""
    layers = (dense("a", dtype="float16"), b.TC, 300), (dense("last"), b.TC, 300)
    assert found(run(*layers, **more)) == {}


def test_the_table_says_the_same() -> None:
    profile = analysed(run((dense("a", units=4090), b.TC, 400)))
    rows = b.rows(profile, "what_ifs")
    assert [row["change"] for row in rows] == [one.change for one in profile.what_ifs]
    assert [row["gain_ns"] for row in rows] == [one.gain_ns.mid for one in profile.what_ifs]
    last = rows[-1]
    assert (last["new_step_low_ns"], last["new_step_ns"], last["new_step_high_ns"]) == all_at(700)
    assert json.loads(last["holds"]) == [["mixed_float16", None], ["change_size", "a"]]
    assert (last["predicted_for"], last["constants_gpu"]) == ("a100-sxm-40", "a100-sxm-40")
    assert last["basis"] == "measured x calibrated"


def test_shapes_of_the_profile_itself_do_without_a_graph() -> None:
    shapes = {"input_shapes": "[[4096, 4096], [4096, 4096]]", "output_shape": "[4096, 4096]", "dtype": "float32"}
    bare = run((LAYER, b.TC, 300))
    told = [dict(row) for row in bare.require("op_details").rows()]
    told[0].update(shapes, op_type="aten::mm")
    profile = b.profile(*(t for name, t in bare.tables.items() if name not in ("graph_ops", "op_details")))
    one = found(profile.with_tables(b.table(bare.require("op_details").spec, told)))["mixed_float16"]
    assert one.gain_ns.mid == pytest.approx(150)


def test_the_constants_are_those_of_the_run() -> None:
    assert simple is not None
    one = found(run((LAYER, b.TC, 300)), constants=lambda _: None)["mixed_float16"]
    assert one.basis == "measured x predicted"
    assert one.constants is not None
    assert 0 < one.gain_ns.low <= one.gain_ns.mid <= one.gain_ns.high < 300
