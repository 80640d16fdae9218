"""TC101 and how the rules on sizes divide what they tell of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.severity import grade_all
from tcprobe.report.audit.words import message, related, why
from tcprobe.rules.base import Subject
from tcprobe.rules.model.bad import bad_sizes
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.rules.registry import RULES
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.op import OpRecord
from tests.rules.builders import Network, check, dense, found, raw, step_of, tc101, tc104

FLAGS = {"transpose_a": False, "transpose_b": False}
SAME = {"kernel_size": 5, "padding": "same"}


def generator(dtype: str = "float16", batch: int = 4090, sizes: tuple[int, int, int, int] = (63, 63, 31, 7)) -> Network:
    """Return a GAN's generator: noise of 100 to an image of one channel."""
    depth, first, second, third = sizes
    network = Network(batch, dtype)
    last = network.add("Dense", {"units": 49 * depth}, network.input(100), name="dense")
    last = network.add("Reshape", {"target_shape": (7, 7, depth)}, last)
    for number, filters in enumerate((first, second, third)):
        last = network.add("Conv2D", {"filters": filters, **SAME}, last, name=f"conv_{number}")
        if number < 2:
            last = network.add("UpSampling2D", {"size": 2}, last)
    network.add("Conv2D", {"filters": 1, **SAME}, last, name="conv_3")
    return network


def one(findings: list[Finding]) -> Finding:
    assert len(findings) == 1
    return findings[0]


def test_says_what_a_size_does_pass_by_pass_and_what_changes_with_it() -> None:
    finding = one(check(tc101, dense(4096, 4090, 4096)))
    assert message(finding) == (
        "Dense 'dense_0' units=4090 is not a multiple of 8: "
        "forward and wgrad run at 55-62 % of an aligned one on an A100"
    )
    assert (finding.size, finding.suggested, finding.severity) == (4090, 4096, None)
    assert finding.passes == ("forward", "wgrad")  # nothing needs the gradient of the data
    assert [text for _, text in related(finding)] == ["Dense 'dense_1' takes: inputs 4090 -> 4096"]
    assert finding.saving_pct is not None
    assert finding.saving_pct.mid == pytest.approx(42, abs=3)  # of 217 TFLOP/s or so to 137, and in dgrad to 130
    assert finding.basis == "predicted"


def test_is_silent_where_all_is_aligned() -> None:
    assert not check(tc101, dense(4096, 4096, 64))
    assert not check(tc101, dense(4096, 4096, 64, batch=4097))  # the batch is contiguous in no pass


def test_the_generator_of_bad_sizes() -> None:
    findings = check(tc101, generator().model())
    assert found(findings) == [
        ("dense", "inputs", 100, 104),
        ("dense", "units", 3087, 3136),
        ("conv_0", "filters", 63, 64),
        ("conv_1", "filters", 31, 32),
        ("conv_2", "filters", 7, 8),
        ("conv_3", "filters", 1, 8),
    ]
    last = findings[-1]
    assert "(estimated)" in message(findings[-2])
    assert "its weight gradient may fall to a kernel on CUDA cores (26 % of a GAN's step in float16 on an A100)" in (
        message(last)
    )
    assert "keep the first (slice) and measure" in message(last)
    assert last.saving_pct is not None
    assert last.saving_pct.mid > 5
    assert not last.related


def test_the_generator_of_good_sizes_has_only_its_noise_and_its_image() -> None:
    findings = check(tc101, generator(batch=4096, sizes=(64, 64, 32, 8)).model())
    assert found(findings) == [("dense", "inputs", 100, 104), ("conv_3", "filters", 1, 8)]
    assert "; the data sets it, and zeros can fill it up" in message(findings[0])
    assert findings[0].saving_pct is not None
    assert findings[0].saving_pct.mid < 1


def test_an_image_in_tf32_is_left_alone_until_precision_changes() -> None:
    last = check(tc101, generator(batch=4096, sizes=(64, 64, 32, 8), dtype="float32").model())[-1]
    assert (last.dimension, last.size, last.suggested, last.severity) == ("filters", 1, None, "note")
    assert "leave it, 8 filters would cost as much as they gain; in float16 its weight gradient may " in message(last)
    assert message(last).endswith("its weight gradient may leave Tensor Cores: check again then")


def test_bad_sizes_of_one_product_share_what_mending_them_all_saves() -> None:
    """63 and 31 meet in one convolution: mending one of them leaves the other; each gets a half."""
    model = dense(4096, 4091, 4091, 4096)
    findings = check(tc101, model)
    step = step_of(model)
    together = step.saving(
        [c for f in findings for c in step.link(LinkedChange(f.layer, f.dimension, f.size, f.suggested)).changes]
    )  # type: ignore[arg-type]
    assert together is not None
    parts = [f.saving_ns.mid for f in findings if f.saving_ns]
    assert len(parts) == 2
    assert sum(parts) == pytest.approx(together.mid, rel=1e-6)
    assert min(parts) > 0.3 * together.mid


def test_tf32_asks_for_multiples_of_4() -> None:
    free = one(check(tc101, dense(4096, 4092, 4096, dtype="float32")))
    assert free.severity == "note"
    assert why(free) == "costs nothing in TF32, which asks for multiples of 4; float16 asks for 8"
    slow = one(check(tc101, dense(4096, 4090, 4096, dtype="float32")))
    assert slow.severity is None
    assert "run at 52-58 % of an aligned one" in message(slow)


def test_where_no_size_matters_it_is_a_note_with_the_reason() -> None:
    plain = one(check(tc101, dense(4096, 4090, 4096, dtype="float32"), tf32=False))
    assert plain.severity == "note"
    assert why(plain) == "no effect while it computes in float32 without TF32; it counts once precision is lowered"
    late = one(check(tc101, dense(4096, 4090, 4096, dtype="bfloat16"), "v100-sxm2"))
    assert (late.severity, why(late)) == ("note", "no effect: a Tesla V100 has no Tensor Cores for bfloat16")
    volta = one(check(tc101, dense(4096, 4090, 4096, dtype="float32"), "v100-sxm2"))
    assert why(volta) == why(plain)
    pascal = one(check(tc101, dense(4096, 4090, 4096), "p100"))
    assert (pascal.severity, why(pascal)) == ("note", "no effect: a Tesla P100 has no Tensor Cores")


def test_old_libraries_do_not_use_tensor_cores_at_all() -> None:
    finding = one(check(tc101, dense(4096, 4090, 4096), "v100-sxm2", library="cublas10"))
    assert "forward and wgrad do not use Tensor Cores with cuBLAS 10 on a Tesla V100" in message(finding)


def test_xla_pads_what_it_compiles() -> None:
    model = Network(8192, "float16", compiled=True)
    last = model.input(4096)
    for units in (4091, 4096):
        last = model.add("Dense", {"units": units}, last)
    padded = one(check(tc101, model.model()))
    assert "XLA pads it, at the cost of copies: " in message(padded)
    plain = one(check(tc101, dense(4096, 4091, 4096)))
    assert padded.saving_ns is not None
    assert plain.saving_ns is not None
    assert padded.saving_ns.mid < 0.5 * plain.saving_ns.mid


def test_one_byte_asks_for_16() -> None:
    finding = one(check(tc101, dense(4096, 4104, 4096, dtype="int8")))
    assert (finding.size, finding.suggested) == (4104, 4112)
    assert "is not a multiple of 16" in message(finding)


def test_an_embedding_is_told_of_where_its_width_is_set() -> None:
    network = Network(64)
    words = network.add("Embedding", {"input_dim": 8000, "output_dim": 300}, network.input(50), name="embedding")
    network.add("Dense", {"units": 256}, words, name="dense")
    finding = one(check(tc101, network.model()))
    assert (finding.layer, finding.dimension, finding.size, finding.suggested) == ("embedding", "output_dim", 300, 304)
    assert [text for _, text in related(finding)] == ["Dense 'dense' takes: inputs 300 -> 304"]


def test_an_image_that_aligned_units_make_is_the_convolutions_own() -> None:
    """1176 = 8 x 147 units are fine; reshaped to 14 x 14 x 6 they are not."""
    network = Network(4096)
    units = network.add("Dense", {"units": 1176}, network.input(64), name="dense")
    image = network.add("Reshape", {"target_shape": (14, 14, 6)}, units)
    network.add("Conv2D", {"filters": 64, **SAME}, image, name="conv")
    finding = one(check(tc101, network.model()))
    assert (finding.layer, finding.dimension, finding.size, finding.suggested) == ("conv", "channels", 6, 8)


def test_an_op_of_the_users_own() -> None:
    record = OpRecord("MatMul", ((512, 4096), (4096, 1030)), (512, 1030), {}, "float16", "forward")
    finding = one(check(tc101, raw(record, batch=512)))
    assert (finding.layer, finding.dimension, finding.size, finding.suggested) == ("matmul", "units", 1030, 1032)
    assert finding.place is not None
    gradient = OpRecord("MatMul", ((4090, 64), (64, 4090)), (4090, 4090), {}, "float16", "forward")
    assert not check(tc101, raw(gradient, batch=4090))  # the batch against itself
    backward = OpRecord("MatMul", ((512, 1030), (4096, 1030)), (512, 4096), {}, "float16", "dgrad")
    assert not check(tc101, raw(backward, batch=512))  # its forward op tells of it


def test_unknown_sizes_say_so() -> None:
    record = OpRecord("MatMul", ((None, 4096), (4096, 1030)), (None, 1030), FLAGS, "float16", "forward")
    finding = one(check(tc101, raw(record, batch=512)))
    assert finding.saving_ns is None
    assert why(finding) == "how much is unknown: not all sizes of its products are known"


def test_a_size_that_costs_nothing_saves_nothing() -> None:
    finding = one(check(tc101, dense(4096, 4092, 4096, dtype="float32")))
    assert finding.saving_ns == Range(0, 0, 0)
    assert finding.saving_pct == Range(0, 0, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=2, max_size=5), st.sampled_from(["float16", "float32", "bfloat16"]))
def test_every_finding_breaks_the_rule_and_no_dimension_is_told_of_twice(sizes: list[int], dtype: str) -> None:
    model = dense(*sizes, dtype=dtype)
    step = step_of(model)
    findings = [f for rule in RULES if rule.code < "TC2" for f in rule.check(Subject(model, step, {}))]
    sized = [f for f in findings if f.dimension in ("units", "inputs") and f.code != "TC109"]
    assert all(f.size is not None and f.size % 8 for f in sized)
    assert len({(f.layer, f.dimension) for f in findings}) == len(findings)
    told = {(f.layer, f.dimension) for f in sized}
    units = {(f"dense_{i}", "units") for i, size in enumerate(sizes[1:]) if size % 8}
    assert units <= told  # a dimension that breaks the rule is always listed
    assert {b.code for b in bad_sizes(step)} <= {"TC101", "TC104", "TC105"}
    assert all(f.severity == "note" and why(f) for f in findings if f.code == tc104.code)


def image(kind: str, filters: int, dtype: str = "float16", **config: Any) -> Finding:
    """Return the graded finding on the last convolution of a generator that puts out an image."""
    network = Network(batch=4096, dtype=dtype)
    last = network.add("Conv2D", {"filters": 64, "kernel_size": 5, "padding": "same"}, network.input(28, 28, 8))
    network.add(kind, {"filters": filters, "kernel_size": 5, "padding": "same", **config}, last)
    step = step_of(network.model())
    return grade_all(tc101.check(Subject(step.model, step, {})), step)[-1]


def test_a_weight_gradient_of_one_filter_was_timed_and_keeps_its_severity() -> None:
    found = image("Conv2D", 1)
    assert (found.severity, found.evidence) == ("error", "timed")
    assert image("Conv2D", 1, "bfloat16").severity == "error"


@pytest.mark.parametrize("filters", [2, 3, 4])
def test_of_two_to_four_filters_nothing_was_timed(filters: int) -> None:
    found = image("Conv2D", filters)
    assert (found.severity, found.evidence) == ("note", "judged")
    assert found.saving_pct is not None
    assert found.saving_pct.high > 1
    assert "(with 1 filter 26 % of a GAN's step" in message(found)


@pytest.mark.parametrize("filters", [1, 2, 3, 4])
def test_a_transposed_convolution_of_few_filters_fails_no_build(filters: int) -> None:
    """The kernel that was timed takes the weight gradient of an ordinary one."""
    found = image("Conv2DTranspose", filters, strides=2)
    assert found.severity == "note"
    assert "CUDA cores" not in message(found)
