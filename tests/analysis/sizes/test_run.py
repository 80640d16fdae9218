"""What the next size saves: worked by hand on a GPU of simple constants, and held against the audit's words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tcprobe.analysis import Options, analyse, flow
from tcprobe.analysis.ops.attribution import graph_record
from tcprobe.analysis.sizes.run import gpu_batch, with_batch
from tcprobe.cost.constants import Constants, Multiplier, Rate
from tcprobe.cost.predict import Target, op_cost
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.report.audit.words import message
from tcprobe.rules.base import Subject
from tcprobe.rules.model import step
from tcprobe.rules.model.step import Step
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.op import OpRecord, Shape
from tests.analysis import builders as b
from tests.rules.builders import tc101

COLUMNS_OF_CONSTANTS = ("constants_gpu", "constants_stack", "constants_borrowed")
COLUMNS = ("saving_low_ns", "saving_ns", "saving_high_ns", "saving_pct", "saving_basis")
NOTHING_KNOWN = (None,) * 5
# One tile of 128 x 128 at the full peak, no launch, nothing hidden, half the rate for even sizes: an A100 (312 TFLOP/s)
# takes 2 * 4096^3 / 312e12 s = 440,509.5 ns for 4096 x 4096 x 4096, twice that for 4090 columns in the same 32 tiles.
ALIGNED_NS = 2 * 4096**3 / 312e3
SIMPLE = Rate(
    1.0, 1.0, t0_ns=0.0, split_ns=0.0, fill_k=0.0, l2_speed=1.0, l2_share=0.01, quantised=0.0, sharp=200.0,
    tiles=((128, 128, 1.0),), spread=(1.0, 1.0, 1.0),
)  # fmt: skip


def simple(gpu: Gpu) -> Constants:
    half = {"gemm:tc16:even": Multiplier(0.5, 0.5, 0.5)}
    return Constants(gpu.id, "by hand", "calibrated", {"tc16": SIMPLE}, {}, half)


def unmeasured(gpu: Gpu) -> Constants | None:
    return None


def found(*records: dict[str, Any], constants: Any = unmeasured, **metadata: Any) -> dict[tuple[Any, Any], Any]:
    target = metadata.pop("target_gpu", None)
    options = Options(target_gpu=target, constants=constants)
    run = analyse(b.profile(b.graph(*records), gpu_used=False, **metadata), options)
    return {(r["layer"], r["dimension"]): r for r in b.rows(run, "bad_sizes")}


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column] for column in COLUMNS)


def test_half_the_time_of_one_product_by_hand() -> None:
    row = found(b.dense("a", 4096, 4090, batch=4096), constants=simple)["a", "units"]
    assert told(row)[:3] == (round(ALIGNED_NS),) * 3
    assert row["saving_pct"] == pytest.approx(50)
    assert row["saving_basis"] == "calibrated"


def test_an_op_that_runs_twice_saves_twice_and_a_good_layer_halves_its_share() -> None:
    records = (b.dense("a", 4096, 4090, batch=4096, calls_per_step=2.0), b.dense("z", 4096, 4096, batch=4 * 4096))
    row = found(*records, constants=simple)["a", "units"]
    assert row["saving_ns"] == round(2 * ALIGNED_NS)
    assert row["saving_pct"] == pytest.approx(100 * 2 / (4 + 4))


def test_two_bad_sizes_of_one_product_share_what_both_save() -> None:
    """Either alone leaves the product unaligned and saves nothing."""
    rows = found(b.dense("a", 4090, 4090, batch=4096), constants=simple)
    assert [rows["a", name]["saving_ns"] for name in ("inputs", "units")] == [round(ALIGNED_NS / 2)] * 2


def test_rows_of_a_layer_add_up_to_what_the_cost_model_says_of_both() -> None:
    sizes = ((4090, 3087), (4096, 3088))
    before, after = (
        op_cost(
            OpRecord("MatMul", ((512, k), (k, n)), (512, n), {}, "float16", "forward"), Target(find_gpu("h100-sxm"))
        )
        for k, n in sizes
    )
    assert before and after
    rows = found(b.dense("a", 4090, 3087, batch=512), target_gpu="h100-sxm")
    assert sum(row["saving_ns"] for row in rows.values()) == pytest.approx(before.ns - after.ns, abs=2)


def timed(*devices: int, gpu: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """A layer whose kernel takes 300 ns a step on each GPU, beside 100 ns of others."""
    rows = [(b.TC, 0, i, 1000 * i, 300, d) for i in range(5) for d in devices]
    rows += [(b.OTHER, 1, i, 1000 * i + 500, 100, d) for i in range(5) for d in devices]
    names = b.details(("model/a/MatMul", "MatMul"), ("other", "Relu"))
    run = b.profile(
        b.launches(*rows), names, b.devices(*({"device": d, **(gpu or {})} for d in devices)),
        b.graph(b.dense("a", 4096, 4090, batch=4096)),
    )  # fmt: skip
    (row,) = b.rows(analyse(run, Options(constants=simple, **options)), "bad_sizes")
    return row


@pytest.mark.parametrize("devices", [(0,), (0, 1)])
def test_where_kernels_were_measured_the_prediction_gives_the_share_alone(devices: tuple[int, ...]) -> None:
    row = timed(*devices)
    assert row["share_pct"] == 75.0
    assert told(row) == (150, 150, 150, pytest.approx(37.5), "measured x calibrated")


UNKNOWN_GPU = {
    "name": None, "name_basis": None, "vendor": None, "compute_capability": None, "sm_count": None,
}  # fmt: skip


def test_a_gpu_that_nobody_names_is_that_of_the_target_only_where_somebody_chose_it() -> None:
    assert told(timed(0, gpu=UNKNOWN_GPU)) == NOTHING_KNOWN
    assert told(timed(0, gpu=UNKNOWN_GPU, target_gpu="h100-sxm"))[1:2] == (150,)


GROUPED = {
    "input_shapes": [[4, 28, 28, 48], [5, 5, 12, 48]], "output_shape": [4, 28, 28, 48],
    "input_dtypes": ["float16", "float16"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "options"),
    [
        (b.dense("a", 4096, 4090, batch=None), {}),  # type: ignore[arg-type]
        (b.dense("a", 4096, 10, batch=4096), {}),
        (b.conv("a", 28, 3, 64), {}),
        (b.dense("a", 4096, 4090, batch=4096, dtype="float32"), {"precision": "float32"}),
        (b.dense("a", 4096, 4090, batch=4096), {"target_gpu": "gtx1650"}),
        (b.dense("a", 4096, 4092, batch=4096, dtype="float32"), {}),
        ({**b.conv("a", 28, 48, 48), **GROUPED}, {}),
        (b.dense("a", 4096, 4090, batch=4096, dtype="complex64"), {}),
    ],
    ids=["no batch", "tiny head", "image", "no TF32", "no Tensor Cores", "4 do for TF32", "groups", "dtype"],
)
def test_nothing_is_said_of_what_is_unknown_or_best_left(record: dict[str, Any], options: dict[str, Any]) -> None:
    rows = found(record, **options)
    assert rows
    assert {told(row) for row in rows.values()} == {NOTHING_KNOWN}


def test_what_a_step_runs_as_decides() -> None:
    def saved(dtype: str = "float16", **options: Any) -> int:
        row = found(b.dense("a", 4096, 4090, batch=4096, dtype=dtype), **options)["a", "units"]
        return int(row["saving_ns"])

    plain = saved()
    assert 0 < saved(xla=True) < plain / 2  # XLA pads: what is left is the copies
    assert saved("float32") > plain  # TF32, at half the rate
    assert saved(target_gpu="h100-sxm") < saved(target_gpu="a100-sxm-40")


def test_an_op_that_may_not_execute_may_save_nothing() -> None:
    row = found(b.dense("a", 4096, 4090, batch=4096, executes="unknown"))["a", "units"]
    assert (row["saving_low_ns"], row["saving_ns"] > 0) == (0, True)


def test_the_largest_saving_comes_first_where_nothing_was_measured() -> None:
    small = b.dense("much arithmetic", 8192, 8184 + 8, batch=4096)
    rows = found(small, b.dense("even", 4096, 4090, batch=4096), b.dense("odd", 4096, 4091, batch=4096))
    assert [layer for layer, _ in rows] == ["odd", "even"]


@pytest.fixture
def no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the predicted step of a run without a GPU, which is of all its products."""
    monkeypatch.setattr(flow, "predicted_steps", lambda *_: None)


@pytest.mark.usefixtures("no_step")
def test_equal_ops_are_predicted_once_and_only_where_a_size_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[OpRecord] = []

    def counted(record: OpRecord, target: Target, *how: Any) -> Any:
        asked.append(record)
        return op_cost(record, target, *how)

    monkeypatch.setattr(step, "op_cost", counted)
    found(*(b.dense(f"good{i}", 4096, 4096 + 8 * i) for i in range(50)))
    assert not asked
    found(*(b.dense(f"bad{i}", 1001, 1003) for i in range(50)))
    # As it is, either size changed, both changed; two sizes a little smaller than the suggested ones.
    assert len(asked) == 6


@pytest.mark.usefixtures("no_step")
def test_no_calibration_is_read_for_sizes_that_are_good() -> None:
    def unreadable(gpu: Gpu) -> Constants | None:
        raise AssertionError(gpu.id)

    assert found(b.dense("a", 4096, 4096), constants=unreadable) == {}


RATES = re.compile(r"(forward|dgrad|wgrad).* at (\d+-\d+) % of an aligned one on [^,;]*|next to nothing: [^;]*")


@pytest.mark.parametrize("gpu", ["a100-sxm-40", "h100-sxm", "v100-sxm2", "t4"])
@pytest.mark.parametrize("xla", [True, False])
@pytest.mark.parametrize(
    ("dtype", "units", "batch"),
    [("float16", 4091, 4096), ("bfloat16", 4090, 4096), ("float32", 4090, 4096), ("float16", 99, 16)],
)
def test_the_audit_says_the_same(gpu: str, xla: bool, dtype: str, units: int, batch: int) -> None:
    made = b.dense("a", 512, units, batch=batch, dtype=dtype)
    layer = Layer("a", "Dense", "Dense", input_shapes=((batch, 512),), output_shape=(batch, units), is_first=True)
    product = Product(graph_record(b.graph(made), 0), "a", compiled=xla)
    model = Model("traced", "m", "m.py", layers=(layer,), products=(product,))
    (audited,) = tc101.check(Subject(model, Step(model, Target(find_gpu(gpu), xla=xla)), {}))
    row = found(made, target_gpu=gpu, xla=xla)["a", "units"]
    advice = row["advice"]
    if row["predicted_for"] is not None and audited.constants is not None:
        assert {c: row[c] for c in COLUMNS_OF_CONSTANTS} == audited.constants.columns()
    assert (row["saving_ns"] is None) or row["predicted_for"] == gpu
    said, again = RATES.search(message(audited)), RATES.search(advice)
    assert (said and said[0]) == (again and again[0])
    assert said or "no effect" in message(audited) or "not use Tensor Cores" in message(audited)


def product(op_type: str, pass_: str, inputs: tuple[Shape, ...], output: Shape) -> Product:
    return Product(OpRecord(op_type, inputs, output, dtype="float32", pass_=pass_), "layer", 1.0, "op")


@pytest.mark.parametrize(
    ("op_type", "pass_", "inputs", "output", "then_inputs", "then_output"),
    [
        ("MatMul", "forward", ((60, 100), (100, 60)), (60, 60), ((600, 100), (100, 60)), (600, 60)),
        ("MatMul", "dgrad", ((60, 60), (100, 60)), (60, 100), ((600, 60), (100, 60)), (600, 100)),
        ("MatMul", "wgrad", ((60, 100), (60, 60)), (100, 60), ((600, 100), (600, 60)), (100, 60)),
        ("MatMul", "forward", ((120, 100), (100, 7)), (120, 7), ((1200, 100), (100, 7)), (1200, 7)),
        ("BatchMatMulV2", "forward", ((60, 5, 6), (60, 6, 7)), (60, 5, 7), ((600, 5, 6), (600, 6, 7)), (600, 5, 7)),
        (
            "Conv2D", "forward", ((60, 7, 7, 3), (5, 5, 3, 8)), (60, 7, 7, 8), ((600, 7, 7, 3), (5, 5, 3, 8)),
            (600, 7, 7, 8),
        ),
        (
            "Conv2DBackpropInput", "dgrad", ((4,), (5, 5, 3, 8), (60, 7, 7, 8)), (60, 7, 7, 3),
            ((4,), (5, 5, 3, 8), (600, 7, 7, 8)), (600, 7, 7, 3),
        ),
        (
            "Conv2DBackpropFilter", "wgrad", ((60, 7, 7, 3), (4,), (60, 7, 7, 8)), (5, 5, 3, 8),
            ((600, 7, 7, 3), (4,), (600, 7, 7, 8)), (5, 5, 3, 8),
        ),
    ],
)  # fmt: skip
def test_ten_times_the_batch(
    op_type: str, pass_: str, inputs: tuple[Shape, ...], output: Shape, then_inputs: tuple[Shape, ...],
    then_output: Shape,
) -> None:  # fmt: skip
    then = with_batch(product(op_type, pass_, inputs, output), 60, 600).record
    assert (then.input_shapes, then.output_shape) == (then_inputs, then_output)


@pytest.mark.parametrize(
    "made",
    [
        product("MatMul", "forward", ((7, 100), (100, 60)), (7, 60)),  # no multiple of the batch
        product("MatMul", "other", ((60, 100), (100, 60)), (60, 60)),  # which operand is weights is not known
        product("Einsum", "forward", ((60, 100), (100, 60)), (60, 60)),
    ],
)
def test_where_the_batch_is_not_known_nothing_is_made_up(made: Product) -> None:
    with pytest.raises(ValueError, match="batch"):
        with_batch(made, 60, 600)


def test_only_a_run_without_a_gpu_that_logs_both_has_another_batch() -> None:
    logged = b.metrics((0, "cpu_batch", 60.0, ""), (0, "gpu_batch", 4090.0, ""))
    assert gpu_batch(b.profile(logged, gpu_used=False)) == (60, 4090)
    assert gpu_batch(b.profile(logged, gpu_used=True)) is None
    assert gpu_batch(b.profile(b.metrics((0, "gpu_batch", 4090.0, "")), gpu_used=False)) is None
    assert gpu_batch(b.profile(b.metrics((0, "cpu_batch", 0.5, ""), (0, "gpu_batch", 1.0, "")), gpu_used=False)) is None
