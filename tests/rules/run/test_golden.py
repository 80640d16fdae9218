"""Each rule on runs that it must speak of and on one that it must not; `--update-golden` writes the sentences anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tcprobe.hardware import find_gpu
from tcprobe.report.run.advice import advice_sentence
from tcprobe.rules.registry import RUN_RULES
from tcprobe.rules.run.base import RunRule, RunSubject
from tcprobe.schema.advice import REMEDIES
from tcprobe.schema.waits import HOST_WORK, Tuning
from tests.rules.run.builders import MS, gap, off, rule, saved, size, subject, waits

FOLDER = Path(__file__).parent.with_name("golden")
V100 = find_gpu("v100-sxm2")
A100 = find_gpu("a100-sxm-40")
FLOAT32 = off("dtype", 40, dtype="float32", gpu="Tesla V100 SXM2")
HALF_IDLE = waits(100, 50)

BAD: Final[dict[str, list[RunSubject]]] = {
    "TC301": [
        subject(waiting=waits(62_200, 42), gaps=(gap(62_100),), framework="tensorflow"),
        subject(waiting=HALF_IDLE, gaps=(gap(30, "copy", "MemcpyH2D"), gap(20, "python", "$train.py:40 augment"))),
        subject(waiting=HALF_IDLE, gaps=(gap(30, "unknown", None), gap(20, "launch", before=None))),
        subject(waiting=HALF_IDLE, gaps=(gap(50, "unknown", None),)),
        subject(waiting=HALF_IDLE, gaps=(gap(10),), idle_ns=50.0 * MS, short_ns=40.0 * MS),
        subject(waiting=HALF_IDLE, gaps=(gap(50, "launch"),), framework="tensorflow", compiled=True),
        subject(waiting=waits(100, 50, "capture")),
        *(
            subject(waiting=HALF_IDLE, gaps=(gap(50, work),), framework=framework)
            for work in HOST_WORK
            if work != "unknown"
            for framework in ("tensorflow", "pytorch", "jax")
        ),
    ],
    "TC302": [subject(tuning=Tuning(14, 621, 97.0 * MS, 97.0, "alex_net/conv2d_1/Relu", 58), steps=None)],
    "TC303": [
        subject(FLOAT32, off("dtype", 10, "dense", "MatMul", dtype="float32"), gpu=V100, framework="tensorflow"),
        subject(FLOAT32, gpu=V100, waiting=HALF_IDLE, framework="pytorch"),
        subject(off("dtype", 40, dtype="bfloat16", gpu="Tesla T4")),
        subject(off("dtype", 40, dtype="float64", gpu="Tesla T4")),
        subject(FLOAT32, waiting=None, step_ns=None),
        subject(FLOAT32, measured=False),
    ],
    "TC304": [
        subject(off("tf32", 40), gpu=A100, framework="tensorflow"),
        subject(off("tf32_unknown", 40), framework="pytorch"),
        subject(off("tf32_unknown", 40), framework="jax"),
    ],
    "TC305": [subject(off("gpu", 40), waiting=waits(100, 60, "marked step"))],
    "TC306": [
        subject(sizes=(size("a", "change", ms=30, **saved(10, 12, 15, 12.0)), size("b", "change", ms=20))),
        subject(off("shape", 40, kernel="sgemm"), sizes=(size("image", "image", 3),)),
        subject(off("shape_required", 40, dtype="int8")),
    ],
    "TC307": [
        subject(off("library", 40, kernel="wgrad2d"), sizes=(size("conv", "slice", 1, 40),)),
        subject(sizes=(size("conv", "slice", 3, **saved(-1, 8, 12, 30.0, "predicted")),)),
    ],
    "TC308": [
        subject(off("library", 40, kernel="implicit_convolve_sgemm")),
        subject(off("library", 40, op_type="MatMul", kernel="sgemm"), compiled=True),
    ],
    "TC309": [subject(unnamed_ns=75.0 * MS, kernel_ns=100.0 * MS, waiting=waits(200, 100, "capture"))],
}
GOOD: Final[dict[str, list[RunSubject]]] = {
    "TC301": [subject(waiting=waits(100, 96)), subject(waiting=None)],
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
    "TC309": [subject(kernel_ns=100.0 * MS), subject(unnamed_ns=0.0)],
}


@pytest.mark.parametrize("tested", RUN_RULES, ids=lambda rule: rule.DOC.code)
def test_a_run_says_what_the_golden_file_holds(tested: RunRule, request: pytest.FixtureRequest) -> None:
    code = tested.DOC.code
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
    kinds = [kind for rule in RUN_RULES for kind in rule.SAYS]
    assert sorted(kinds) == sorted(REMEDIES)
    assert list(BAD) == list(GOOD) == [rule.DOC.code for rule in RUN_RULES]
    said = {item.kind for code, runs in BAD.items() for given in runs for item in rule(code).check(given)}
    assert said == set(REMEDIES)
