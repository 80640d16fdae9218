"""The XSpace reader on the fixtures: every dialect, several hosts and sessions, and files that are none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tcprobe.errors import EmptyInput, InputError, MissingInput, UsageError, WrongFormat
from tcprobe.readers.xspace import xplane
from tcprobe.schema.columns import Value
from tcprobe.schema.profile import Profile
from tests.fixtures.xplane import make
from tests.fixtures.xplane.schema import XSpace
from tests.support import shared

HERE = make.HERE


def fixture(name: str) -> Profile:
    return xplane.read(xplane.finds(HERE / f"{name}.xplane.pb"))


def write(path: Path, space: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString(deterministic=True))  # type: ignore[attr-defined]
    return path


SESSION = "plugins/profile/2026_01_01_00_00_00"


def host(name: str, started_ns: int | None = None) -> Any:
    """Return a profile of one host, which began at `started_ns` where that is given."""
    space = make.two_gpus()
    space.hostnames[0] = name
    if started_ns is not None:
        plane = space.planes.add(name="Task Environment")
        plane.stat_metadata[1].name = "profile_start_time"
        plane.stats.add(metadata_id=1, uint64_value=started_ns)
    return space


def column(profile: Profile, table: str, *names: str) -> list[tuple[Value, ...]]:
    return [tuple(row[name] for name in names) for row in profile.require(table).rows()]


def test_a_profile_of_a_tpu_is_called_that(tmp_path: Path) -> None:
    space = XSpace(hostnames=["node1"])
    plane = make.Plane(space, "/device:TPU:0")
    plane.event(plane.line(1, "XLA Ops"), "fusion.1", 100, 1_000)
    profile = xplane.read([write(tmp_path / "host.xplane.pb", space)])
    (note,) = (note for note in profile.metadata.notes if note.code == "tpu-profile")
    assert "a TPU (/device:TPU:0)" in note.message and profile.metadata.gpu_used is False


@pytest.mark.parametrize("name", make.FIXTURES)
def test_the_fixtures_are_what_their_builder_makes(name: str) -> None:
    assert (HERE / f"{name}.xplane.pb").read_bytes() == make.serialise(name)


def test_every_kernel_launch_and_nothing_else() -> None:
    launches = column(fixture("two_gpus"), "launches", "device", "kernel", "start_ns", "duration_ns", "iteration")
    gemms = [(d, make.HMMA, step * 10_000 + 15_000, 1_000, 5 + step) for d in (0, 1) for step in range(3)]
    early = [(d, "fill_kernel", 50, 10, None) for d in (0, 1)]  # its launch was not recorded
    assert sorted(launches, key=str) == sorted(gemms + early, key=str)


def test_a_kernel_belongs_to_the_step_that_launched_it() -> None:
    launches = column(fixture("two_gpus"), "launches", "launch_ns", "iteration", "correlation_id")
    assert (10_200, 6, 2) in launches  # it ran at 25,000, in step 7


def test_devices_of_one_host() -> None:
    devices = column(fixture("two_gpus"), "devices", "device", "state", "name", "name_basis", "compute_capability")
    name = "NVIDIA A100-SXM4-40GB"
    states = ((0, "active"), (1, "active"), (2, "idle"))
    assert devices == [(n, state, name, "reported", "8.0") for n, state in states]


def test_ops_and_configurations_are_stored_once() -> None:
    profile = fixture("two_gpus")
    assert column(profile, "op_details", "op", "op_type", "dtype", "input_shapes") == [
        ("init", "Fill", None, None),
        ("model/fc/MatMul", "MatMul", "float16", "[[64, 128], [128, 10]]"),
    ]
    configs = column(
        profile, "launch_configs", "registers", "static_shared_bytes", "dynamic_shared_bytes", "occupancy_pct"
    )
    assert configs == [(8, 16, 0, 62.5), (122, 0, 98304, 25.0)]


def test_copies() -> None:
    memory = column(fixture("two_gpus"), "memory_ops", "device", "kind", "size_bytes", "duration_ns")
    assert memory == [(d, "MemcpyH2D", 4096, 100) for d in (0, 1) for _ in range(3)]


def test_host_ops_and_calls_of_traced_functions() -> None:
    assert column(fixture("two_gpus"), "host_ops", "op", "op_type", "calls", "sum_ns", "max_ns", "input_shapes") == [
        ("__inference_train_step_42", "EagerLocalExecute", 3, 24_000, 8_000, None),
        ("model/fc/MatMul", "MatMul", 3, 900, 300, "[[64, 128], [128, 10]]"),
    ]


def test_the_dialect_of_tensorflow_2_4() -> None:
    profile = fixture("old_schema")
    # group 4 is no step, and the kernel without a group has no recorded launch
    assert column(profile, "launches", "kernel", "start_ns", "iteration", "op_id") == [
        ("volta_scudnn_128x64", 3_000, 3, 0),
        ("volta_scudnn_128x64", 10_000, None, 0),
        ("eager_kernel", 10_900, None, -1),
    ]
    assert column(profile, "op_details", "op", "op_type") == [("conv/Conv2D", "Conv2D")]
    assert column(profile, "step_marks", "iteration", "name", "start_ns", "end_ns") == [(3, "train 3", 1_000, 6_000)]
    assert ("7.0", None, None) in column(profile, "devices", "compute_capability", "clock_khz", "vendor")
    assert (64, 16896, None, "256,1,1", "24,1,1", None) in column(
        profile,
        "launch_configs",
        *("registers", "static_shared_bytes", "dynamic_shared_bytes", "block", "grid", "occupancy_pct"),
    )


def test_xla_ops_come_from_the_module() -> None:
    profile = fixture("xla")
    ops = column(profile, "op_details", "hlo_op", "op", "op_type", "dtype", "output_shape")
    assert set(ops) == {
        ("custom-call.1", "model/fc/MatMul", "dot", "float16", "[64, 10]"),
        ("cudnn.0", "model/conv/Conv2D", "convolution", "float16", "[8, 8, 8, 6]"),
        ("cudnn.1", "model/conv/Conv2DBackpropInput", "convolution", "float16", "[8, 16, 16, 4]"),
        ("cudnn.2", "model/conv/Conv2DBackpropFilter", "convolution", "float16", "[3, 3, 4, 6]"),
        ("loop_fusion.1", "model/fc/Relu", "Relu", "float16", "[64, 10]"),
        ("gemm_fusion_dot.2", "model/loop/MatMul", "dot", "float16+float32", "[2, 32, 10]"),
        ("unheard.9", "unheard.9", None, None, None),  # not in the module
        ("fusion.1", "a/b/c/Relu", None, None, None),  # its module is not in the file
    }
    assert len(ops) == 8  # a kernel that names its module without the program id is of the same op
    assert profile.metadata.xla is True


def test_kernels_inside_cuda_graphs_are_reported_missing() -> None:
    profile = fixture("xla")
    assert [note.code for note in profile.metadata.notes] == ["cuda-graphs", "xla-modules-missing"]
    assert len(profile.require("launches")) == 9


def test_refused_permission_is_named_with_its_remedy() -> None:
    notes = {note.code: note for note in fixture("no_permission").metadata.notes}
    assert set(notes) == {"cupti-permission", "events-lost", "gpu-plane-empty"}
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(notes["cupti-permission"].remedy)
    assert notes["gpu-plane-empty"].level == "error"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(notes["gpu-plane-empty"].remedy)


def test_a_cpu_run_has_no_gpu_and_says_so() -> None:
    profile = fixture("cpu_graph")
    assert profile.metadata.gpu_used is False
    assert profile.table("launches") is None
    assert "no GPU plane" in profile.absent["launches"]
    ops = column(profile, "host_ops", "op", "op_type", "calls")
    (matmul,) = [kind for name, kind, _ in ops if name == "gradient_tape/sequential_1/fc_1/MatMul/MatMul"]
    assert matmul == "_MklMatMul"
    assert {calls for _, kind, calls in ops if kind == "EagerLocalExecute"} == {2}
    assert [mark for (mark,) in column(profile, "step_marks", "iteration")] == [2, 3]


def test_xla_on_the_cpu_has_ops_and_graph() -> None:
    profile = fixture("cpu_xla")
    graph = column(profile, "graph_ops", "op", "op_type", "input_shapes", "output_shape")
    assert ("sequential_1/fc_1/MatMul", "dot", "[[16, 216], [216, 10]]", "[16, 10]") in graph
    assert ("sequential_1/conv_1/convolution", "convolution", "[[16, 8, 8, 3], [3, 3, 3, 6]]", "[16, 6, 6, 6]") in graph
    calls = {op: n for op, kind, n in column(profile, "host_ops", "op", "op_type", "calls") if kind == "dot"}
    assert calls["sequential_1/fc_1/MatMul"] == 2


def test_several_hosts_number_their_gpus_through(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / SESSION / f"{name}.xplane.pb", host(name))
    profile = xplane.read(xplane.finds(tmp_path))
    assert profile.metadata.host == "a, b"
    assert [n for (n,) in column(profile, "devices", "device")] == [0, 1, 2, 3, 4, 5]
    assert {n for (n,) in column(profile, "launches", "device")} == {0, 1, 3, 4}
    (note,) = profile.metadata.notes
    assert note.message == "GPUs by host: a: 0-2; b: 3-5"
    assert [n for (n,) in column(profile, "step_marks", "iteration")] == [5, 6, 7]


def refusal(files: list[Path]) -> str:
    with pytest.raises(UsageError) as caught:
        xplane.read(files)
    assert "tcprobe report " in str(caught.value.hint)
    return caught.value.message


def test_of_several_sessions_none_is_chosen(tmp_path: Path) -> None:
    for session in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        write(tmp_path / "plugins/profile" / session / "h.xplane.pb", make.two_gpus())
    said = refusal(xplane.finds(tmp_path))
    assert said.index("2026_01_02") < said.index("2026_01_01")


def test_two_files_of_one_host_are_two_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / SESSION / f"{name}.xplane.pb", host("node1"))
    assert "two are of host node1" in refusal(xplane.finds(tmp_path))


def test_hosts_recorded_at_other_times_are_of_other_runs(tmp_path: Path) -> None:
    began, minute = 1_771_595_650_217_823_548, 60_000_000_000
    files = [write(tmp_path / SESSION / "a.xplane.pb", host("a", began))]
    files.append(write(tmp_path / SESSION / "b.xplane.pb", host("b", began + minute)))
    assert xplane.read(files).metadata.host == "a, b"
    files.append(write(tmp_path / SESSION / "c.xplane.pb", host("c", began - 30 * minute)))
    assert "31 minutes apart" in refusal(files)


def test_hosts_of_different_gpus_are_of_different_runs(tmp_path: Path) -> None:
    space = make.old_schema()
    space.hostnames[0] = "other"
    files = [write(tmp_path / SESSION / "a.xplane.pb", space), write(tmp_path / SESSION / "b.xplane.pb", host("b"))]
    assert "their GPUs differ" in refusal(files)


def test_files_that_lie_in_no_session_are_no_hosts_of_one_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "downloads" / f"{name}.xplane.pb", host(name))
    said = refusal(xplane.finds(tmp_path))
    assert "2 profiles that are no hosts of one run (the folder is not plugins/profile/SESSION)" in said
    assert "a.xplane.pb" in said


def test_a_session_is_known_from_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write(tmp_path / SESSION / f"{name}.xplane.pb", host(name))
    monkeypatch.chdir(tmp_path / SESSION)
    assert xplane.read(xplane.finds(Path())).metadata.host == "a, b"


def test_times_since_the_epoch_are_brought_to_the_start_of_the_capture(tmp_path: Path) -> None:
    space = make.two_gpus()
    for plane in space.planes:
        for line in plane.lines:
            line.timestamp_ns += 1_771_595_650_217_823_548
    profile = xplane.read([write(tmp_path / "h.xplane.pb", space)])
    assert column(profile, "launches", "start_ns", "launch_ns", "iteration")[:1] == [(15_000, 200, 5)]
    assert column(profile, "step_marks", "start_ns") == [(0,), (10_000,), (20_000,)]


def test_repeating_step_numbers_are_counted_anew(tmp_path: Path) -> None:
    space = make.two_gpus()
    host = space.planes[3]
    (number,) = [key for key, meta in host.stat_metadata.items() if meta.name == "step_num"]
    for event in host.lines[0].events:
        for stat in event.stats:
            if stat.metadata_id == number:
                stat.int64_value = 1
    profile = xplane.read([write(tmp_path / "h.xplane.pb", space)])
    assert [n for (n,) in column(profile, "step_marks", "iteration")] == [0, 1, 2]
    assert "step-numbers-repeat" in {note.code for note in profile.metadata.notes}


def foreign_files() -> Iterator[tuple[str, bytes]]:
    yield "text", b"kernel,time\nsgemm,5\n"
    yield "newline text", b"\nkernel,time\nsgemm,5\n"
    yield "json", b'{"traceEvents": []}'
    yield "gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    yield "sqlite", b"SQLite format 3\x00" + bytes(100)
    yield "zeros", bytes(1000)
    yield "hlo", make.hlo_module().SerializeToString()


@pytest.mark.parametrize(("kind", "raw"), list(foreign_files()), ids=lambda v: v if isinstance(v, str) else "")
def test_foreign_files_are_no_match_whatever_their_name(kind: str, raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(raw)
    assert xplane.finds(path) == []
    assert xplane.finds(tmp_path) == []
    with pytest.raises(WrongFormat) as caught:
        xplane.read([path])
    assert "\n" not in str(caught.value)


def test_tensorflows_kernel_table_is_no_match() -> None:
    assert xplane.finds(shared("samples/xplane/tf24_t4_alexnet_fp32.kernel_stats.pb")) == []


def test_an_empty_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.touch()
    with pytest.raises(EmptyInput) as caught:
        xplane.read(xplane.finds(path))
    assert "2 GiB" in str(caught.value.hint)


def test_a_cut_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(make.serialise("two_gpus")[:-700])
    with pytest.raises(WrongFormat, match="damaged XSpace"):
        xplane.read(xplane.finds(path))


def test_nothing_there(tmp_path: Path) -> None:
    assert xplane.finds(tmp_path / "missing") == []
    assert xplane.finds(tmp_path) == []
    with pytest.raises(MissingInput):
        xplane.read([tmp_path / "missing.xplane.pb"])


@pytest.mark.parametrize("name", ["two_gpus", "xla", "old_schema", "cpu_graph"])
def test_damage_raises_input_errors_only(name: str, tmp_path: Path) -> None:
    raw, rng = (HERE / f"{name}.xplane.pb").read_bytes(), random.Random(name)
    path = tmp_path / "h.xplane.pb"
    refused = 0
    for _ in range(250):
        made = bytearray(raw)
        for _ in range(rng.choice((1, 2, 5, 20))):
            at = rng.randrange(len(made))
            if rng.random() < 0.5:
                made[at] = rng.choice((0, 0x22, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            elif rng.random() < 0.5:
                made[at:at] = bytes(rng.choices((0xFF, 0x80, 0, 0x22), k=rng.randrange(1, 12)))
            else:
                del made[at : at + rng.randrange(1, 9)]
        path.write_bytes(made)
        try:
            xplane.read([path])
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
    assert 0 < refused < 250


def test_a_line_of_empty_events_costs_no_more_than_its_bytes(tmp_path: Path) -> None:
    """Two bytes make an event: a small file must not grow into large columns."""
    space = make.old_schema()
    raw = space.planes[0].lines[0].SerializeToString() + b"\x22\x00" * 300_000
    plane = space.planes[0]
    del plane.lines[:]
    body = plane.SerializeToString() + b"\x1a" + _varint(len(raw)) + raw
    made = b"\x0a" + _varint(len(body)) + body
    assert len(XSpace.FromString(made).planes[0].lines[0].events) == 300_003
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(made)
    profile = xplane.read([path])
    assert len(profile.require("launches")) == 3
    assert "gpu-events-unclassed" in {note.code for note in profile.metadata.notes}


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])
