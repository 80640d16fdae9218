"""tcprobe/rules/model/shares.py, known_gpu.py: measured and predicted savings by hand, and a GPU that is not known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.rules.model.bad import Bad, bad_sizes
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.rules.model.step import KnownGpu, ProductTime, Step, idle
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Layer, Model
from tests.rules.builders import Network, dense, step_of


def bad(step: Step, layer: str, dimension: str) -> Bad:
    (found,) = (b for b in bad_sizes(step) if (b.dimension.layer, b.dimension.name) == (layer, dimension))
    return found


def timed(model: Model, **times: float) -> Step:
    """Return the step with measured times, in ns a step, by pass; three steps of it were recorded on two GPUs."""
    measured = {
        index: ProductTime(times[str(product.record.pass_)], 6 * times[str(product.record.pass_)])
        for index, product in enumerate(model.products)
        if product.record.pass_ in times
    }
    return Step(model, step_of(model).gpu, measured=measured)


def shares(step: Step) -> list[Range]:
    """Return what 4096 units save of the predicted time of each product."""
    changes = tuple(step.link(LinkedChange("dense_0", "units", 4090, 4096)).changes)
    return [share for index in range(len(step.model.products)) if (share := step.share(index, changes)) is not None]


def test_of_measured_products_the_prediction_gives_the_share_alone() -> None:
    """The saved share of 1,000 ns forward and of 3,000 ns of the weight gradient; 6 times as much was recorded."""
    step = timed(dense(4096, 4090), forward=1000.0, wgrad=3000.0)
    forward, wgrad = shares(step)
    saved = bad(step, "dense_0", "units")
    assert saved.saved is not None
    assert saved.saved.mid == pytest.approx(1000 * forward.mid + 3000 * wgrad.mid)
    assert saved.saved.low == pytest.approx(1000 * forward.low + 3000 * wgrad.low)
    assert saved.saved.high == pytest.approx(1000 * forward.high + 3000 * wgrad.high)
    assert saved.recorded_ns == pytest.approx(6 * saved.saved.mid)
    cost = step.cost(0)
    assert cost is not None and cost.rate_pct is not None
    assert forward.mid == pytest.approx(1 - cost.rate_pct.mid / 100, abs=0.01)


def test_where_one_product_was_not_measured_all_is_predicted() -> None:
    model = dense(4096, 4090)
    part, none = bad(timed(model, forward=1000.0), "dense_0", "units"), bad(step_of(model), "dense_0", "units")
    assert part == none
    assert part.saved is not None
    assert part.recorded_ns is None


def test_measured_sizes_of_one_product_share_what_both_save() -> None:
    """Each alone leaves the product odd; together they make it aligned, at 40 % of the time before."""
    model = dense(4091, 4091)
    inner = replace(model, layers=(replace(model.layers[0], is_last=False),))  # what it puts out is its own to choose
    step = timed(inner, forward=1000.0, wgrad=1000.0)
    found = [bad(step, "dense_0", name).saved for name in ("inputs", "units")]
    both = tuple(change for b in bad_sizes(step) if b.linked for change in b.linked.changes)
    whole = [share.mid for index in (0, 1) if (share := step.share(index, both)) is not None]
    assert sum(saved.mid for saved in found if saved) == pytest.approx(1000 * sum(whole))
    assert found[0] is not None
    assert found[0].mid == pytest.approx(500 * sum(whole), rel=0.01)


def test_a_measured_image_is_left_to_the_measurement() -> None:
    """TF32: 8 filters in place of 1 are predicted not to pay, but a timed kernel may be one that is not predicted."""
    network = Network(4096, "float32")
    network.add("Conv2D", {"filters": 1, "kernel_size": 5, "padding": "same"}, network.input(28, 28, 8), name="dense_0")
    model = network.model()
    assert bad(step_of(model), "dense_0", "filters").suggested is None
    times = dict.fromkeys(("forward", "dgrad", "wgrad"), 1000.0)
    assert bad(timed(model, **times), "dense_0", "filters").suggested == 8


def test_a_product_that_may_not_run_may_save_nothing() -> None:
    model = dense(4096, 4090)
    unsure = replace(model, products=tuple(replace(product, sure=False) for product in model.products))
    sure, maybe = (bad(step_of(m), "dense_0", "units").saved for m in (model, unsure))
    assert sure is not None
    assert sure.low > 0
    assert maybe == Range(0.0, sure.mid, sure.high)


def test_without_the_time_of_one_product_no_saving_is_told() -> None:
    model = dense(4096, 4090)
    forward, wgrad = model.products
    untold = replace(wgrad, record=replace(wgrad.record, dtype=None))
    found = bad(step_of(replace(model, products=(forward, untold))), "dense_0", "units")
    assert (found.suggested, found.saved) == (4096, None)


def test_equal_products_of_many_layers_save_alike() -> None:
    step = step_of(dense(4090, 4090, 4090, 4090))
    middle = [bad(step, f"dense_{number}", "units").saved for number in (0, 1)]
    assert middle[0] is not None
    assert middle[1] is not None
    assert step.cost(3) is step.cost(6)  # both are the forward pass of a layer from 4090 to 4090


def test_an_attention_layer_of_unknown_heads_is_a_layer_like_others() -> None:
    model = dense(4096, 4090)
    layers = (Layer("dense_0", "MultiHeadAttention", "MultiHeadAttention"),)
    assert [b.dimension.name for b in bad_sizes(step_of(replace(model, layers=layers)))] == ["units"]


UNKNOWN = KnownGpu(None, tensor_cores=True, compute_capability=None, tf32=True)


def test_for_an_unknown_gpu_nothing_is_predicted() -> None:
    step = Step(dense(4096, 4090), UNKNOWN)
    assert (step.costs, step.ns) == ((None, None), None)
    assert (bad(step, "dense_0", "units").suggested, bad(step, "dense_0", "units").saved) == (4096, None)
    with pytest.raises(LookupError):
        _ = step.target


@pytest.mark.parametrize(
    ("gpu", "dtype", "why"),
    [
        (UNKNOWN, "float16", None),
        (UNKNOWN, "bfloat16", None),
        (UNKNOWN, "float32", None),
        (UNKNOWN, "float64", "float64"),
        (replace(UNKNOWN, tf32=False), "float32", "plain_float32"),
        (replace(UNKNOWN, compute_capability=(7, 5)), "float32", "plain_float32"),
        (replace(UNKNOWN, compute_capability=(8, 6)), "float32", None),
        (replace(UNKNOWN, tensor_cores=False), "float16", "no_tensor_cores"),
    ],
)
def test_why_no_size_matters(gpu: KnownGpu, dtype: str, why: str | None) -> None:
    found = idle(gpu, dtype)
    assert (found and found.kind) == why


def test_a_calibration_is_asked_for_when_something_is_predicted() -> None:
    asked: list[str] = []
    known = step_of(dense(64, 64)).target

    def target() -> object:
        asked.append("target")
        return known

    gpu = replace(UNKNOWN, target=target)  # type: ignore[arg-type]
    assert bad_sizes(Step(dense(64, 64), gpu)) == ()
    assert not asked
    assert bad_sizes(Step(dense(64, 63), gpu))
    assert asked
