"""What the strings of an XSpace say."""

from __future__ import annotations

import pytest

from tcprobe.readers.xspace.text import (
    executor_op,
    kernel_config,
    memory_kind,
    memory_size,
    parse_shapes,
    program_id,
    split_op,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b/MatMul:MatMul", ("a/b/MatMul", "MatMul")),
        ("model/BiasAdd:_FusedMatMul", ("model/BiasAdd", "_FusedMatMul")),
        ("IteratorGetNext/_2:_Recv#from=IteratorGetNext,to=x#", ("IteratorGetNext/_2", "_Recv")),
        ("MakeTensorFromProto", ("MakeTensorFromProto", None)),
        ("XlaModule:", ("XlaModule", None)),
        ("", ("", None)),
    ],
)
def test_split_op(text: str, expected: tuple[str, str | None]) -> None:
    assert split_op(text) == expected


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ExecutorState::Process",
            "EagerLocalExecute: __inference_f_1",
            "$profiler.py:101 start_trace",
            "tf.constant",
        ),
        *("void cutlass::Kernel<a::b>(c)", "MemcpyH2D", "Iterator::Model::ParallelMapV2", "train 3", ":MatMul", "a:"),
    ],
)
def test_other_host_events_are_no_ops(name: str) -> None:
    assert executor_op(name) is None


def test_executor_op() -> None:
    assert executor_op("g/dense_1/MatMul:_MklMatMul") == ("g/dense_1/MatMul", "_MklMatMul")


def test_kernel_config_of_today() -> None:
    config = kernel_config("regs:122 static_shared:1 dynamic_shared:98304 grid:16,6,36 block:128,1,1 occ_pct:25")
    assert list(config.values()) == [122, 1, 98304, "128,1,1", "16,6,36", 25]


def test_kernel_config_of_tensorflow_2_4_has_no_dynamic_memory() -> None:
    config = kernel_config("regs:16 shm:48 grid:1,1,1 block:1024,1,1")
    assert (config["static_shared_bytes"], config["dynamic_shared_bytes"], config["occupancy_pct"]) == (48, None, None)


def test_kernel_config_of_rocm_has_no_registers_and_no_occupancy() -> None:
    config = kernel_config(" grid:1,1,1 block:512,1,1 private_mem:0 group_mem:64 occ_pct:0")
    assert (config["registers"], config["static_shared_bytes"], config["occupancy_pct"]) == (None, 64, None)


def test_kernel_config_of_nonsense() -> None:
    assert set(kernel_config("regs:x occ_pct:many static_shared:99999999999999999999").values()) == {None}


def test_memory() -> None:
    assert memory_size("kind_src:device kind_dst:host size:4096 dest:0 async:1") == 4096
    assert memory_size("num_bytes:512") == 512
    assert memory_size("size:-1") is None
    assert [memory_kind(n) for n in ("MemcpyH2D", "Memset 32", "MemcpyH2H")] == ["MemcpyH2D", "Memset", "other"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(half[64,128];float[])", ("float16+float32", "[[64, 128], []]")),
        ("(bfloat16[?,3];bfloat16[3])", ("bfloat16", "[[null, 3], [3]]")),
        ("float[2]", ("float32", "[[2]]")),
        ("(float[2];unknown)", (None, None)),
        ("[128,4]", (None, None)),
        ("()", (None, None)),
    ],
)
def test_parse_shapes(text: str, expected: tuple[str | None, str | None]) -> None:
    assert parse_shapes(text) == expected


def test_program_id() -> None:
    assert program_id("jit_step(36)") == 36
    assert program_id("a_inference_f_7__.5") is None
