"""The bad sizes of a report are the findings of an audit of the same products."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis import Options, analyse
from tcprobe.cost.predict import Target
from tcprobe.hardware import find_gpu
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Finding
from tcprobe.schema.kinds import GAINLESS, LEAVE
from tcprobe.schema.model import Model, Product
from tests.analysis import builders as b
from tests.rules.builders import Network, tc101, tc103, tc104, tc105, tc106
from tests.support import examples

RULES = (tc101, tc103, tc104, tc105, tc106)
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8")
GPUS = ("a100-sxm-40", "h100-sxm", "v100-sxm2", "t4", "gtx1650", "p100")
SIZES = st.sampled_from([1, 3, 4, 7, 8, 10, 24, 31, 64, 84, 100, 300, 1001, 3087, 4090, 4096])
LAYERS = st.lists(st.tuples(st.booleans(), SIZES, SIZES, st.sampled_from([1, 1, 1, 2, 4])), min_size=1, max_size=4)


def network(layers: list[tuple[bool, int, int, int]], dtype: str) -> Model:
    """Return layers that nothing links, of which no more is known than a graph's op tells."""
    made = Network(256, dtype)
    for number, (dense, taken, out, groups) in enumerate(layers):
        name = f"layer_{number}"
        if dense:
            made.add("Dense", {"units": out}, made.input(taken), name=name)
        else:
            config = {"filters": out * groups, "kernel_size": 3, "groups": groups}
            made.add("Conv2D", config, made.input(14, 14, taken * groups), name=name)
    model = made.model()
    bare = tuple(replace(layer, config={}, is_first=None, is_last=None, input_shapes=()) for layer in model.layers)
    return replace(model, layers=bare, batch=0)


def recorded(product: Product) -> dict[str, Any]:
    """Return the row of `graph_ops` that a product is."""
    record = product.record
    return {
        "op": product.op, "op_type": record.op_type, "layer": product.layer, "layer_class": "Layer",
        "pass": record.pass_, "input_shapes": [list(s) if s else None for s in record.input_shapes],
        "input_dtypes": [record.dtype], "output_shape": list(record.output_shape or ()),
        "attributes": dict(record.attributes), "calls_per_step": product.calls,
    }  # fmt: skip


def judged(model: Model, gpu: str, tf32: bool) -> tuple[dict[tuple[str, str, int], dict[str, Any]], list[Finding]]:
    """Return the rows of a report by layer, dimension and size, and the findings of an audit."""
    run = b.profile(
        b.graph(*map(recorded, model.products)), gpu_used=False, **({} if tf32 else {"precision": "float32"})
    )
    rows = b.rows(analyse(run, Options(target_gpu=gpu, constants=lambda _: None)), "bad_sizes")
    step = Step(model, Target(find_gpu(gpu), tf32=tf32))
    findings = [finding for rule in RULES for finding in rule.check(Subject(model, step, {}))]
    return {(row["layer"], row["dimension"], row["size"]): row for row in rows}, findings


@settings(max_examples=examples(50), deadline=None)
@given(LAYERS, st.sampled_from(DTYPES), st.sampled_from(GPUS), st.booleans())
def test_the_same_sizes_suggestions_and_savings(
    layers: list[tuple[bool, int, int, int]], dtype: str, gpu: str, tf32: bool
) -> None:
    rows, findings = judged(network(layers, dtype), gpu, tf32)
    grouped = {f.layer for f in findings if f.code == "TC103"}
    found = {(str(f.layer), str(f.dimension), f.size or 0): f for f in findings if f.code != "TC103"}
    assert {key for key in rows if key[0] not in grouped} == set(found)
    assert {key[0] for key in rows} >= grouped
    for key, finding in found.items():
        row = rows[key]
        assert finding.suggested in (None, row["next_size"])
        assert row["passes"] == ", ".join(finding.passes)
        told = finding.saving_ns if row["advice_kind"] not in GAINLESS else None
        ends = (None,) * 3 if told is None else (round(told.low), round(told.mid), round(told.high))
        assert (row["saving_low_ns"], row["saving_ns"], row["saving_high_ns"]) == ends
        if told is not None and finding.saving_pct is not None:
            assert row["saving_pct"] == pytest.approx(finding.saving_pct.mid)
        if finding.severity is None:  # by its cost, which is no reason to leave it
            assert row["advice_kind"] not in LEAVE - {"off_tensor_cores"}


@pytest.mark.parametrize(
    ("channels", "groups", "kind"),
    [(4, 32, "fewer_groups"), (3, 2, "fewer_groups"), (12, 4, "fewer_groups"), (1, 128, "small_dimension")],
)
def test_channels_of_a_group_are_no_image(channels: int, groups: int, kind: str) -> None:
    rows, findings = judged(network([(False, channels, channels, groups)], "float16"), "a100-sxm-40", True)
    assert [f.code for f in findings] == ["TC103"]
    assert {(key[1], row["advice_kind"]) for key, row in rows.items()} == {("channels", kind), ("filters", kind)}


def test_bfloat16_before_compute_capability_8_runs_off_tensor_cores_whatever_is_known() -> None:
    """Without the batch no rate is predicted, and that of large products of another GPU would be wrong."""
    model = network([(True, 4096, 4090, 1)], "bfloat16")
    open_ = b.graph(b.dense("a", 4096, 4090, batch=None, dtype="bfloat16"))  # type: ignore[arg-type]
    (row,) = b.rows(analyse(b.profile(open_, gpu_used=False), Options(target_gpu="t4")), "bad_sizes")
    assert row["advice"] == "no effect: forward does not use Tensor Cores on a Tesla T4"
    assert [r["advice_kind"] for r in judged(model, "t4", True)[0].values()] == ["off_tensor_cores"]


@pytest.mark.parametrize(("dtype", "gpu"), [("float32", "v100-sxm2"), ("float64", "a100-sxm-40"), ("float16", "p100")])
def test_a_tiny_head_is_left_alone_whatever_it_computes_in(dtype: str, gpu: str) -> None:
    """Lower precision would not make it count."""
    rows, findings = judged(network([(True, 64, 10, 1)], dtype), gpu, True)
    assert [row["advice_kind"] for row in rows.values()] == ["small_head"]
    assert [finding.why and finding.why.kind for finding in findings] == ["tiny_product"]


def test_a_gradient_that_knows_features_only_is_named_by_its_forward_op() -> None:
    """The gradient of a sequence's weights, sample by sample: 30 columns, multiplied over 50 steps."""
    forward = {
        "op": "m/a/MatMul", "op_type": "BatchMatMulV2", "layer": "a", "layer_class": "Dense", "pass": "forward",
        "input_shapes": [[8, 50, 100], [100, 30]], "input_dtypes": ["float16"], "output_shape": [8, 50, 30],
        "attributes": {"adj_x": False, "adj_y": False},
    }  # fmt: skip
    shapes = {"input_shapes": [[8, 100, 50], [8, 50, 30]], "output_shape": [8, 100, 30]}
    gradient = {**forward, "op": "grad/a/MatMul", "pass": "wgrad", **shapes}
    rows = b.rows(analyse(b.profile(b.graph(forward, gradient), gpu_used=False)), "bad_sizes")
    assert {(row["dimension"], row["size"], row["passes"]) for row in rows} == {
        ("inputs", 100, "forward"), ("units", 30, "forward, wgrad"), ("features", 50, "wgrad"),
    }  # fmt: skip
