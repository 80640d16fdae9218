"""PyTorch under `emit_nvtx(record_shapes=True)`, from a made database to the products of a step."""

from __future__ import annotations

from pathlib import Path

from tcprobe.analysis import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.readers.nsys.made import Made

STEP = 1_000_000
STEPS = 6
BATCH, INPUTS, UNITS = 64, 784, 256
NODE = "AddmmBackward0, seq = {seq}, op_id = {op}"
RANGES = (  # text, start and end within the step; where it says so, a kernel is launched in it
    ("aten::linear, op_id = {op}, sizes = [[64, 784], [256, 784], [256]], input_op_ids = [(0,-1)]", 100, 300, None),
    ("aten::addmm, seq = {seq}, op_id = {op}, sizes = [[256], [64, 784], [784, 256], [], []]", 120, 280, b.TC),
    ("autograd::engine::evaluate_function: " + NODE, 400, 900, None),
    (NODE, 410, 890, None),
    ("aten::mm, op_id = {op}, sizes = [[64, 256], [256, 784]]", 420, 500, b.TC),
    ("aten::mm, op_id = {op}, sizes = [[256, 64], [64, 784]]", 520, 600, b.FP32),
)


def recorded(path: Path) -> Profile:
    made = Made()
    made.gpu(0, "Tesla V100-SXM2-16GB")
    for step in range(STEPS):
        start = (step + 1) * STEP
        made.range(f"ProfilerStep#{step}, op_id = {step * 100 + 1}", start, start + 990_000)
        for number, (text, begins, ends, kernel) in enumerate(RANGES):
            named = text.format(seq=step + 7, op=step * 100 + number + 2)
            made.range(named, start + 1000 * begins, start + 1000 * ends)
            if kernel:
                at = start + 1000 * begins + 500
                made.launch(kernel, at, at + 2000, at + 22_000)
    return open_profile(made.write(path / "report1.sqlite"))


def test_the_products_of_a_step(tmp_path: Path) -> None:
    out = analyse(recorded(tmp_path))
    found = [(row["op"], row["m"], row["n"], row["k"], row["calls_per_step"]) for row in b.rows(out, "gemms")]
    assert sorted(map(str, found)) == [
        "('aten::addmm', 64, 256, 784, 1.0)",
        "('dgrad/aten::mm', 64, 784, 256, 1.0)",
        "('wgrad/aten::mm', 256, 784, 64, 1.0)",
    ]
    figure = out.figure("flops_per_step")
    assert figure is not None
    assert figure["value"] == 3 * 2 * BATCH * INPUTS * UNITS
    assert {row["op"]: (row["tc_capable"], row["pass"]) for row in b.rows(out, "ops")} == {
        "aten::addmm": ("yes", "forward"),  # in a call of aten::linear
        "dgrad/aten::mm": ("yes", "dgrad"),
        "wgrad/aten::mm": ("yes", "wgrad"),
    }
