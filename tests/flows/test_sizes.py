"""Every way in for sizes: what is none (below 1, past 2**40, no whole number) is unknown, said, and never judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.settings import Settings
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.audit.trace.model import read_models
from tcprobe.cost import works
from tcprobe.cost.predict import Target, op_cost
from tcprobe.errors import UsageError
from tcprobe.flows.audit.flow import audit
from tcprobe.flows.audit.options import AuditOptions, choose_options
from tcprobe.flows.report import make_report
from tcprobe.gemm.ops import gemms_of
from tcprobe.hardware import find_gpu
from tcprobe.schema.model import Model
from tcprobe.schema.op import LARGEST_SIZE, Gemm, OpRecord, known_size
from tcprobe.schema.profile import Profile
from tests.audit.trace import test_traced as traced
from tests.fixtures.gpu_run.make import RUN
from tests.fixtures.xplane import make as xplane
from tests.fuzz.inputs import load
from tests.readers.nsys.made import Made

ODD = [-1, 0, True, 1.5, "8", LARGEST_SIZE + 1, 10**30, -(10**30)]
TARGET = Target(find_gpu("a100-sxm-40"))
MODEL = """import keras
from keras import layers
model = keras.Sequential([
    keras.Input((32, 32, 3)), layers.Conv2D(30, 3), layers.Flatten(), layers.Dense(62), layers.Dense(10)
])
"""


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_size_is_unknown(odd: Any) -> None:
    assert known_size(odd) is None
    record = OpRecord("MatMul", ((64, odd), (odd, 8)), (64, 8), {"transpose_a": False, "transpose_b": False}, "float16")
    assert record.input_shapes == ((64, None), (None, 8))
    assert op_cost(record, TARGET) is None


def test_the_ends_are_sizes() -> None:
    assert (known_size(1), known_size(LARGEST_SIZE)) == (1, LARGEST_SIZE)


def test_the_cost_model_takes_no_product_of_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(works, "gemms_of", lambda _: [Gemm(-1, 8, -8, 1)])
    with pytest.raises(AssertionError):
        op_cost(OpRecord("MatMul", ((8, 8), (8, 8)), dtype="float16"), TARGET)


def assert_sizes(model: Model) -> None:
    for product in model.products:
        shapes = [shape or () for shape in (*product.record.input_shapes, product.record.output_shape)]
        assert all(size is None or size == known_size(size) for shape in shapes for size in shape)
        sizes = [s for g in gemms_of(product.record) for s in (g.m, g.n, g.k, g.batch)]
        assert all(s is None or s >= 1 for s in sizes)
        op_cost(product.record, TARGET)


@pytest.mark.parametrize("odd", ["-1", "0", "True", "1.5", str(10**15)])
@pytest.mark.parametrize(
    ("place", "to", "what"),
    [
        ("(32, 32, 3)", "(32, 32, 3), batch_size={}", "Input: batch_size at model.py:4"),
        ("(32, 32, 3)", "batch_shape=({}, 32, 32, 3)", "Input: batch_shape at model.py:4"),
        ("(32, 32, 3)", "({}, 32, 3)", "Input: shape at model.py:4"),
        ("62", "{}", "Dense at model.py:4: units"),
        ("30, 3", "{}, 3", "Conv2D at model.py:4: filters"),
        ("30, 3", "30, {}", "Conv2D at model.py:4: kernel_size"),
        ("30, 3", "30, 3, strides=({}, 1)", "Conv2D at model.py:4: strides"),
        ("30, 3", "30, 3, groups={}", "Conv2D at model.py:4: groups"),
        ("Dense(62)", "Dense(62, input_shape=({},))", "Dense at model.py:4: input_shape"),
        ("Flatten()", "Reshape((30, 900)), layers.LSTM({})", "LSTM at model.py:4: units"),
        ("Flatten()", "MaxPooling2D({}), layers.Flatten()", "MaxPooling2D at model.py:4: pool_size"),
    ],
)
def test_source(place: str, to: str, what: str, odd: str) -> None:
    assert place in MODEL
    (model,) = read_model(parse_source(MODEL.replace(place, to.format(odd), 1), "/model.py"))
    assert_sizes(model)
    why = "no whole number" if odd in ("True", "1.5") else "below 1" if odd in ("-1", "0") else "past 2**40"
    assert [u.reason.partition(":")[0] for u in model.unseen if u.what == what] == [f"it is {why}"]


@pytest.mark.parametrize("made", ["zeros(({}, 33))", "zeros((4, 33))[2:{}]", "eye({}, 33)", "reshape(t, ({}, 33))"])
@pytest.mark.parametrize("odd", [-8, 0, 10**15])
def test_arrays_of_source(made: str, odd: int) -> None:
    text = f"import tensorflow as tf\nt = tf.zeros((64, 33))\ntf.matmul(tf.{made.format(odd)}, tf.zeros((33, 63)))\n"
    for model in read_model(parse_source(text, "/model.py")):
        assert_sizes(model)


def test_a_batch_of_none_ends_in_findings(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.replace("32, 3)", "32, 3), batch_size=-1", 1))
    outcome = audit(AuditOptions((str(path),), mode="source"), lambda _: None)
    assert {finding.size for finding in outcome.report.findings()} == {30, 62, 3, 10}


@pytest.mark.parametrize("odd", [-1, 0, True, LARGEST_SIZE + 1])
def test_options(odd: int) -> None:
    with pytest.raises(UsageError, match="--batch-size: at least 1"):
        choose_options(AuditOptions(("model.py",), batch_size=odd), Settings(), ())


@pytest.mark.parametrize("odd", ODD)
def test_traced(odd: Any) -> None:
    made = traced.layer("dense", paths=["net/dense"], input_shapes=[[64, odd]], config={"units": odd})
    found = traced.document([made], batch=odd)
    graph = traced.graph(traced.op(input_shapes=[[odd, 31], [31, odd]], output_shapes=[[odd, odd]]))
    (model,) = read_models(found, graph, traced.FILE, None)
    assert_sizes(model)
    assert (model.batch, model.batch_known) == (1024, False)
    assert model.layers[0].input_shapes == ((64, None),)
    assert model.layers[0].config["units"] is (odd if odd == "8" else ...)
    whats = [u.what for u in model.unseen]
    assert "Dense 'dense': its input" in whats
    assert odd == "8" or "Dense 'dense': units" in whats


def noted(profile: Profile) -> list[str]:
    for gemm in profile.require("gemms").rows():
        assert all(gemm[name] is None or int(gemm[name] or 0) >= 1 for name in "mnk")
    assert not [row for row in profile.require("bad_sizes").rows() if known_size(row["size"]) is None]
    return [note.message for note in profile.metadata.notes if note.code == "impossible-sizes"]


ALONE = " has a size below 1, past 2**40 or of another kind: it counts as unknown"


@pytest.mark.parametrize("odd", ODD)
def test_graph_of_a_run(odd: Any, tmp_path: Path) -> None:
    files = dict(load(RUN).files)
    graph = json.loads(files["probe/graph.json"])
    op = next(op for f in graph["functions"] for op in f["ops"] if op["op_type"] == "MatMul")
    op["input_shapes"][1][-1] = odd
    files["probe/graph.json"] = json.dumps(graph).encode()
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    past_json = isinstance(odd, int) and abs(odd) >= 2**63  # read as unknown
    assert noted(make_report(tmp_path)) == ([] if past_json else [f"{op['op']}{ALONE}"])


@pytest.mark.parametrize("odd", ["-8", "0", str(10**15), str(10**30)])
def test_ranges_of_pytorch(odd: str, tmp_path: Path) -> None:
    made = Made("3.25.0")
    made.gpu(0, "NVIDIA H100 80GB HBM3", smCount=132, computeMajor=9, computeMinor=0, cuDevice=0)
    made.range(f"aten::mm, seq = 7, op_id = 3, sizes = [[{odd}, 16], [16, 8]]", 100, 200_000)
    made.launch("nvjet_tst_128x128_64x6_2x1_v_bz_TNT", 1000, 2000, 300_000)
    assert noted(make_report(made.write(tmp_path / "made.sqlite"))) == [f"aten::mm{ALONE}"]


@pytest.mark.parametrize("odd", [-8, 0, 10**15])
def test_modules_of_xla(odd: int, tmp_path: Path) -> None:
    space = xplane.XSpace.FromString(xplane.serialise("xla"))
    proto = xplane.hlo_module()
    for computation in proto.hlo_module.computations:
        for instruction in computation.instructions:
            if instruction.name == "w":
                instruction.shape.dimensions[1] = odd
    (plane,) = (plane for plane in space.planes if plane.name == "/host:metadata")
    plane.event_metadata[36].stats[0].bytes_value = proto.SerializeToString()
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(space.SerializeToString())
    assert noted(make_report(path)) == [f"model/fc/MatMul{ALONE}"]
