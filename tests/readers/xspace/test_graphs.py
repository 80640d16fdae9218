"""Kernels of a command buffer get the instruction that launched them where that is certain, and never another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tcprobe.readers.hlo.module import Instruction, Module
from tcprobe.readers.xspace.gpu import DeviceEvents, OpKey
from tcprobe.readers.xspace.xla import resolve_graphs
from tests.support import examples

PROGRAM = 7
BUFFER = OpKey(PROGRAM, hlo_op="command_buffer_1", module="jit_step")
Listed = dict[str, tuple[str, ...]]  # instruction -> those whose results it takes, as the module lists them


def module(listed: Listed) -> Module:
    """Return a module of fusions and, by the name, library calls."""
    numbers = {name: at + 1 for at, name in enumerate(listed)}
    made = [
        Instruction(
            name=name,
            opcode="custom-call" if name.startswith("custom-call") else "fusion",
            id=numbers[name],
            operands=[numbers[operand] for operand in operands],
        )
        for name, operands in listed.items()
    ]
    return Module("jit_step(7)", 1, {1: made}, {one.name: one for one in made}, {one.id: one for one in made})


def events(kernels: Sequence[str], ops: Sequence[OpKey] = (BUFFER,), op: Sequence[int] | None = None) -> DeviceEvents:
    names = sorted(set(kernels))
    zeros = np.zeros(len(kernels), np.int64)
    return DeviceEvents(
        stream=zeros, start_ns=np.arange(len(kernels)) * 10, duration_ns=zeros + 5, correlation=zeros, group=zeros,
        name=np.array([names.index(name) for name in kernels]), op=zeros if op is None else np.array(op),
        detail=zeros - 1, names=names, ops=list(ops), details=[],
    )  # fmt: skip


def instructions(found: DeviceEvents) -> list[str | None]:
    return [found.ops[at].hlo_op for at in found.op.tolist()]


STEP: Listed = {
    "fusion.1": (),
    "custom-call.1": ("fusion.1",),
    "loop_multiply_fusion": ("custom-call.1",),
    "custom-call.2": ("loop_multiply_fusion",),
    "loop_multiply_fusion.1": ("custom-call.2",),
    "fusion.2": ("loop_multiply_fusion.1",),
}
EXECUTED = ["fusion_1", "nvjet_a", "loop_multiply_fusion", "nvjet_a", "loop_multiply_fusion_1", "fusion_2"]


@pytest.mark.parametrize(
    ("kernels", "want"),
    [
        # fusions by their names, calls between them
        (EXECUTED, [*STEP]),
        # equal fusions run one kernel: each of a chain in its turn
        (
            ["fusion_1", "nvjet_a", "loop_multiply_fusion", "nvjet_a", "loop_multiply_fusion", "fusion_2"],
            [*STEP],
        ),
        # a call may launch several kernels
        (
            ["fusion_1", "nvjet_a", "reduce", "loop_multiply_fusion", "nvjet_a", "loop_multiply_fusion_1", "fusion_2"],
            ["fusion.1", "custom-call.1", "custom-call.1", *list(STEP)[2:]],
        ),
        # of two calls in a row nothing tells which kernel is whose
        (
            ["fusion_1", "nvjet_a", "nvjet_b", "fusion_2"],
            ["fusion.1", "command_buffer_1", "command_buffer_1", "fusion.2"],
        ),
    ],
)  # fmt: skip
def test_each_execution_is_told_apart(kernels: list[str], want: list[str]) -> None:
    found = instructions(resolve_graphs(events(kernels * 3), {PROGRAM: module(STEP)}))
    assert found == want * 3


def test_a_graph_may_run_in_another_order_than_the_module_lists() -> None:
    listed: Listed = {
        "fusion.1": (),
        "custom-call.1": ("fusion.1",),
        "loop_subtract_fusion": ("custom-call.1",),
        "custom-call.2": ("fusion.1",),
        "loop_subtract_fusion.1": ("custom-call.2",),
    }
    kernels = ["fusion_1", "nvjet_b", "loop_subtract_fusion_1", "nvjet_a", "loop_subtract_fusion"]
    found = instructions(resolve_graphs(events(kernels * 3), {PROGRAM: module(listed)}))
    want = ["fusion.1", "custom-call.2", "loop_subtract_fusion.1", "custom-call.1", "loop_subtract_fusion"]
    assert found == want * 3


def test_one_execution_alone_may_be_parts_of_two() -> None:
    found = instructions(resolve_graphs(events(list(EXECUTED)), {PROGRAM: module(STEP)}))
    assert found == [name if name.startswith(("fusion", "loop")) else "command_buffer_1" for name in STEP]


def test_what_an_event_says_itself_stays() -> None:
    own = OpKey(PROGRAM, hlo_op="custom-call.1", module="jit_step")
    made = resolve_graphs(events(EXECUTED * 3, (BUFFER, own), [0, 1, 0, 0, 0, 0] * 3), {PROGRAM: module(STEP)})
    assert instructions(made) == [*STEP] * 3
    assert made.ops[int(made.op[1])] is own


def test_without_the_module_the_buffer_stays() -> None:
    assert instructions(resolve_graphs(events(["fusion_1"]), {})) == ["command_buffer_1"]
    other = {PROGRAM: module({"fusion.9": ()})}
    assert instructions(resolve_graphs(events(["nvjet_a", "fusion_1"]), other)) == ["command_buffer_1"] * 2


@st.composite
def ran(draw: st.DrawFn) -> tuple[Listed, list[str], list[str]]:
    """Draw a module, an order in which it may run, and the kernels that this launches."""
    listed: Listed = {}
    for at in range(draw(st.integers(2, 9))):
        name = f"custom-call.{at}" if draw(st.booleans()) else f"fusion.{at}"
        listed[name] = tuple(draw(st.sets(st.sampled_from(list(listed)), max_size=2))) if listed else ()
    waiting, order, kernels = list(listed), list[str](), list[str]()
    shared = draw(st.sets(st.sampled_from(list(listed)), max_size=3))
    while waiting:
        ready = [name for name in waiting if set(listed[name]) <= set(order)]
        name = draw(st.sampled_from(ready))
        waiting.remove(name)
        own = "fusion_0" if name in shared else name.replace(".", "_")
        for _ in range(draw(st.integers(1, 2)) if name.startswith("custom") else 1):
            order.append(name)
            kernels.append("nvjet" if name.startswith("custom") else own)
    return listed, order, kernels


@given(ran(), st.integers(1, 4))
@example(
    (
        {"fusion.0": (), "fusion.1": ("fusion.0",), "fusion.2": ("fusion.0", "fusion.1"), "custom-call.3": (),
         "custom-call.4": ("fusion.1",)},
        ["fusion.0", "custom-call.3", "fusion.1", "fusion.2", "custom-call.4"],
        ["fusion_0", "nvjet", "fusion_1", "fusion_0", "nvjet"],
    ),
    2,
)  # fmt: skip
@settings(max_examples=examples(150))
def test_no_kernel_gets_another_instruction_than_its_own(case: tuple[Listed, list[str], list[str]], times: int) -> None:
    listed, order, kernels = case
    found = instructions(resolve_graphs(events(kernels * times), {PROGRAM: module(listed)}))
    fixed = {k for k in kernels if kernels.count(k) == 1}
    for kernel, got, want in zip(kernels * times, found, order * times, strict=True):
        assert got in (want, "command_buffer_1") or (kernel not in fixed and kernel != "nvjet")
