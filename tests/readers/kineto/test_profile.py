"""Traces of PyTorch's profiler, from a made file to layers, passes and products: worked by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.errors import EmptyInput, UsageError, WrongFormat
from tcprobe.flows.report import make_report
from tcprobe.readers.kineto import trace
from tcprobe.readers.kineto.ranges import layer_of, line_of
from tcprobe.readers.open import find_job, open_profile
from tcprobe.report.run.lacks import lacks_of
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.readers.kineto.made import BACKWARD, INPUTS, ROWS, UNITS, Made, training
from tests.support import ROOT, run_with_torch, shared

FLOPS = 2 * ROWS * INPUTS * UNITS


def read(made: Made, folder: Path) -> Profile:
    return open_profile(made.write(folder / "worker.pt.trace.json"))


def codes(profile: Profile) -> set[str]:
    return {note.code for note in profile.metadata.notes}


def test_layers_passes_and_products_of_a_step(tmp_path: Path) -> None:
    out = analyse(read(training(), tmp_path))
    (layer,) = [row for row in b.rows(out, "layers") if row["layer"] == "Net_0/Linear_0"]
    assert {row["called_from"] for row in b.rows(out, "gemms")} == {"train.py:12"}  # of the gradients too
    times = [layer[name] for name in ("sum_ns", "forward_ns", "dgrad_ns", "wgrad_ns", "tc_ns")]
    assert times == [3 * 95_000, 3 * 40_000, 3 * 30_000, 3 * 20_000, 3 * 70_000]
    products = [(row["op"], row["pass"], row["m"], row["n"], row["k"]) for row in b.rows(out, "gemms")]
    assert sorted(products) == [
        ("Net_0/Linear_0/aten::addmm", "forward", ROWS, UNITS, INPUTS),
        ("Net_0/Linear_0/dgrad/aten::mm", "dgrad", ROWS, INPUTS, UNITS),
        ("Net_0/Linear_0/wgrad/aten::mm", "wgrad", UNITS, INPUTS, ROWS),
    ]
    assert out.value("flops_per_step") == 3 * FLOPS
    bad = {(row["layer"], row["dimension"], row["size"], row["passes"]) for row in b.rows(out, "bad_sizes")}
    assert bad == {("Net_0/Linear_0", "units", UNITS, "forward, dgrad, wgrad")}
    assert (out.metadata.window.first, out.metadata.window.last) == (0, 2)


def test_where_and_when_kernels_ran(tmp_path: Path) -> None:
    found = read(training(1), tmp_path)
    first = next(row for row in b.rows(found, "launches") if row["kernel"] == b.TC)
    origin = 10_000
    assert (first["start_ns"], first["duration_ns"]) == ((10_120 - origin) * 1000, 40_000)
    assert (first["launch_ns"], first["device"], first["stream"]) == ((10_110 - origin) * 1000, 0, 7)
    config = b.rows(found, "launch_configs")[int(first["config_id"])]
    assert (config["grid"], config["block"], config["registers"]) == ("8,4,1", "128,1,1", 168)
    assert (config["dynamic_shared_bytes"], config["static_shared_bytes"], config["occupancy_pct"]) == (
        1024,
        None,
        None,
    )
    (gpu,) = b.rows(found, "devices")
    assert (gpu["name"], gpu["compute_capability"], gpu["sm_count"]) == ("NVIDIA H100 80GB HBM3", "9.0", 132)


def test_a_function_that_lasts_while_no_kernel_runs_tells_what_the_host_does(tmp_path: Path) -> None:
    """From 560 us of each step to 60 of the next no kernel runs: 500 us, for most of which data is prepared."""
    made = training()
    for step in range(3):
        t = 10_000 + step * 1000
        made.event("python_function", "data.py(7): prepare", t + 600, 390)
        made.event("python_function", "data.py(9): decode", t + 610, 200)
        made.event("python_function", "threading.py(1): wait", t + 565, 430, thread=99)  # launches nothing
    events = [(row["name"], row["work"]) for row in b.rows(read(made, tmp_path), "host_events")]
    assert ("data.py(7): prepare", "python") in events
    assert not {"data.py(9): decode", "threading.py(1): wait"} & {name for name, _ in events}


def test_the_host_spends_time_in_an_op_once(tmp_path: Path) -> None:
    """Of 250 us in the layer's call 40 us are in its cast and 100 us in its product."""
    host = {row["op"]: (row["calls"], row["sum_ns"]) for row in b.rows(read(training(2), tmp_path), "host_ops")}
    assert host["aten::linear"] == (2, 2 * 110_000)
    assert host["aten::addmm"] == (2, 200_000)
    assert host["AddmmBackward0"] == (2, 2 * 180_000)


FRAMES = {
    "train.py(12): step": "train.py:12",
    "/home/me/lab/model.py(7): forward": "/home/me/lab/model.py:7",
    "transformers/models/owlv2/modeling_owlv2.py(353): forward": "transformers/models/owlv2/modeling_owlv2.py:353",
    "/x/site-packages/timm/mlp.py(9): forward": "/x/site-packages/timm/mlp.py:9",
    "torch/nn/modules/linear.py(114): forward": None,
    "/x/lib/python3.10/site-packages/torch/nn/modules/linear.py(114): forward": None,
    "/usr/lib/python3.11/threading.py(975): _bootstrap": None,
    "threading.py(975): _bootstrap": None,
    "<built-in method mm of type object at 0x7f>": None,
    "<string>(1): <module>": None,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_functions_of_the_program_are_told_from_those_of_python_and_pytorch(frame: str) -> None:
    assert line_of(frame) == FRAMES[frame]


def test_ranks_of_a_job_are_one_profile_and_runs_are_not(tmp_path: Path) -> None:
    for rank in (1, 0):
        made = training(2)
        made.beside["distributedInfo"] = {"rank": rank, "world_size": 2}
        sent = {"Collective name": "allreduce", "dtype": "Float", "Group size": 2, "In msg nelems": 1024}
        made.launch("ncclDevKernel_AllReduce_Sum_f32", 10_800, 10_900, 50, **sent)
        made.write(tmp_path / f"rank{rank}.pt.trace.json")
    both = open_profile(tmp_path)
    assert sorted(set(both.require("launches").values("device"))) == [0, 1]
    job = find_job(tmp_path)
    assert job is not None and [(one.rank, one.path.name) for one in job.files] == [
        (0, "rank0.pt.trace.json"),
        (1, "rank1.pt.trace.json"),
    ]
    out = make_report(tmp_path)
    assert [row["rank"] for row in b.rows(out, "ranks")] == [0, 1]
    (message,) = b.rows(out, "messages")
    told = [message[name] for name in ("sent_bytes", "launches", "sum_ns", "exposed_ns")]
    assert told == [4096, 2, 100_000, 100_000]
    assert "launches" not in {lack.check for lack in lacks_of(out, "job")}  # those of a rank are in its own report
    training(2).write(tmp_path / "other.pt.trace.json")
    with pytest.raises(UsageError, match="nothing in them tells that they are different ranks"):
        open_profile(tmp_path)


def test_the_rank_of_a_trace(tmp_path: Path) -> None:
    """Before the events; after them, as in a trace of 2023; of none, or cut off within what is packed."""
    made, path = training(1), tmp_path / "a.json"
    assert trace.peek_rank(made.write(path)) is None
    after = f'{made.text()[:-1]}, "distributedInfo": {{"backend": "nccl", "rank": 7}}}}'
    path.write_text(after, encoding="utf-8")
    assert trace.peek_rank(path) == 7
    path.write_bytes(packed := gzip.compress(after.encode()))
    assert trace.peek_rank(path) == 7
    path.write_bytes(packed[:-20])
    with pytest.raises(WrongFormat, match="cannot be unpacked"):
        trace.peek_rank(path)
    made.beside = {"distributedInfo": {"pg_config": [{"ranks": [1, 2]}], "rank": 3}, **made.beside}
    assert trace.peek_rank(made.write(path)) == 3


def test_each_rank_waits_for_its_own_host(tmp_path: Path) -> None:
    """What the first waits for is told of both, which are recorded alike."""
    for rank in (0, 1):
        made = Made()
        made.beside["distributedInfo"] = {"pg_config": [{"ranks": [0, 1]}], "rank": rank}
        for start in (0, 1000):
            made.launch(b.TC, start, start + 10, 100)
        made.event("user_annotation", "load", 150, 800)
        made.write(tmp_path / f"{rank}.pt.trace.json")
    waits = analyse(open_profile(tmp_path)).require("waits").rows()
    told = {(row["device"], row["host_work"], row["host_op"], row["idle_ns"]) for row in waits}
    assert {(0, "range", "load", 800_000), (1, "range", "load", 800_000)} <= told


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    made = training(1)
    made.beside = {"schemaVersion": 1}
    for event in made.events:
        event["args"].pop("Input Dims", None)
    assert codes(read(made, tmp_path)) == {"gpu-not-named", "no-shapes"}
    made.events = [event for event in made.events if event["cat"] not in ("cpu_op", "user_annotation")]
    assert "no-ops" in codes(read(made, tmp_path))
    made = training(1)
    made.events = [event for event in made.events if event["cat"] != "kernel"]
    found = read(made, tmp_path)
    assert codes(found) == {"no-kernels"}
    assert found.metadata.gpu_used is None
    made.events = []
    with pytest.raises(EmptyInput, match="neither kernels nor ops"):
        read(made, tmp_path)


def test_odd_events_are_counted_and_left_out(tmp_path: Path) -> None:
    made = training(1)
    made.launch(b.TC, 10_050, 10_060, -5)
    made.launch(b.TC, 10_050, float("nan"), 5)
    made.launch(b.TC, 10_050, 10_060, 5, device=-1)
    found = read(made, tmp_path)
    assert len(found.require("launches")) == 4
    assert [note.message for note in found.metadata.notes if note.code == "events-odd"] == [
        "3 events have times or a GPU that cannot be, and are not counted"
    ]


@pytest.mark.parametrize("beside", [{"id": {}}, 7, [7], [{"id": {}}, {"id": 0, "name": [], "numSms": "x"}]])
def test_odd_properties_name_no_gpu(beside: Any, tmp_path: Path) -> None:
    made = training(1)
    made.beside |= {"deviceProperties": beside, "distributedInfo": [beside]}
    (gpu,) = b.rows(read(made, tmp_path), "devices")
    assert (gpu["name"], gpu["sm_count"]) == (None, None)


OLD = {"kernel": "Kernel", "cuda_runtime": "Runtime", "cpu_op": "Operator", "user_annotation": "Operator"}


def test_old_spellings_give_the_same_tables(tmp_path: Path) -> None:
    new = read(training(2), tmp_path)
    made = training(2)
    for event in made.events:
        event["cat"] = OLD.get(event["cat"], event["cat"])
        event["tid"] = f"stream {event['tid']}" if event["cat"] == "Kernel" else str(event["tid"])
        if "Input Dims" in event["args"]:
            event["args"]["Input dims"] = event["args"].pop("Input Dims")
    old = read(made, tmp_path)
    for name in ("launches", "ranges", "host_ops", "devices"):
        assert b.rows(old, name) == b.rows(new, name)


def test_other_chrome_traces_are_none_of_ours(tmp_path: Path) -> None:
    for text in ('{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"op"}]}', '{"a": 1}', "[1, 2]", ""):
        (tmp_path / "x.trace.json").write_text(text)
        assert trace.finds(tmp_path / "x.trace.json") == []


def test_conv_geometry_is_read(tmp_path: Path) -> None:
    """32 images of 64 x 56 x 56, 128 filters of 3 x 3, stride 2, padding 1: 28 x 28 outputs."""
    made = Made()
    shapes: list[list[int]] = [[32, 64, 56, 56], [128, 64, 3, 3], [], [], [], [], [], [], []]
    concrete = ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]
    made.op("aten::cudnn_convolution", 100, 50, *shapes, concrete=concrete)
    made.launch(b.TC, 110, 120, 20)
    (row,) = b.rows(analyse(read(made, tmp_path)), "gemms")
    assert (row["m"], row["n"], row["k"]) == (32 * 28 * 28, 128, 64 * 9)
    assert row["flops"] == 2 * 32 * 28 * 28 * 128 * 64 * 9


CPU = ROOT / "tests" / "fixtures" / "kineto"
LINES = (CPU / "train.py").read_text(encoding="utf-8").splitlines()


def recorded(script: str, path: Path) -> Path:
    run_with_torch(str(CPU / script), str(path))
    return path


@pytest.fixture(params=["committed", "recorded now"])
def cpu_trace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "committed":
        return CPU / "cpu.pt.trace.json.gz"
    return recorded("train.py", tmp_path / "cpu.pt.trace.json")


@pytest.fixture(params=["committed", pytest.param("recorded now", marks=pytest.mark.long)])
def scripted_trace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "committed":
        return CPU / "scripted.pt.trace.json.gz"
    return recorded("scripted.py", tmp_path / "scripted.pt.trace.json")


def test_torchscript_names_its_modules_and_is_believed_until_a_backward_pass(scripted_trace: Path) -> None:
    """100 -> 64 -> 48 -> 10. Of the second step PyTorch 2.13.0 says that `block/hidden` has 100 inputs."""
    out = analyse(open_profile(scripted_trace))
    rows = [row for row in b.rows(out, "gemms") if row["pass"] == "forward"]
    told = {(row["layer"], row["n"], row["k"]) for row in rows}
    assert told == {
        *(("first", 64, 100), ("block/hidden", 48, 64), ("block/out", 10, 48)),
        *((None, 64, 100), (None, 48, 64), (None, 10, 48)),
    }
    assert "modules-mislabelled" in codes(out)
    assert {row["layer_class"] for row in rows} == {None}  # a name, and not the class, as `Linear_0` has it


def test_modules_of_torchscript_are_believed_where_gradients_have_a_thread_of_their_own(tmp_path: Path) -> None:
    made = Made()
    for step in (0, 1000):
        for at, name in ((step, "first"), (step + 100, "block(Block)::forward.out")):
            within = {"Module Hierarchy": f"TOP(Net)::forward.{name}(Linear)::forward."}
            made.event("cpu_op", "aten::linear", at + 10, 50, **within)
            made.event("cpu_op", "aten::addmm", at + 12, 40, **within, **{"Input Dims": [[8], [4, 6], [6, 8]]})
            made.launch(b.TC, at + 20, at + 30, 10)
        made.op("autograd::engine::evaluate_function: AddmmBackward0", step + 300, 100, thread=BACKWARD)
    found = read(made, tmp_path)
    assert {row["layer"] for row in b.rows(analyse(found), "gemms")} == {"first", "block/out"}
    assert "modules-mislabelled" not in codes(found)


@pytest.mark.parametrize(
    ("told", "layer"),
    [
        ("TOP(Net)::forward.blocks(Sequential)::forward.0(Block)::forward.", "blocks/0"),
        ('"TOP(Net)::forward.SELF(Net)::helper.fc(Linear)::forward"', "fc"),
        ("TOP()::<forward op>.::free.", None),
        ("TOP(Net)::forward.INSTANCE_NAME_UNKNOWN(Linear)::forward.", None),
        ("nonsense", None),
    ],
)
def test_levels_of_torchscript(told: str, layer: str | None) -> None:
    assert layer_of(told) == layer


def test_a_training_on_the_cpu_tells_modules_shapes_and_lines(cpu_trace: Path) -> None:
    """By hand: 64 images of 3 x 16 x 16, 10 filters of 3 x 3 with stride 2, then 640 -> 250 -> 10."""
    out = analyse(open_profile(cpu_trace))
    rows = b.rows(out, "gemms")
    products = {(row["layer"], row["pass"], row["m"], row["n"], row["k"], row["calls_per_step"]) for row in rows}
    assert products == {
        ("Net_0/Conv2d_0", "forward", 64 * 8 * 8, 10, 27, 1.0),
        ("Net_0/Conv2d_0", "other", 27, 10, 64 * 8 * 8, 1.0),  # wgrad: nothing asks for that of the images
        ("Net_0/Linear_0", "forward", 64, 250, 640, 1.0),
        ("Net_0/Linear_0", "dgrad", 64, 640, 250, 1.0),
        ("Net_0/Linear_0", "wgrad", 250, 640, 64, 1.0),
        ("Net_0/Linear_1", "forward", 64, 10, 250, 1.0),
        ("Net_0/Linear_1", "dgrad", 64, 250, 10, 1.0),
        ("Net_0/Linear_1", "wgrad", 10, 250, 64, 1.0),
    }
    assert out.value("flops_per_step") == 2 * 64 * (2 * 64 * 10 * 27 + 3 * (640 * 250 + 250 * 10))
    (line,) = {row["called_from"] for row in rows}
    assert "def forward" in LINES[int(str(line).rpartition(":")[2]) - 1]
    bad = {(row["layer"], row["dimension"], row["size"]) for row in b.rows(out, "bad_sizes")}
    assert {("Net_0/Linear_0", "units", 250), ("Net_0/Conv2d_0", "filters", 10)} <= bad
    assert out.metadata.gpu_used is False


SAMPLES = ROOT.parent / "shared" / "samples" / "kineto"
OWN = ROOT / "bench" / "gpu" / "results" / "h100-sxm-2026-11-27"


def by_own_pass(path: Path) -> dict[str, int]:
    spent: dict[str, int] = {}
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event.get("ph") == "X" and event["cat"].lower() == "kernel":
            spent[event["name"]] = spent.get(event["name"], 0) + round(event["dur"] * 1000)
    return spent


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.glob("*.json.gz")) or [SAMPLES / "none.json.gz"], ids=lambda path: path.name.split(".")[0]
)
def test_sums_of_every_kernel_are_those_of_another_pass(path: Path) -> None:
    if not path.exists():
        pytest.skip("the samples of PyTorch's profiler are not here")
    launches = open_profile(path).require("launches")
    spent: dict[Any, int] = {}
    for kernel, duration in zip(launches.values("kernel"), launches.values("duration_ns"), strict=True):
        spent[kernel] = spent.get(kernel, 0) + int(duration or 0)
    assert spent == by_own_pass(path)


@pytest.mark.parametrize(
    ("name", "bad"), [("trace-torch-bfloat16", set()), ("trace-torch-bfloat16-odd", {250, 1018, 3054})]
)
def test_a_recorded_training_on_an_h100(name: str, bad: set[int]) -> None:
    """Four blocks of linear layers under autocast to bfloat16: every layer of a block has three products a step."""
    out = analyse(open_profile(OWN / name / "step.json.gz"))
    passes: dict[Any, list[Any]] = {}
    for row in b.rows(out, "gemms"):
        if "/Linear_" in str(row["layer"]):
            passes.setdefault(row["layer"], []).append(row["pass"])
    assert len(passes) == 18
    assert all(sorted(each) == ["dgrad", "forward", "wgrad"] for each in passes.values())
    found = {row["size"] for row in b.rows(out, "bad_sizes") if row["advice_kind"] == "change"}
    assert found == bad


def test_collectives_of_nccl_have_group_size_and_what_hides_them(tmp_path: Path) -> None:
    """Kernels from 10 to 40 and 30 to 50 us hide 20 to 50 of the first all-reduce, 20 to 60; none hides the others."""
    told = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
        "dtype": "BFloat16", "Process Group Name": "3", "Process Group Description": "default_pg",
    }  # fmt: skip
    made = Made()
    made.launch(b.TC, 0, 10, 30)
    made.launch(b.OTHER, 1, 30, 20)
    made.launch(b.TC, 1, 21, 5)
    made.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 2, 20, 40, **told)
    made.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3, 70, 5, **told)
    made.launch("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 4, 80, 7)
    made.launch("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 4, 20, 9, device=1)
    rows = b.rows(read(made, tmp_path), "messages")
    assert rows == [
        {
            "collective": "allreduce", "group": "3 (default_pg)", "group_size": 2, "dtype": "BFloat16",
            "sent_bytes": 2000, "received_bytes": 2000, "launches": 2, "sum_ns": 45_000, "exposed_ns": 15_000,
        },
        {
            "collective": "sendrecv", "group": None, "group_size": None, "dtype": None,
            "sent_bytes": None, "received_bytes": None, "launches": 2, "sum_ns": 16_000, "exposed_ns": 16_000,
        },
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["all\treduce", "allreduce"])
def test_a_collective_may_have_any_name_and_nothing_besides(tmp_path: Path, name: str) -> None:
    made = Made()
    made.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 0, 20, 40, **{"Collective name": name})
    rows = b.rows(read(made, tmp_path), "messages")
    assert [(row["collective"], row["dtype"], row["sent_bytes"]) for row in rows] == [(name, None, None)]


def test_sums_of_collectives_are_those_of_the_summary() -> None:
    out = analyse(open_profile(shared("samples/kineto/a100_nccl.json.gz")))
    rows = b.rows(out, "messages")
    assert sum(row["sum_ns"] for row in rows) == out.value("communication_kernel_time_ns") == 46_876_493
    assert sum(row["exposed_ns"] for row in rows) == out.value("communication_exposed_ns") == 39_559_468


def test_lines_of_old_traces_stand_in_the_stack_of_an_op(tmp_path: Path) -> None:
    made = Made()
    stack = "/env/site-packages/torch/nn/modules/linear.py(9): forward;model.py(12): forward;train.py(4): <module>"
    made.event("cpu_op", "aten::mm", 0, 10, **{"Call stack": stack})
    made.event("cpu_op", "aten::relu", 20, 10, **{"Call stack": ""})
    made.launch(b.TC, 2, 5, 3)
    made.launch(b.OTHER, 22, 25, 3)
    assert [row["called_from"] for row in b.rows(read(made, tmp_path), "ranges")] == ["model.py:12", None]
