"""TC106 to TC109: heads of attention, recurrent layers off cuDNN, an idle GPU, boundaries of tiles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.report.audit.words import message, why
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.rules.sizes.tiles import with_batch
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Model, Place
from tcprobe.schema.op import OpRecord
from tests.rules.builders import (
    FILE,
    Network,
    check,
    dense,
    found,
    record_after,
    step_of,
    tc101,
    tc104,
    tc106,
    tc107,
    tc108,
    tc109,
)


def one(findings: list[Finding]) -> Finding:
    assert len(findings) == 1
    return findings[0]


def attention(width: int, kind: str = "MultiHeadAttention", **config: Any) -> Model:
    network = Network(32)
    words = network.input(128, width)
    network.add(kind, config, words, words, name="mha")
    return network.model()


def test_the_size_of_a_head_is_told_of_once() -> None:
    model = attention(256, num_heads=10, key_dim=25)
    finding = one(check(tc106, model))
    assert (finding.layer, finding.dimension, finding.size, finding.suggested) == ("mha", "key_dim", 25, 32)
    assert set(finding.passes) >= {"forward", "dgrad", "wgrad"}
    assert finding.saving_ns is not None
    assert not check(tc101, model)  # 10 x 25 is no second finding


def test_heads_that_are_unaligned_though_all_together_are_not() -> None:
    """8 heads of 12 are 96, a multiple of 8; the scores are still multiplied over 12."""
    finding = one(check(tc106, attention(256, num_heads=8, key_dim=12)))
    assert (finding.size, finding.suggested) == (12, 16)
    step = step_of(attention(256, num_heads=8, key_dim=12))
    wide = step.link(LinkedChange("mha", "key_dim", 12, 16)).changes
    changed = [i for i in step.touched(wide[0]) if record_after(step, i, wide) != step.model.products[i].record]
    shapes = [[record_after(step, i, wide).output_shape, *record_after(step, i, wide).input_shapes] for i in changed]
    assert len(changed) == len(step.model.products)  # all of them, no 12 and no 96 left
    assert not [size for product in shapes for shape in product if shape for size in shape if size in (12, 96)]


def test_a_value_of_its_own_size() -> None:
    findings = check(tc106, attention(256, num_heads=4, key_dim=64, value_dim=30))
    assert found(findings) == [("mha", "value_dim", 30, 32)]
    assert not check(tc106, attention(256, num_heads=4, key_dim=64))


def test_grouped_query_attention() -> None:
    model = attention(256, "GroupedQueryAttention", head_dim=20, num_query_heads=8, num_key_value_heads=2)
    assert found(check(tc106, model)) == [("mha", "head_dim", 20, 24)]


def test_a_part_of_an_attention_layer_is_the_layers() -> None:
    """Traced, the projections are layers of their own inside the attention layer."""
    network = Network(32)
    words = network.add("Dense", {"units": 256}, network.input(128, 64), name="before")
    query = network.add("Dense", {"units": 100}, words, name="mha/query")
    model = network.model()
    outer = Layer(
        "mha", "MultiHeadAttention", "MultiHeadAttention", Place(FILE, 9), config={"num_heads": 4, "key_dim": 25}
    )
    model = replace(model, layers=(*model.layers, outer))
    assert query == "mha/query"
    assert found(check(tc106, model)) == [("mha", "key_dim", 25, 32)]
    assert not check(tc101, model)


def lstm(kind: str = "LSTM", **config: Any) -> list[Finding]:
    network = Network(64)
    network.add(kind, {"units": 128, **config}, network.input(20, 64), name="rnn")
    return check(tc107, network.model())


@pytest.mark.parametrize(
    ("kind", "setting", "said"),
    [
        ("LSTM", {"activation": "relu"}, "activation='relu' (cuDNN needs 'tanh')"),
        (
            "LSTM",
            {"recurrent_activation": "hard_sigmoid"},
            "recurrent_activation='hard_sigmoid' (cuDNN needs 'sigmoid')",
        ),
        ("LSTM", {"recurrent_dropout": 0.2}, "recurrent_dropout=0.2 (cuDNN needs 0)"),
        ("GRU", {"unroll": True}, "unroll=True (cuDNN needs False)"),
        ("GRU", {"use_bias": False}, "use_bias=False (cuDNN needs True)"),
        ("GRU", {"reset_after": False}, "reset_after=False (cuDNN needs True)"),
    ],
)
def test_what_keeps_a_layer_off_cudnn(kind: str, setting: dict[str, Any], said: str) -> None:
    finding = one(lstm(kind, **setting))
    assert finding.severity == "warning"
    assert said in message(finding)
    assert finding.saving_ns is None
    assert why(finding) is not None


def test_what_cudnn_runs_is_no_finding() -> None:
    assert not lstm()
    assert not lstm(
        activation="tanh", recurrent_activation="sigmoid", recurrent_dropout=0.0, unroll=False, use_bias=True
    )
    assert not lstm("GRU", reset_after=True, dropout=0.3)
    assert not lstm(reset_after=False)  # no setting of an LSTM
    assert not lstm(activation=...)  # not known
    assert not lstm("SimpleRNN", activation="relu")  # never cuDNN's


def test_a_layer_that_puts_out_choices_is_a_note() -> None:
    layers = [Layer("rnn", "GRU", "GRU", config={"activation": name}) for name in ("softmax", "relu")]
    assert [f.severity for f in check(tc107, Model("source", "", FILE, tuple(layers)))] == ["note", "warning"]


@pytest.mark.parametrize(("steps", "severity"), [(1, "note"), (4, "note"), (5, "warning"), (None, "warning")])
def test_a_loop_over_few_time_steps_is_a_note(steps: int | None, severity: str) -> None:
    layer = Layer("rnn", "LSTM", "LSTM", config={"activation": "relu"}, input_shapes=((None, steps, 7),))
    finding = one(check(tc107, Model("source", "", FILE, (layer,))))
    assert finding.severity == severity
    few = "its sequences have 1 time step, so little is lost"
    assert (why(finding) == few) is (steps == 1)


def test_a_setting_stands_at_its_argument() -> None:
    where = Place(FILE, 7, 30)
    layer = Layer("rnn", "LSTM", "LSTM", Place(FILE, 7), config={"unroll": True}, arguments={"unroll": where})
    assert one(check(tc107, Model("source", "", FILE, (layer,)))).place == where


def test_a_recurrent_layers_units_and_inputs_are_told_of() -> None:
    network = Network(1024)
    gru = network.add("GRU", {"units": 60}, network.input(20, 50), name="gru")
    network.add("Dense", {"units": 8}, gru)
    assert found(check(tc101, network.model())) == [("gru", "inputs", 50, 56), ("gru", "units", 60, 64)]


def test_a_step_of_small_products_is_one_note() -> None:
    finding = one(check(tc108, dense(64, 64, 64, 64, batch=16)))
    assert finding.severity == "note"
    assert "8 of 8 products have fewer tiles than an A100 has multiprocessors (108)" in message(finding)
    assert "a larger batch than 16 would cost little time" in message(finding)


def test_a_step_that_fills_the_gpu_is_none() -> None:
    assert not check(tc108, dense(4096, 4096, 4096, batch=8192))
    assert not check(tc108, dense(4096, 4096, 8, batch=8192))  # the head alone does not
    assert not check(tc108, replace(dense(64, 64, batch=16), batch_known=False))


def test_units_just_past_a_wave() -> None:
    """Somewhere past 2048 units a few more begin another wave of tiles, nearly empty."""
    findings = [f for units in range(2056, 2240, 8) for f in check(tc109, dense(8192, units, 8192, batch=1024))]
    assert findings
    for finding in findings:
        assert finding.size is not None
        assert finding.suggested is not None
        assert 0.97 * finding.size <= finding.suggested < finding.size
        assert finding.suggested % 8 == 0
        assert finding.saving_pct is not None
        assert finding.saving_pct.mid >= 1
        assert finding.saving_ns is not None
        assert finding.saving_ns.low > 0


def test_a_state_that_shrinks_removes_its_products_twice_over() -> None:
    """Of 2000 units to 1984 the recurrent products lose 1.6 % of their work: 1.3 % of the step is no gain beyond it."""
    network = Network(100, "float32")
    state = network.add("LSTM", {"units": 2000, "return_sequences": True}, network.input(249, 4), name="rnn")
    network.add("Dense", {"units": 4}, state)
    assert not [finding for finding in check(tc109, network.model()) if finding.dimension == "units"]


def test_a_power_of_two_is_at_no_boundary() -> None:
    assert not check(tc109, dense(4096, 4096, 4096, batch=4096))


def test_a_batch_just_past_a_tile() -> None:
    finding = one(check(tc109, dense(4096, 4096, 4096, batch=257)))
    assert (finding.dimension, finding.size, finding.suggested, finding.layer) == ("batch", 257, 256, None)
    assert not check(tc109, replace(dense(4096, 4096, 4096, batch=257), batch_known=False))
    assert not check(tc109, dense(4096, 4096, 4096, batch=256))


def test_what_the_data_or_the_output_is_stays() -> None:
    assert not [f for f in check(tc109, dense(2064, 2064, batch=1024)) if f.dimension != "batch"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(100, 3000), min_size=3, max_size=4), st.integers(64, 2000))
def test_never_contradicts_the_rule_of_8(sizes: list[int], batch: int) -> None:
    model = dense(*sizes, batch=batch)
    bad = {(f.layer, f.dimension) for rule in (tc101, tc104) for f in check(rule, model)}
    for finding in check(tc109, model):
        assert (finding.layer, finding.dimension) not in bad
        assert finding.dimension == "batch" or (finding.suggested or 1) % 8 == 0


def test_an_op_with_another_batch() -> None:
    flags = {"transpose_a": False, "transpose_b": False}
    forward = OpRecord("MatMul", ((96, 32), (32, 8)), (96, 8), flags, "float16", "forward")
    changed = with_batch(forward, 32, 16)
    assert changed is not None
    assert (changed.input_shapes, changed.output_shape) == (((48, 32), (32, 8)), (48, 8))
    wgrad = OpRecord("MatMul", ((96, 32), (96, 8)), (32, 8), {"transpose_a": True}, "float16", "wgrad")
    changed = with_batch(wgrad, 32, 16)
    assert changed is not None
    assert (changed.input_shapes, changed.output_shape) == (((48, 32), (48, 8)), (32, 8))
    image = OpRecord("Conv2D", ((32, 8, 8, 3), (3, 3, 3, 32)), (32, 8, 8, 32), {}, "float16", "forward")
    changed = with_batch(image, 32, 16)
    assert changed is not None
    assert (changed.input_shapes, changed.output_shape) == (((16, 8, 8, 3), (3, 3, 3, 32)), (16, 8, 8, 32))
    assert with_batch(replace(forward, input_shapes=((97, 32), (32, 8))), 32, 16) is None
    assert with_batch(OpRecord("Einsum", ((32, 4), (4, 4)), (32, 4), {"equation": "ab,bc->ac"}), 32, 16) is None
