"""tcprobe/rules/model/step.py, links.py, sizes.py: costs of a step, sizes that belong together, what a change saves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.cost.predict import Cost, op_cost
from tcprobe.cost.spread import pooled
from tcprobe.report.audit.words import sentence_of
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Model
from tcprobe.schema.op import OpRecord
from tests.rules.builders import Network, dense, raw, record_after, step_of


def changes(linked: list[LinkedChange]) -> set[tuple[str, str, int, int]]:
    return {(c.layer, c.dimension, c.old, c.new) for c in linked}


def test_a_step_is_the_sum_of_its_products_times_their_calls() -> None:
    model = dense(512, 1024, 256)
    step = step_of(model)
    assert step.costs == tuple(op_cost(p.record, step.target, None, None) for p in model.products)
    assert step.ns is not None
    launches = [c.launch_ns for c in step.costs if c]
    assert min(launches) > 5000  # a framework's, us beside a kernel
    kernels = pooled(Range(*c.ends_ns) for c in step.costs if c)
    assert step.ns.low == pytest.approx(kernels.low)  # the host may run ahead of the GPU
    assert step.ns.mid == pytest.approx(kernels.mid + sum(launches))
    assert step.ns.high == pytest.approx(kernels.high + sum(launches))
    # a saving has the errors of all its products in common, and so has the step that it is a share of
    least, likely, most = (sum(ends) for ends in zip(*(c.ends_ns for c in step.costs if c), strict=True))
    share = step.share_pct(Range(least, likely + sum(launches), most + sum(launches)))
    assert share == Range(*[pytest.approx(100.0)] * 3)
    twice = Network(batch=8192)
    twice.add("Dense", {"units": 1024}, twice.input(512), calls=2)
    once = dense(512, 1024)
    assert step_of(twice.model()).ns == step_of(once).ns.scaled(2)  # type: ignore[union-attr]


def test_nothing_that_can_be_predicted_is_no_time() -> None:
    unknown = raw(OpRecord("MatMul", ((None, 64), (64, 64)), (None, 64), {}, "float16", "forward"))
    step = step_of(unknown)
    assert step.costs == (None,)
    assert step.ns is None
    assert step.share_pct(Range(1, 1, 1)) is None
    assert step.saving([LinkedChange("matmul", "units", 64, 72)]) is None
    assert step_of(Model("traced", "", "")).ns is None


def test_the_dtype_asked_for_replaces_the_models() -> None:
    model = dense(4096, 4096)
    assert step_of(model, dtype="float32").dtype_of(0) == "float32"
    assert step_of(model).dtype_of(0) == "float16"
    half, full = step_of(model).ns, step_of(model, dtype="float32", tf32=False).ns
    assert half is not None
    assert full is not None
    assert full.mid > 5 * half.mid  # 19.5 against 312 TFLOP/s


def test_4090_units_saves_what_the_measured_rate_says() -> None:
    """float16 on an A100, even but not a multiple of 8: its products run at 136.9 TFLOP/s, one of five at 130."""
    bad, good = step_of(dense(4096, 4090, 4096)), step_of(dense(4096, 4096, 4096))
    saved = bad.saving(bad.link(LinkedChange("dense_0", "units", 4090, 4096)).changes)
    assert saved is not None
    assert bad.ns is not None
    assert good.ns is not None
    assert 5 * 2e-3 * 8192 * 4096 * 4090 / bad.ns.mid == pytest.approx(136.9, rel=0.09)
    assert saved.mid == pytest.approx(bad.ns.mid - good.ns.mid, rel=1e-6)
    assert saved.low <= saved.mid <= saved.high
    share = bad.share_pct(saved)
    assert share is not None
    assert share.mid == pytest.approx(100 * (1 - good.ns.mid / bad.ns.mid), abs=0.1)


def test_units_and_what_takes_them_are_one_number() -> None:
    step = step_of(dense(64, 100, 32))
    assert changes(step.link(LinkedChange("dense_0", "units", 100, 104)).changes) == {
        ("dense_0", "units", 100, 104),
        ("dense_1", "inputs", 100, 104),
    }
    assert changes(step.link(LinkedChange("dense_1", "inputs", 100, 104)).changes) == {
        ("dense_0", "units", 100, 104),
        ("dense_1", "inputs", 100, 104),
    }
    assert changes(step.link(LinkedChange("dense_0", "inputs", 64, 72)).changes) == {("dense_0", "inputs", 64, 72)}


def test_units_that_become_channels_change_by_a_multiple() -> None:
    """3087 = 49 x 63: the next multiple of 8 is 3088, which is no image; 49 x 64 = 3136 is."""
    network = Network()
    units = network.add("Dense", {"units": 3087}, network.input(100), name="dense")
    image = network.add("Reshape", {"target_shape": (7, 7, 63)}, units)
    network.add("Conv2D", {"filters": 64, "kernel_size": 5, "padding": "same"}, image, name="conv")
    step = step_of(network.model())
    assert step.link(LinkedChange("dense", "units", 3087, 3088)).changes == (
        LinkedChange("dense", "units", 3087, 3136),
        LinkedChange("conv", "channels", 63, 64),
    )
    assert step.link(LinkedChange("dense", "units", 3087, 3136)).changes[0].new == 3136
    assert step.link(LinkedChange("conv", "channels", 63, 64)).reason is None
    assert changes(step.link(LinkedChange("conv", "channels", 63, 64)).changes) == changes(
        step.link(LinkedChange("dense", "units", 3087, 3136)).changes
    )


def test_units_that_become_an_image_stay() -> None:
    """784 are 28 x 28 pixels: neither 768 nor 792 can be reshaped to them."""
    network = Network()
    units = network.add("Dense", {"units": 784}, network.input(1024), name="dense")
    relu = network.add("Activation", {}, units, name="relu", inputs_from=("dense",))
    image = network.add("Reshape", {"target_shape": (28, 28, 1)}, relu, name="image", inputs_from=("relu",))
    network.add("Dense", {"units": 512}, network.add("Flatten", {}, image), name="judge")
    step = step_of(network.model())
    for new in (768, 792, 1568):
        link = step.link(LinkedChange("dense", "units", 784, new))
        assert link.changes == (LinkedChange("dense", "units", 784, new),)
        assert link.reason is not None
        assert sentence_of(link.reason) == "'image' gives it the shape (28, 28, 1)"


def test_filters_that_are_flattened_change_what_follows_by_a_multiple() -> None:
    network = Network()
    image = network.add(
        "Conv2D", {"filters": 63, "kernel_size": 3, "padding": "same"}, network.input(7, 7, 8), name="c"
    )
    network.add("Dense", {"units": 8}, network.add("Flatten", {}, image), name="head")
    step = step_of(network.model())
    assert changes(step.link(LinkedChange("c", "filters", 63, 64)).changes) == {
        ("c", "filters", 63, 64),
        ("head", "inputs", 3087, 3136),
    }


def test_what_is_added_changes_together() -> None:
    network = Network()
    settings = {"filters": 60, "kernel_size": 3, "padding": "same"}
    one = network.add("Conv2D", settings, network.input(8, 8, 16), name="one")
    two = network.add("Conv2D", settings, one, name="two")
    network.add("Conv2D", {"filters": 64, "kernel_size": 1}, network.add("Add", {}, one, two), name="three")
    step = step_of(network.model())
    together = {
        ("one", "filters", 60, 64),
        ("two", "channels", 60, 64),
        ("two", "filters", 60, 64),
        ("three", "channels", 60, 64),
    }
    assert changes(step.link(LinkedChange("one", "filters", 60, 64)).changes) == together
    assert changes(step.link(LinkedChange("two", "filters", 60, 64)).changes) == together


def test_what_is_concatenated_changes_the_sum_by_the_difference() -> None:
    network = Network()
    image = network.input(8, 8, 16)
    parts = [network.add("Conv2D", {"filters": f, "kernel_size": 1}, image, name=n) for f, n in ((20, "a"), (44, "b"))]
    joined = network.add("Concatenate", {"axis": -1}, *parts)
    network.add("Conv2D", {"filters": 64, "kernel_size": 1}, joined, name="c")
    step = step_of(network.model())
    assert changes(step.link(LinkedChange("a", "filters", 20, 24)).changes) == {
        ("a", "filters", 20, 24),
        ("c", "channels", 64, 68),
    }
    both = step.links.settled(
        (
            *step.link(LinkedChange("a", "filters", 20, 24)).changes,
            *step.link(LinkedChange("b", "filters", 44, 48)).changes,
        )
    )
    assert ("c", "channels", 64, 72) in changes(list(both))


def test_a_link_that_cannot_be_told_leaves_the_change_alone_and_says_why() -> None:
    network = Network()
    image = network.add("Conv2D", {"filters": 60, "kernel_size": 1}, network.input(8, 8, 16), name="a")
    network.add("Conv2D", {"filters": 60, "kernel_size": 1, "groups": 4}, image, name="grouped")
    linked = step_of(network.model()).link(LinkedChange("a", "filters", 60, 64))
    assert linked.changes == (LinkedChange("a", "filters", 60, 64),)
    assert linked.reason is not None
    assert sentence_of(linked.reason) == "'grouped' is a grouped convolution"


def test_an_images_filters_change_alone() -> None:
    network = Network()
    image = network.add(
        "Conv2D", {"filters": 1, "kernel_size": 5, "padding": "same"}, network.input(28, 28, 8), name="g"
    )
    network.add("Conv2D", {"filters": 24, "kernel_size": 5}, image, name="d")
    assert changes(step_of(network.model()).link(LinkedChange("g", "filters", 1, 8)).changes) == {
        ("g", "filters", 1, 8)
    }


def test_each_product_counts_once_with_all_its_changes() -> None:
    step = step_of(dense(100, 4091, 64))
    alone = step.saving([LinkedChange("dense_0", "units", 4091, 4096)])
    inputs = step.saving([LinkedChange("dense_0", "inputs", 100, 104)])
    both = step.saving([LinkedChange("dense_0", "units", 4091, 4096), LinkedChange("dense_0", "inputs", 100, 104)])
    assert alone is not None
    assert inputs is not None
    assert both is not None
    assert both.mid > alone.mid + inputs.mid  # mending one leaves the product unaligned
    assert step.saving([]) is None


def test_a_recurrent_layers_units_change_in_all_its_products() -> None:
    network = Network(batch=1024)
    state = network.add("LSTM", {"units": 100, "return_sequences": True}, network.input(50, 64), name="lstm")
    network.add("Dense", {"units": 64}, state, name="head")
    step = step_of(network.model())
    linked = step.link(LinkedChange("lstm", "units", 100, 104)).changes
    assert changes(linked) == {("lstm", "units", 100, 104), ("head", "inputs", 100, 104)}
    after = record_after(step, 0, linked)
    assert after.shape(1) == (1, 1024, 104)
    assert after.shape(0) == (50, 1024, 64)


def test_what_an_attention_layer_takes_is_told_apart_from_its_heads_of_the_same_size() -> None:
    network = Network(32)
    words = network.add("Embedding", {"input_dim": 5000, "output_dim": 250}, network.input(128), name="words")
    attended = network.add("MultiHeadAttention", {"num_heads": 2, "key_dim": 250}, words, words, name="mha")
    network.add("Dense", {"units": 64}, network.add("Add", {}, words, attended), name="head")
    step = step_of(network.model())
    linked = step.link(LinkedChange("words", "output_dim", 250, 256)).changes
    assert changes(linked) == {
        ("words", "output_dim", 250, 256),
        ("mha", "inputs", 250, 256),
        ("mha", "units", 250, 256),
        ("head", "inputs", 250, 256),
    }
    taken, put_out = step.sizes.input("mha"), step.sizes.output("mha")
    assert taken is not None
    assert put_out is not None
    assert (taken.size, put_out.size) == (250, 250)
    first, last, scores = 0, 15, 9  # of the queries' projection, the output's, and the scores
    assert [record_after(step, first, linked).shape(n) for n in (0, 1)] == [(32, 128, 256), (256, 500)]
    assert [record_after(step, last, linked).shape(n) for n in (0, 1)] == [(32, 128, 500), (500, 256)]
    assert record_after(step, scores, linked) == step.model.products[scores].record


@given(st.integers(17, 5000), st.integers(17, 5000))
def test_a_change_to_the_same_size_saves_nothing(inputs: int, units: int) -> None:
    step = step_of(dense(inputs, units, 64))
    saved = step.saving([LinkedChange("dense_0", "units", units, units)])
    assert saved is None or saved.mid == 0


@given(st.integers(17, 3000).filter(lambda n: n % 8))
def test_mending_a_wide_layer_never_costs(units: int) -> None:
    step = step_of(dense(4096, units, 4096))
    saved = step.saving(step.link(LinkedChange("dense_0", "units", units, -(-units // 8) * 8)).changes)
    assert saved is not None
    assert saved.mid >= 0


@given(st.lists(st.floats(0, 1e9), min_size=3, max_size=3), st.lists(st.floats(0, 1e9), min_size=3, max_size=3))
def test_a_share_of_any_time_is_at_most_1_and_of_none_unknown(before: list[float], after: list[float]) -> None:
    times = {63: sorted(before), 64: sorted(after)}

    def cost(record: OpRecord, *_: object) -> Cost:
        low, mid, high = times[max(shape[-1] or 0 for shape in record.input_shapes if shape)]
        return Cost(low, mid, high, "compute", "yes")

    step = step_of(dense(8, 63))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcprobe.rules.model.step.op_cost", cost)
        found = step.share(0, [LinkedChange("dense_0", "units", 63, 64)])
    if times[63][0] == 0:
        assert found is None
    else:
        assert found is not None
        assert found.low <= found.mid <= found.high <= 1


def test_padding_is_judged_over_all_products_of_a_size() -> None:
    large, small = (step_of(dense(4096, 4090, 4096, batch=batch)) for batch in (8192, 256))
    (found, other) = (step.padding_pct(step.products_of("dense_0")) for step in (large, small))
    assert found is not None and other is not None
    assert 0 < found.low < found.mid < found.high < 100
    assert other.low <= 0  # the weights weigh more
    borrowed = step_of(dense(4096, 4090, 4096, batch=8192), gpu="rtx4090").padding_pct([0])
    assert borrowed is not None and borrowed.low < 0 < borrowed.mid < borrowed.high < 100
    assert step_of(dense(4096, 4096)).padding_pct([0, 1]) is None
    assert step_of(dense(4096, 4090), xla=True).padding_pct([0, 1]) is None  # XLA pads it


@pytest.mark.parametrize(("width", "known"), [(2, True), (64, False)])
def test_what_has_no_time_weighs_by_what_it_multiplies_at_least(width: int, known: bool) -> None:
    """Two products of 8 x 8 x 8 beside one of `width` x unknown x 8: half of all products at least have a time."""
    plain = {"transpose_a": False, "transpose_b": False}
    record = OpRecord("MatMul", ((8, 8), (8, 8)), (8, 8), plain, "float16", "forward")
    open_ = replace(record, input_shapes=((width * 16, None), (None, 8)), output_shape=(width * 16, 8))
    (product,) = raw(record).products
    step = step_of(replace(raw(record), products=(product, product, replace(product, record=open_))))
    timed = 2 * 512 / (2 * 512 + width * 16 * 8)
    assert step.timed_share == pytest.approx(min(2 / 3, timed))
    assert step.is_mostly_known is known


@pytest.mark.parametrize(("unknown", "short"), [(0, True), (1, True), (3, False)])
def test_a_step_is_short_with_the_mean_for_what_has_no_time(unknown: int, short: bool) -> None:
    """8192 x 4096 x 1024 is 69 GFLOP: 0.22 ms at float16's peak of 312 TFLOP/s, 0.33 as predicted, and four 1.3."""
    plain = {"transpose_a": False, "transpose_b": False}
    record = OpRecord("MatMul", ((8192, 1024), (1024, 4096)), (8192, 4096), plain, "float16", "forward")
    blank = replace(record, input_shapes=((None, None), (None, None)), output_shape=None)
    model = raw(record)
    (product,) = model.products
    model = replace(model, products=(product, *[replace(product, record=blank)] * unknown))
    assert step_of(model).is_short is short
