"""The XSpace reader on real profiles, against TensorFlow's own kernel table of the same run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tcprobe.readers.protobuf import fields, text
from tcprobe.readers.xspace import xplane
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tests.support import shared

TENSORFLOW = ("tf24_t4_alexnet_fp32", "tf24_v100_alexnet_fp32", "tf25_turing_chess_fp32")


def sample(name: str) -> Profile:
    return xplane.read(xplane.finds(shared(f"samples/xplane/{name}.xplane.pb")))


def kernel_stats(path: Path) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Return time in ns and launches by (kernel, op) of a KernelStatsDb, which has the type behind a few names."""
    data = path.read_bytes()
    time: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    for _, _, begin, end in fields(data, (0, len(data))):
        report = {
            n: first if wire == 0 else text(data, (first, last)) for n, wire, first, last in fields(data, (begin, end))
        }
        key = (str(report[1]), str(report.get(12, "")).partition(":")[0])
        time[key] += int(report.get(7, 0))
        calls[key] += int(report.get(13, 0))
    return time, calls


def by_kernel_and_op(profile: Profile) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    ops = profile.require("op_details").values("op")
    time: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    for row in profile.require("launches").rows():
        key = (str(row["kernel"]), str(ops[int(row["op_id"])]) if row["op_id"] != -1 else "")  # type: ignore[arg-type]
        time[key] += int(row["duration_ns"])  # type: ignore[arg-type]
        calls[key] += 1
    return time, calls


@pytest.mark.parametrize("name", TENSORFLOW)
def test_agrees_with_tensorflows_own_kernel_table(name: str) -> None:
    expected = kernel_stats(shared(f"samples/xplane/{name}.kernel_stats.pb"))
    assert by_kernel_and_op(sample(name)) == expected


@pytest.mark.parametrize(
    ("name", "capability", "sms", "launches"),
    [
        ("tf24_t4_alexnet_fp32", "7.5", 40, 190),
        ("tf24_v100_alexnet_fp32", "7.0", 80, 175),  # compute_cap_minor is absent
        ("tf24_p100_alexnet_fp32", "6.0", 56, 178),
        ("tf25_turing_chess_fp32", "7.5", 30, 159),
    ],
)
def test_one_gpu(name: str, capability: str, sms: int, launches: int) -> None:
    profile = sample(name)
    (device,) = profile.require("devices").rows()
    assert (device["compute_capability"], device["sm_count"], device["state"]) == (capability, sms, "active")
    assert device["name"] is None
    assert len(profile.require("launches")) == launches
    assert set(profile.require("launches").values("iteration")) == {0}
    assert (profile.require("launches").numbers("op_id") >= 0).all()
    assert profile.metadata.gpu_used is True
    assert profile.metadata.notes == ()


def test_the_step_that_xprof_stored() -> None:
    (mark,) = sample("tf24_t4_alexnet_fp32").require("step_marks").rows()
    line = {"start_ns": 6984183, "end_ns": 158805440}  # the line Steps of the GPU; the host's event ends at 70670313
    assert mark == {"iteration": 0, "name": "EagerKernelExecute 0", **line}


def test_launches_know_when_the_host_made_them() -> None:
    launches = sample("tf24_t4_alexnet_fp32").require("launches")
    assert (launches.numbers("launch_ns") < launches.numbers("start_ns")).all()


def test_copies_are_no_kernels() -> None:
    memory = sample("tf24_t4_alexnet_fp32").require("memory_ops")
    assert Counter(memory.values("kind")) == {"MemcpyH2D": 8, "MemcpyD2D": 10, "MemcpyD2H": 4}
    assert max(size for size in memory.values("size_bytes") if size is not None) == 100663296


def test_two_of_eight_gpus_are_active() -> None:
    profile = sample("tf22_8xv100_bert_step0")
    devices = profile.require("devices")
    assert devices.values("state") == ["active" if n in (4, 6) else "idle" for n in range(8)]
    assert Counter(profile.require("launches").values("device")) == {4: 665, 6: 665}
    assert "gpu-plane-empty" not in {note.code for note in profile.metadata.notes}


def test_amd_is_read_and_named() -> None:
    profile = sample("jax08_mi300_gemm")
    assert [note.code for note in profile.metadata.notes] == ["not-nvidia"]
    assert set(profile.require("devices").values("vendor")) == {"AMD"}
    assert set(profile.require("devices").values("tensor_cores")) == {"no"}
    assert len(profile.require("launches")) == 54


def dots(table: Table) -> set[tuple[object, ...]]:
    return {(r["executed_op"], r["op_type"], r["input_shapes"], r["input_dtypes"]) for r in table.rows()}


def test_dots_are_found_in_fusions_and_library_calls() -> None:
    graph = sample("jax08_mi300_gemm").require("graph_ops")
    bf16 = '["bfloat16", "bfloat16"]'
    assert ("gemm_fusion_dot_general.1", "dot", "[[256, 256], [256, 256]]", bf16) in dots(graph)
    assert ("custom-call.1", "dot", "[[4096, 4096], [4096, 4096]]", bf16) in dots(graph)
    numbers = [json.loads(str(text))["dot_dimension_numbers"] for text in graph.values("attributes")]
    assert all(n["lhs_contracting_dimensions"] == [1] for n in numbers)


def test_kernels_of_xla_carry_the_frameworks_names() -> None:
    profile = sample("jax08_mi300_gemm")
    ops = list(profile.require("op_details").rows())
    found = {(r["op"], r["op_type"], r["hlo_op"], r["dtype"]) for r in ops}
    assert ("jit(dot)/dot_general", "dot", "custom-call.1", "bfloat16") in found


def test_launch_times_do_not_run_backwards_on_a_stream() -> None:
    launches = sample("tf22_8xv100_bert_step0").require("launches")
    for device in (4, 6):
        rows = launches.take(np.flatnonzero(launches.numbers("device") == device))
        assert (np.diff(rows.numbers("start_ns")) >= 0).all()
