"""Each rule on runs that it must speak of and on one that it must not; `--update-golden` writes the sentences anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tcprobe.analysis.summary.figures import figure
from tcprobe.hardware import find_gpu
from tcprobe.report.run.advice import advice_sentence
from tcprobe.rules.registry import RUN_RULES, Rule
from tcprobe.rules.run.base import (
    ChainWork,
    Diverged,
    Facts,
    LayoutWork,
    LossScaling,
    MemoryUse,
    Misaligned,
    Run,
    Tail,
    TinyKernels,
    TopKernel,
    WarmUp,
)
from tcprobe.schema.advice import REMEDIES, Where
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import CauseKind
from tcprobe.schema.tables import SUMMARY
from tcprobe.schema.waits import HOST_WORK, Tuning
from tests.rules.run.builders import MS, gap, off, rule, saved, size, subject, waited, waits, what_if

FOLDER = Path(__file__).parent.with_name("golden")
V100 = find_gpu("v100-sxm2")
A100 = find_gpu("a100-sxm-40")
FLOAT32 = off("dtype", 40, dtype="float32", gpu="Tesla V100 SXM2")
HALF_IDLE = waits(100, 50)
TUNED: Final = Tuning(14, 621, 97.0 * MS, 97.0, "alex_net/conv2d_1/Relu", 58)
SLICED: Final = (("mixed_float16", None), ("slice_filters", "generator/conv2d_3"))
OTHER: Final = frozenset({("other/MatMul", "MatMul")})
KERNELS: Final[dict[str, Any]] = {"kernel_ns": 100.0 * MS}
SGEMM: Final = {"unnamed_ns": 75.0 * MS, "unnamed_kernel": "ampere_sgemm_128x64_tn", **KERNELS}
SIXTEEN: Final = what_if("mixed_float16", 0, 0, 60, spent_ns=70.0 * MS, bound=True)
CONV = Where("conv", "conv/Conv2D", "forward", "model.py:7")
TINY = TinyKernels(1200, 1000, 6.0 * MS)
LAUNCHED = waited(20, "launch", None, short=True)
CASTS = LayoutWork(10.0 * MS, 5.0 * MS, Where(op="model/Cast_3"), "Cast", 4.0 * MS)
TOP = TopKernel("elementwise_kernel", 42.0 * MS, 42.0, "type", "no", CONV, "Conv2D")
CAUSES_SAID: Final[tuple[CauseKind, ...]] = (
    *("type", "channels", "tc_misaligned", "tc_tiles", "tc_small", "tc_memory", "tc_slow", "kernels_unknown"),
)
ROOM = MemoryUse(6e9, 40e9)
TAIL = Tail(12.0 * MS, "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn", 1.2, 2, "128x128")
ODD = Misaligned(
    40.0 * MS, 24.0 * MS, "cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_nn_align1", 40, "a100-sxm-80", 1
)


NAN = Diverged("loss", "nan", 17, 16, 0.6931, half=True, scale="fixed", scale_value=1e6)


def idle_ops(idle_ns: float, idle_pct: float) -> Run:
    """Return a run of which a source tells alone how long the GPU is idle within ops."""
    run = subject(waiting=None, steps=None)
    told = [figure("ops_idle_ns", idle_ns, "reported"), figure("ops_idle_pct", idle_pct, "reported")]
    run.profile = run.profile.with_tables(Table.from_rows(SUMMARY, told))
    return run


CHAINS = ChainWork(30.0 * MS, 30.0 * MS, 1770, 240, ("elementwise", "copy", "normalisation", "reduction"))

BAD: Final[dict[str, list[Run]]] = {
    "TC301": [
        subject(waiting=waits(62_200, 42), gaps=(gap(62_100),), waits=(waited(62_158),), framework="tensorflow"),
        # two causes, two items, each with its own saving
        subject(
            waiting=HALF_IDLE, waits=(waited(30, "copy", "MemcpyH2D"), waited(20, "python", "$train.py:40 augment"))
        ),
        subject(waiting=HALF_IDLE, gaps=(gap(30, "unknown", None),), waits=(waited(30, "unknown", None), LAUNCHED)),
        subject(waiting=HALF_IDLE, gaps=(gap(50, "unknown", None),), waits=(waited(50, "unknown", None),)),
        subject(waiting=HALF_IDLE, gaps=(gap(10),), waits=(LAUNCHED, LAUNCHED, waited(10))),
        subject(waiting=HALF_IDLE, waits=(LAUNCHED,), framework="tensorflow", compiled=True),
        # one stretch in which the host prepares a batch
        subject(
            waiting=HALF_IDLE, gaps=(gap(40),), waits=(waited(45, "python", "data.py(7): load"),), framework="pytorch"
        ),
        subject(waiting=waits(100, 50, "capture")),
        subject(waiting=HALF_IDLE, gaps=(gap(55, "unknown", None),)),  # longer than all waiting without the profiler
        # of 9 of 40 ms nothing tells
        subject(waiting=HALF_IDLE, waits=(waited(21, "launch", "Executor"), waited(10), waited(9, "unknown", None))),
        # none takes much: the largest
        subject(waiting=HALF_IDLE, waits=[waited(10, work) for work in HOST_WORK if work != "unknown"]),
        *(
            subject(waiting=HALF_IDLE, waits=(waited(50, work),), framework=framework)
            for work in HOST_WORK
            if work != "unknown"
            for framework in ("tensorflow", "pytorch", "jax")
        ),
    ],
    "TC302": [
        subject(tuning=TUNED, steps=None),
        subject(tuning=Tuning(2, 44, 90.0 * MS, 90.1, None, 23), steps=None),
    ],
    "TC303": [
        subject(FLOAT32, off("dtype", 10, "dense", "MatMul", dtype="float32"), gpu=V100, framework="tensorflow"),
        subject(FLOAT32, gpu=V100, waiting=HALF_IDLE, framework="pytorch"),
        subject(off("dtype", 40, dtype="bfloat16", gpu="Tesla T4")),
        subject(off("dtype", 40, dtype="float64", gpu="Tesla T4")),
        subject(FLOAT32, waiting=None, step_ns=None),
        subject(FLOAT32, measured=False),
        subject(FLOAT32, gpu=V100, what_ifs=(what_if("mixed_float16", 15, 20, 24),)),
        subject(FLOAT32, gpu=V100, what_ifs=(what_if("mixed_float16", 0, 0, 33, bound=True),)),
        subject(**SGEMM, what_ifs=(SIXTEEN,), framework="pytorch"),
        subject(**SGEMM, what_ifs=(SIXTEEN, replace(SIXTEEN, change="mixed_bfloat16")), framework="pytorch"),
        subject(FLOAT32, gpu=V100, what_ifs=(what_if("mixed_float16", 0, 0, 9, may_cost=True),)),
        subject(FLOAT32, gpu=V100, what_ifs=(what_if("mixed_float16", 15, 20, 24, op_names=OTHER),)),
    ],
    "TC304": [
        subject(off("tf32", 40), gpu=A100, framework="tensorflow"),
        subject(off("tf32", 40), gpu=A100, framework="tensorflow", facts=Facts(tf32_off="environment")),
        subject(
            off("tf32", 40), gpu=A100, facts=Facts(tf32_off="asked"), what_ifs=(what_if("allow_tf32", 10, 20, 30),)
        ),
        subject(off("tf32_unknown", 40), framework="pytorch"),
        subject(off("tf32_unknown", 40), framework="jax"),
        subject(**SGEMM, what_ifs=(SIXTEEN, replace(SIXTEEN, change="allow_tf32")), framework="pytorch"),
    ],
    "TC305": [subject(off("gpu", 40), waiting=waits(100, 60, "marked step"))],
    "TC306": [
        subject(sizes=(size("a", "change", ms=30, **saved(10, 12, 15, 12.0)), size("b", "change", ms=20))),
        subject(
            sizes=(size("a", "change", ms=30, **saved(10, 12, 15, 12.0)),),
            what_ifs=(what_if("change_size", 5, 9, 11, layer="a", dimension="filters", size=63),),
        ),
        subject(off("shape", 40, kernel="sgemm"), sizes=(size("image", "image", 3),)),
        subject(off("shape_required", 40, dtype="int8")),
        subject(
            sizes=(
                size("a", "change", ms=30, **saved(10, 12, 15, 12.0)),
                size("b", "change_before", dimension="channels", **saved(1, 2, 3, 2.0)),
                size("c", "change_before", 31, dimension="channels", **saved(1, 2, 3, 2.0)),
            )
        ),
        subject(sizes=tuple(size(op, "change", ms=10, layer_class=None) for op in ("dot", "dot_1", "dot_2"))),
    ],
    "TC307": [
        subject(off("library", 40, kernel="wgrad2d"), sizes=(size("conv", "slice", 1, 40),)),
        subject(
            off("library", 40, kernel="wgrad2d"),
            sizes=(size("conv", "slice", 1, 40),),
            what_ifs=(what_if("slice_filters", 20, 25, 30, layer="conv", dimension="filters", size=1),),
        ),
        subject(sizes=(size("conv", "slice", 3, **saved(-1, 8, 12, 30.0, "predicted")),)),
    ],
    "TC308": [
        subject(off("library", 40, kernel="implicit_convolve_sgemm")),
        subject(off("library", 40, op_type="MatMul", kernel="sgemm"), compiled=True),
    ],
    "TC309": [
        subject(unnamed_ns=75.0 * MS, kernel_ns=100.0 * MS, waiting=waits(200, 100, "capture")),
        subject(unnamed_ns=75.0 * MS, unnamed_kernel="explicit_convolve_sgemm<__half>", **KERNELS),
        # of 75 ms 70 are of products in 16 bits, which gain 60 at most: 65 with the others
        subject(
            unnamed_ns=75.0 * MS,
            unnamed_kernel="explicit_convolve_sgemm<__half>",
            what_ifs=(what_if("tensor_cores", 0, 0, 60, spent_ns=70.0 * MS, bound=True),),
            **KERNELS,
        ),
    ],
    "TC310": [
        subject(facts=Facts(tiny=TINY), framework="tensorflow"),
        subject(facts=Facts(tiny=TINY), framework="pytorch", launching_ns=2.0 * MS),
        subject(facts=Facts(tiny=TINY), framework="jax"),
        subject(facts=Facts(tiny=TINY)),
        subject(facts=Facts(tiny=TINY), framework="tensorflow", compiled=True),
        subject(facts=Facts(tiny=replace(TINY, graphs=True)), framework="pytorch"),
        idle_ops(475.0 * MS, 69.6),
    ],
    "TC311": [
        subject(facts=Facts(layout=LayoutWork(20.0 * MS, 0.0, CONV, "Conv2D", 15.0 * MS)), **KERNELS),
        subject(facts=Facts(layout=replace(CASTS, casts_ns=10.0 * MS)), framework="tensorflow", **KERNELS),
        subject(facts=Facts(layout=replace(CASTS, casts_ns=2.0 * MS)), framework="pytorch", **KERNELS),
        subject(facts=Facts(layout=CASTS), steps=None, **KERNELS),
        subject(facts=Facts(layout=replace(CASTS, convolutions=False)), **KERNELS),
        subject(
            facts=Facts(layout=replace(CASTS, convolutions=False, op_ns=10.0 * MS)), framework="pytorch", **KERNELS
        ),
        # channels last already: the library converts for kernels off the Tensor Cores
        *(
            subject(off(kind, 40), facts=Facts(layout=LayoutWork(20.0 * MS, 0.0, CONV, "Conv2D", 9.0 * MS)), **KERNELS)
            for kind in ("dtype", "tf32", "gpu")
        ),
        subject(facts=Facts(layout=replace(CASTS, casts_ns=0.0, op_type="Transpose")), **KERNELS),
    ],
    "TC312": [
        subject(facts=Facts(scaling=LossScaling(4, 0.5 * MS, 2.0 * MS)), waiting=waits(5, 2)),
        subject(facts=Facts(scaling=LossScaling(4, 0.5 * MS, 0.0)), waiting=waits(5, 5)),
    ],
    "TC313": [
        subject(facts=Facts(warm_up=WarmUp(10, 1, 300.0 * MS, 100.0 * MS))),
        subject(facts=Facts(warm_up=WarmUp(10, 2, 300.0 * MS, 100.0 * MS))),
        subject(facts=Facts(warm_up=WarmUp(1))),
        subject(facts=Facts(warm_up=WarmUp(None)), waiting=None),
        # 50 ms of 80 are what a first step does, or are not told
        subject(
            facts=Facts(warm_up=WarmUp(1)),
            waiting=waits(100, 20),
            waits=(waited(40, "copy_call"), waited(30, "launch"), waited(10, "unknown", None)),
        ),
        subject(facts=Facts(warm_up=WarmUp(None)), waiting=waits(100, 60, "capture")),  # nothing tells when
    ],
    "TC314": [
        *(subject(facts=Facts(top=replace(TOP, cause=cause)), **KERNELS) for cause in CAUSES_SAID),
        subject(facts=Facts(top=TOP), compiled=True, **KERNELS),
        subject(facts=Facts(top=replace(TOP, communicates=True)), **KERNELS),
        subject(facts=Facts(top=replace(TOP, where=Where(), op_type=None, cause="op_unknown")), **KERNELS),
        subject(facts=Facts(top=replace(TOP, where=Where(), cause="op_unknown", unnamed_pct=54.7)), **KERNELS),
    ],
    "TC315": [
        subject(facts=Facts(memory=ROOM, small_ns=30.0 * MS), **KERNELS),
        subject(facts=Facts(memory=ROOM), waiting=HALF_IDLE, waits=(waited(50, "python"),)),
        subject(
            facts=Facts(memory=ROOM, small_ns=30.0 * MS), waiting=HALF_IDLE, waits=(waited(50, "launch"),), **KERNELS
        ),
    ],
    "TC316": [subject(facts=Facts(epoch_steps=12))],
    "TC317": [
        subject(what_ifs=(what_if("mixed_bfloat16", 10, 20, 30),), framework="tensorflow", **KERNELS),
        subject(what_ifs=(what_if("mixed_float16", 0, 4, 30, may_cost=True),), **KERNELS),
        # 16 bits alone likely cost, for one layer: there is no row of them
        subject(what_ifs=(what_if("together", 0, 14, 20, holds=SLICED),), framework="tensorflow", **KERNELS),
        subject(what_ifs=(what_if("together", 0, 14, 20, holds=(*SLICED, ("change_size", "a"))),), **KERNELS),
    ],
    "TC318": [
        subject(facts=Facts(chains=CHAINS), framework="pytorch", **KERNELS),
        subject(facts=Facts(chains=CHAINS), framework="tensorflow", waiting=waits(100, 100, "capture"), **KERNELS),
        subject(facts=Facts(chains=replace(CHAINS, kinds=("copy",))), framework="jax", **KERNELS),
        # 12 ms of 30 must stay, by the bandwidth
        subject(facts=Facts(chains=replace(CHAINS, at_most_ns=18.0 * MS, moved_bytes=8e9, again_bytes=5e9)), **KERNELS),
        subject(facts=Facts(chains=CHAINS), waiting=None, steps=None, **KERNELS),
    ],
    "TC319": [
        subject(facts=Facts(tail=TAIL), **KERNELS),
        subject(facts=Facts(tail=replace(TAIL, waves=0.5, blocks_per_sm=1, where=CONV)), **KERNELS),
    ],
    "TC320": [
        subject(facts=Facts(misaligned=ODD), **KERNELS),
        subject(facts=Facts(misaligned=replace(ODD, alignment=2)), waiting=waits(100, 80, "capture"), **KERNELS),
        subject(facts=Facts(misaligned=ODD), waiting=None, steps=None, **KERNELS),
    ],
    "TC321": [
        *(subject(facts=Facts(diverged=replace(NAN, scale=scale))) for scale in ("fixed", "dynamic", "none", None)),
        subject(facts=Facts(diverged=replace(NAN, step=200, before=100))),
        subject(facts=Facts(diverged=replace(NAN, before=None, before_value=None))),
        subject(facts=Facts(diverged=replace(NAN, half=False, step=None))),
    ],
}
GOOD: Final[dict[str, list[Run]]] = {
    "TC301": [
        subject(waiting=waits(100, 96)),
        subject(waiting=None),
        # TC302 says to profile later steps
        subject(waiting=HALF_IDLE, waits=(waited(40, "unknown", None), waited(10, "compile")), tuning=TUNED),
        subject(waiting=HALF_IDLE, tuning=TUNED),
    ],
    "TC302": [subject()],
    "TC303": [subject(off("tf32", 40)), subject(off("dtype", 40, dtype="int32"))],
    "TC304": [subject(FLOAT32)],
    "TC305": [subject(FLOAT32)],
    "TC306": [
        subject(off("shape", 40, "a"), sizes=(size("a", "small_head", ms=40),)),
        subject(sizes=(size("a", "change", ms=40, **saved(-2, -1, 5, -1.0)),)),
        subject(sizes=(size("a", "change"),)),
    ],
    "TC307": [
        subject(off("dtype", 40, dtype="float32"), sizes=(size("conv", "slice", 1, 40),)),
        subject(sizes=(size("conv", "slice", 1),)),
    ],
    "TC308": [
        subject(off("library", 40, kernel="gemv2T_kernel_val")),
        subject(off("library", 40, "conv"), sizes=(size("conv", "slice", 1, 40),)),
    ],
    "TC309": [
        subject(kernel_ns=100.0 * MS),
        subject(unnamed_ns=0.0),
        subject(unnamed_ns=75.0 * MS, tuning=TUNED, **KERNELS),
    ],
    "TC310": [
        subject(facts=Facts(tiny=TinyKernels(100, 100, 20.0 * MS)), waiting=None),
        subject(facts=Facts(tiny=TinyKernels(40, 40, 20.0 * MS))),  # few launches
        subject(facts=Facts(tiny=TinyKernels(1000, 400, 20.0 * MS))),  # most are longer
        subject(facts=Facts(tiny=TinyKernels(1000, 900, 4.0 * MS))),  # they take 4 % of the step
        subject(facts=Facts(tiny=TINY), waiting=HALF_IDLE, waits=(waited(50, "launch"),)),  # TC301 says it
        subject(facts=Facts(tiny=TINY), waiting=waits(100, 50, "capture")),  # kernels of what is no step
        subject(facts=Facts(tiny=TINY), steps=None),
        idle_ops(20.0 * MS, 24.0),
    ],
    "TC311": [
        subject(facts=Facts(layout=CASTS), tuning=TUNED, **KERNELS),
        subject(facts=Facts(layout=replace(CASTS, ns=4.0 * MS, casts_ns=0.0)), **KERNELS),
        subject(**KERNELS),
    ],
    "TC312": [
        subject(facts=Facts(scaling=LossScaling(4, 0.5 * MS, 0.0)), waiting=None),
        subject(facts=Facts(scaling=LossScaling(4, 0.5 * MS, 0.0)), steps=None),
        subject(facts=Facts(scaling=LossScaling(4, 0.5 * MS, 2.0 * MS)), waiting=waits(5, 2), tuning=TUNED),
    ],
    "TC313": [
        subject(facts=Facts(warm_up=WarmUp(10))),
        subject(facts=Facts(warm_up=WarmUp(1)), tuning=Tuning(1, 9, 1.0, 50.0, "a", 9)),  # TC302 says it
        subject(facts=Facts(warm_up=WarmUp(1)), waiting=HALF_IDLE, waits=(waited(50, "compile"),)),  # TC301 says it
        subject(facts=Facts(warm_up=WarmUp(1)), waiting=HALF_IDLE, waits=(waited(50, "executor"),)),  # so it does here
    ],
    "TC314": [
        subject(facts=Facts(top=replace(TOP, share_pct=24.0)), **KERNELS),
        subject(facts=Facts(top=replace(TOP, cause="tc_well", uses_tc="yes")), **KERNELS),
        subject(facts=Facts(top=replace(TOP, cause=None, uses_tc="yes")), **KERNELS),
        subject(facts=Facts(top=replace(TOP, cause="layout")), **KERNELS),  # TC311 says it
        subject(off("library", 42), facts=Facts(top=replace(TOP, cause="library")), **KERNELS),  # TC308 says it
        subject(sizes=(size("conv", "slice", 1, 42),), facts=Facts(top=replace(TOP, cause="channels")), **KERNELS),
    ],
    "TC315": [
        subject(facts=Facts(small_ns=30.0 * MS), **KERNELS),  # nobody knows how much memory is free
        subject(facts=Facts(memory=replace(ROOM, peak_bytes=20e9), small_ns=30.0 * MS), **KERNELS),
        subject(facts=Facts(memory=ROOM, small_ns=9.0 * MS), **KERNELS),
        subject(facts=Facts(memory=ROOM), waiting=HALF_IDLE, waits=(waited(50, "input"),)),
        subject(facts=Facts(memory=ROOM, small_ns=30.0 * MS), tuning=TUNED, **KERNELS),
        subject(facts=Facts(memory=ROOM), **KERNELS),
    ],
    "TC316": [subject()],
    "TC317": [
        subject(**KERNELS),
        subject(what_ifs=(what_if("mixed_bfloat16", 0, 0, 3),), **KERNELS),
        subject(what_ifs=(what_if("together", 0, 14, 20, holds=SLICED[1:]),), **KERNELS),
        subject(what_ifs=(what_if("together", 0, 14, 20, holds=(SLICED[0], ("change_size", "a"))),), **KERNELS),
        subject(off("tf32", 40), what_ifs=(what_if("mixed_bfloat16", 10, 20, 30),), **KERNELS),
    ],
    "TC318": [
        subject(facts=Facts(chains=replace(CHAINS, ns=4.9 * MS)), **KERNELS),
        subject(facts=Facts(chains=CHAINS), compiled=True, **KERNELS),
        subject(facts=Facts(chains=CHAINS), tuning=TUNED, **KERNELS),
        subject(facts=Facts(chains=CHAINS)),
        # they are tiny, and TC301 or TC310 speaks of launches
        subject(facts=Facts(chains=replace(CHAINS, launches=3100), tiny=TINY), **KERNELS),
        subject(facts=Facts(chains=replace(CHAINS, launches=3100)), waiting=HALF_IDLE, waits=(LAUNCHED,), **KERNELS),
    ],
    "TC319": [
        subject(facts=Facts(tail=replace(TAIL, ns=4.9 * MS)), **KERNELS),
        subject(facts=Facts(tail=TAIL), tuning=TUNED, **KERNELS),
    ],
    "TC320": [subject(**KERNELS), subject(facts=Facts(misaligned=ODD), tuning=TUNED, **KERNELS)],
    "TC321": [subject()],
}


@pytest.mark.parametrize("tested", RUN_RULES, ids=lambda rule: rule.code)
def test_a_run_says_what_the_golden_file_holds(tested: Rule, request: pytest.FixtureRequest) -> None:
    code = tested.code
    items = [list(tested.check(given)) for given in BAD[code]]
    assert all(items)
    assert {item.code for part in items for item in part} == {code}
    lines = "".join(f"{advice_sentence(item)}\n" for part in items for item in part)
    path = FOLDER / f"{code.lower()}.txt"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(lines, encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", GOOD)
def test_a_run_without_the_fault_is_not_spoken_of(code: str) -> None:
    assert [list(rule(code).check(given)) for given in GOOD[code]] == [[]] * len(GOOD[code])


def test_every_kind_is_said_by_one_rule_and_by_a_golden_run() -> None:
    kinds = [kind for module in {rule.module: rule.load() for rule in RUN_RULES}.values() for kind in module.SAYS]
    assert sorted(kinds) == sorted(REMEDIES)
    assert list(BAD) == list(GOOD) == [rule.code for rule in RUN_RULES]
    said = {item.kind for code, runs in BAD.items() for given in runs for item in rule(code).check(given)}
    assert said == set(REMEDIES)
