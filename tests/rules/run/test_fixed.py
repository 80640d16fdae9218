"""Who does what an item says does not hear it again: each fault, and the run with that fault alone mended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.hardware import find_gpu
from tcprobe.rules.run.base import Facts, LayoutWork, LossScaling, MemoryUse, Run, TinyKernels, TopKernel, WarmUp
from tcprobe.schema.advice import AdviceKind, Where
from tests.rules.run.builders import MS, found, off, size, subject, waited, waits, what_if

A100 = find_gpu("a100-sxm-40")
ALL = 100.0 * MS
SLOW = TopKernel("wgrad2d", 42.0 * MS, 42.0, "channels", "no", Where("conv", "conv/Conv2D"))
ROOM = MemoryUse(4e9, 40e9)

CASES: dict[AdviceKind, tuple[Run, Run]] = {
    # the input is ready when a step begins: the GPU waits 2 ms
    "feed_gpu": (subject(waiting=waits(100, 60), waits=(waited(40),)), subject(waiting=waits(62, 60))),
    "allow_tf32": (subject(off("tf32", 40), gpu=A100, facts=Facts(tf32_off="environment")), subject(gpu=A100)),
    "mixed_precision": (subject(off("dtype", 40, dtype="float32")), subject()),
    "change_size": (subject(sizes=(size("a", "change", ms=30),)), subject()),
    "slice_filters": (
        subject(off("library", 40, kernel="wgrad2d"), sizes=(size("conv", "slice", 1, 40),)),
        subject(off("none", 10)),
    ),
    # one kernel in place of ten
    "fuse_kernels": (
        subject(facts=Facts(tiny=TinyKernels(1000, 1000, 9.0 * MS))),
        subject(facts=Facts(tiny=TinyKernels(100, 20, 0.1 * MS))),
    ),
    "keep_layout": (
        subject(kernel_ns=ALL, facts=Facts(layout=LayoutWork(20.0 * MS, 0.0, Where("conv"), None, 9.0 * MS))),
        subject(kernel_ns=80.0 * MS),
    ),
    # a fixed scale leaves neither IsFinite nor a branch: there is nothing to find
    "fix_scale": (subject(waiting=waits(5, 4.9), facts=Facts(scaling=LossScaling(4, 1.0 * MS, 2.0 * MS))), subject()),
    "skip_warm_up": (
        subject(facts=Facts(warm_up=WarmUp(9, 1, 30.0 * MS, 10.0 * MS))),
        subject(facts=Facts(warm_up=WarmUp(8))),
    ),
    "profile_steps": (subject(facts=Facts(warm_up=WarmUp(1))), subject(facts=Facts(warm_up=WarmUp(20)))),
    "change_kernel": (
        subject(kernel_ns=ALL, facts=Facts(top=SLOW)),
        subject(kernel_ns=ALL, facts=Facts(top=replace(SLOW, name="s16816gemm", cause="tc_well", uses_tc="yes"))),
    ),
    # twice the batch twice: products fill the GPU, and the memory
    "larger_batch": (
        subject(kernel_ns=ALL, facts=Facts(memory=ROOM, small_ns=30.0 * MS)),
        subject(kernel_ns=ALL, facts=Facts(memory=replace(ROOM, peak_bytes=16e9))),
    ),
    "key_node": (subject(facts=Facts(epoch_steps=12)), subject()),
    "halve_precision": (
        subject(kernel_ns=ALL, what_ifs=(what_if("mixed_bfloat16", 10, 20, 30),)),
        subject(kernel_ns=60.0 * MS),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_doing_what_an_item_says_removes_it_and_brings_no_other(kind: AdviceKind) -> None:
    bad, mended = CASES[kind]
    assert [item.kind for item in found(bad)] == [kind]
    assert found(mended) == []


def test_a_larger_batch_is_no_advice_while_memory_is_short_or_unknown() -> None:
    small = subject(kernel_ns=ALL, facts=Facts(small_ns=30.0 * MS))
    assert found(small) == []
    assert found(subject(kernel_ns=ALL, facts=replace(small.facts, memory=MemoryUse(20e9, 40e9)))) == []


def test_launching_is_said_once() -> None:
    tiny = Facts(tiny=TinyKernels(1000, 1000, 9.0 * MS))
    launched = waited(40, "launch", None, short=True)
    assert [item.code for item in found(subject(facts=tiny, waiting=waits(100, 60), waits=(launched,)))] == ["TC301"]
    mostly = waited(35), waited(5, "launch", None, short=True)
    by_input = subject(facts=tiny, waiting=waits(100, 60), waits=mostly)
    assert sorted(item.code for item in found(by_input)) == ["TC301", "TC310"]
