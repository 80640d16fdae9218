"""The graph recorder on real TensorFlow: what is traced, what executes, and whether the profile's ops join to it."""

from __future__ import annotations

import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis.ops.xla import join_xla
from tcprobe.gemm.conv import convolution_of
from tcprobe.readers.merge import merge
from tcprobe.readers.open import open_profile
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Metadata, Profile
from tests.probe.tensorflow.graph.joining import COMMANDS, GEMM, Join, events, join, run
from tests.readers.run_folder.test_folder import graph_ops
from tests.support import ROOT, needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]
PROFILED = 3  # calls that the driver profiles
WORKLOADS = ROOT / "tests/probe/tensorflow/graph/workloads"


LONG = frozenset(
    ("fit.py sequential", "fit.py own_step", "fit.py mixed", "fit.py train_on_batch", "loss_scale.py",
     "mirrored.py loop", "control_flow.py dataset", "tape_outside.py")
)  # fmt: skip
"""Commands that others come close to."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Run the workloads under the recorder in one process; returns the folder with one folder per command."""
    out = tmp_path_factory.mktemp("graphs")
    commands = [one for one in COMMANDS if one not in LONG or request.config.getoption("--long")]
    run(sys.executable, out, commands)
    for number, command in reversed([*enumerate(commands)]):
        (out / str(number)).rename(folder(out, command))
    return out


def folder(recorded: Path, command: str) -> Path:
    return recorded / f"of {COMMANDS.index(command)}"


def functions(recorded: Path, command: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder(recorded, command) / "graph.json").read_text())["functions"]
    return found


def training_ops(recorded: Path, command: str) -> list[dict[str, Any]]:
    return [op for f in functions(recorded, command) if f["training"] for op in f["ops"]]


def counts(recorded: Path, command: str) -> tuple[int, int]:
    """Return how many ops were traced and how many of them may execute."""
    ops = training_ops(recorded, command)
    return len(ops), sum(op["executes"] != "no" for op in ops)


@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[pytest.mark.long] if one in LONG else []) for one in COMMANDS]
)
def test_every_gemm_op_of_the_profile_joins_to_a_record(recorded: Path, command: str) -> None:
    state = json.loads((folder(recorded, command) / "gaps.json").read_text())
    assert state["error"] is None
    assert state["gaps"] == []
    result: Join = join(folder(recorded, command))
    assert result.misses == []
    assert result.unexplained == []
    seen = sum(result.how.values())
    assert seen or "jit" in command or command == "eager.py"
    assert seen <= sum(result.executes.values())


# One forward pass of the GAN is 4 products of the generator and 3 of the discriminator for each of its two
# inputs: 10, twice a step. Each tape differentiates the discriminator on the forged images (6) and the
# generator (7: its first layer's input has no gradient); the second tape also the real images (6):
# 20 + 13 + 19 = 52. Pruned are the first pass's real images (3), the discriminator's weight gradients in
# the first tape (3), the generator's gradients in the second (7), and both gradients of images there (2).
def test_the_gan_traces_52_and_executes_37(recorded: Path) -> None:
    assert counts(recorded, "gan.py plain") == (52, 37)


def test_nested_functions_trace_60_and_execute_37(recorded: Path) -> None:
    assert counts(recorded, "gan.py nested") == (60, 37)


# The packaged GAN has 5 products in the generator and 4 in the discriminator: 2 x (5 + 4 + 4) forward; gradients
# 8 + 9 in the first tape, 8 + 8 + 9 in the second: 68. Executed: 9 + 13 forward, 4 dgrads of the discriminator and
# 9 of the generator, and twice 7 of the discriminator (no gradient of images): 49.
def test_the_packaged_gan_traces_68_and_executes_49(recorded: Path) -> None:
    assert counts(recorded, COMMANDS[-1]) == (68, 49)


def test_what_xla_compiles_is_unknown_but_for_what_nobody_needs(recorded: Path) -> None:
    ops = training_ops(recorded, "gan.py jit")
    assert [sum(op["executes"] == e for op in ops) for e in ("yes", "no", "unknown")] == [0, 15, 37]
    assert {f["executed_basis"] for f in functions(recorded, "gan.py jit")} == {"traced"}


# Attention: per block query, key, value, output, two products of attention, two Dense; one Dense at the end.
# Every weighted product has a wgrad (6 a block); the products of attention have two dgrads each.
# Recurrent: two products a cell (LSTM, two GRUs) and a Dense; the dgrad of the model's input is pruned.
# Convolutions: 12 with weights, 2 of Attention and 1 of Dot with two dgrads each; again no dgrad of the input.
@pytest.mark.parametrize(
    ("command", "forward", "dgrad", "wgrad"),
    [
        ("attention.py", 17, 21, 13),
        ("recurrent.py", 7, 6, 7),
        ("convolutions.py", 15, 17, 12),
        ("fit.py functional", 6, 5, 6),
        ("eager.py", 3, 3, 3),
    ],
)
def test_passes(recorded: Path, command: str, forward: int, dgrad: int, wgrad: int) -> None:
    passes = [op["pass"] for op in training_ops(recorded, command) if op["executes"] != "no"]
    assert [passes.count(p) for p in ("forward", "dgrad", "wgrad", "other")] == [forward, dgrad, wgrad, 0]


def test_a_custom_gradient_and_recomputed_layers_are_told_apart(recorded: Path) -> None:
    ops = training_ops(recorded, "recompute.py")
    others = [op for op in ops if op["pass"] == "other"]
    assert [op["op"] for op in others if "form" not in op["attributes"]] == ["MatMul_1", "MatMul_2"]
    again = [op for op in others if op["attributes"].get("form") == "forward"]  # the penalty's gradient of a gradient
    assert sorted(op["layer"] for op in again) == ["first", "second"]
    recomputed = [op for op in ops if op["layer"] == "first" and op["pass"] == "forward"]
    assert len(recomputed) == 3  # for the penalty, in the block, and again to take the block's gradient
    marked = [(op["layer"], op["executes"]) for op in ops if op["attributes"].get("recomputed")]
    assert marked == [("first", "yes"), ("second", "no")]  # what the block's gradient needs of it


@pytest.mark.parametrize("command", ["fit.py ragged", "partial_batches.py", "tape_outside.py ragged"])
def test_a_partial_last_batch_leaves_no_size_unknown(recorded: Path, command: str) -> None:
    found = [f for f in functions(recorded, command) if not f["name"].startswith("__backward")]
    shapes = [s for f in found for op in f["ops"] if op["executes"] == "yes" for s in op["input_shapes"]]
    assert shapes
    assert all(shape is not None and None not in shape for shape in shapes)
    assert {shape[0] for shape in shapes if len(shape) == 4 and shape[1:] == [8, 8, 1]} <= {8}


def test_a_function_traced_again_stands_once_among_the_functions(recorded: Path) -> None:
    document = json.loads((folder(recorded, "partial_batches.py") / "graph.json").read_text())
    (function,) = document["functions"]
    (variant,) = document["variants"]
    assert variant["variant_of"] == function["name"]
    assert (function["traces"], variant["traces"]) == (2, 2)


def line_of(script: str, text: str) -> str:
    lines = (WORKLOADS / script).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if text in line]
    return f"{WORKLOADS / script}:{number}"


def test_layers_and_lines(recorded: Path) -> None:
    ops = {(op["layer"], op["pass"]): op for op in training_ops(recorded, "fit.py functional")}
    assert {layer for layer, _ in ops if "encoder" in layer} >= {"net/encoder/deep"}
    deep = ops["net/encoder/deep", "wgrad"]
    assert (deep["layer_class"], deep["source"]) == ("Conv2D", line_of("fit.py", 'name="deep"'))
    assert ops["net/shared", "forward"]["source"] == line_of("fit.py", 'name="shared"')
    shared = [op for op in training_ops(recorded, "fit.py functional") if op["layer"] == "net/shared"]
    assert sorted(op["pass"] for op in shared) == ["dgrad", "dgrad", "forward", "forward", "wgrad", "wgrad"]


def test_sublayers_of_attention_have_the_line_that_constructs_the_attention(recorded: Path) -> None:
    ops = [op for op in training_ops(recorded, "attention.py") if op["layer"].endswith("/query")]
    assert {op["source"] for op in ops} == {line_of("attention.py", "MultiHeadAttention(")}
    forward = {op["called_from"] for op in ops if op["pass"] == "forward"}
    assert forward == {line_of("attention.py", "self.attention(x, x)")}


def test_imported_functions_have_no_layer_but_their_gradients_a_pass(recorded: Path) -> None:
    ops = [op for op in training_ops(recorded, "saved_model.py") if op["executes"] == "yes"]
    assert {op["layer"] for op in ops} == {None}
    assert sorted(op["pass"] for op in ops) == ["dgrad", "dgrad", "forward", "other", "other", *["wgrad"] * 3]


def test_ops_of_loops_do_not_run_once_a_call(recorded: Path) -> None:
    once = {op["op"] for op in training_ops(recorded, "control_flow.py") if "/_N/" not in op["op"]}
    assert any("sequential" in name for name in once)
    assert {f["calls_per_step"] for f in functions(recorded, "control_flow.py")} == {None}


def test_the_shapes_of_grouped_convolutions_tell_their_groups(recorded: Path) -> None:
    grouped = [op for op in training_ops(recorded, "convolutions.py") if (op["layer"] or "").endswith("/grouped")]
    told = {}
    for op in grouped:
        record = OpRecord(op["op_type"], op["input_shapes"], op["output_shapes"][0], op["attributes"], pass_=op["pass"])
        known = convolution_of(record, op["pass"])
        told[op["pass"]] = known and known.groups
    assert told == {"forward": 2, "dgrad": 2, "wgrad": 2}
    assert len(grouped) == 3


# --- loops ------------------------------------------------------------------------------------------------


def in_loops(recorded: Path, kind: str) -> list[dict[str, Any]]:
    return [op for op in training_ops(recorded, f"loops.py {kind}") if op["executes"] == "yes"]


def profiled(recorded: Path, kind: str) -> int:
    """Return how many products the profile saw in a call; it may leave out small ones."""
    names = collections.Counter(
        name.rpartition(":")[2] for name in events(folder(recorded, f"loops.py {kind}")) if ":" in name
    )
    seen = sum(count for name, count in names.items() if re.fullmatch(r"\w+", name) and GEMM.search(name))
    return -(-seen // PROFILED)


# Forward, gradient of the input and of the weights of each of two products a time step; the first layer's input has no
# gradient. A Dense has three, one that no layer with weights stands before has two.
@pytest.mark.parametrize(
    ("kind", "executions"),
    [
        ("bidirectional", 20 * (2 * 5 + 2 * 6) + 3),
        ("addition", 7 * 5 + 4 * 6 + 3),
        ("own_cell", 7 * 5 + 3),
        ("accumulate", 4 * 2),
        ("nested", 3 * 2 * 3),
        ("mapped", 8 * 2 + 8 * 3),
    ],
)
def test_loops_run_as_often_as_counted_by_hand_and_profiled(recorded: Path, kind: str, executions: int) -> None:
    ops = in_loops(recorded, kind)
    assert not any(op["at_least"] for op in ops)
    assert sum(op["repeats"] for op in ops) == executions
    assert 0 < profiled(recorded, kind) <= executions


def test_where_the_data_decides_a_loop_counts_at_least_once_and_a_branch_not(recorded: Path) -> None:
    ops = in_loops(recorded, "by_data")
    told = collections.Counter((op["repeats"], op["at_least"], "cond" in op["op"]) for op in ops)
    assert told == {(1.0, True, False): 3, (None, False, True): 3}


# The layers without products stand in scopes that Keras 3 numbers twice for each call; its own numbers count on.
def test_every_scope_of_a_layer_tells_its_path(recorded: Path) -> None:
    scopes = json.loads((folder(recorded, "fit.py functional") / "graph.json").read_text())["scopes"]
    paths = {re.sub(r"_\d+$", "", path) for path in scopes.values()}
    assert {"net/encoder/max_pooling2d", "net/flatten", "net/activation"} <= paths
    assert not [path for path in paths if not path.startswith("net")]


@pytest.mark.parametrize(("command", "short"), [("gan.py jit", True), ("fit.py jit", False)])
def test_the_optimised_module_holds_what_lives_and_nothing_dead(recorded: Path, command: str, short: bool) -> None:
    graph, _ = graph_ops(folder(recorded, command) / "graph.json")
    assert graph is not None
    probed = Profile(Metadata("run_folder")).with_tables(graph)
    path = sorted(folder(recorded, command).rglob("*.xplane.pb"))[-1]
    found = join_xla(merge([probed, open_profile(path)])).graph
    columns = graph.values("executes"), found.values("executes"), found.values("executes_basis")
    said = set(zip(*columns, strict=True))
    of_length_1 = ("unknown", "no", "length 1")  # gradients of the one logit
    assert (of_length_1 in said) == short
    assert said - {of_length_1} == {("unknown", "yes", "optimised HLO"), ("no", "no", "liveness")}
