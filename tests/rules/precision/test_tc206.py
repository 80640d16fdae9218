"""TC206: precisions that a GPU cannot compute fast."""

from __future__ import annotations

import pytest

from tcprobe.report.audit.words import message
from tests.rules.precision.builders import BFLOAT16, FLOAT16, HEAD, dense, found, said, subject

PRODUCT = dense("d", 64, 64, dtype="float32")[1]


@pytest.mark.parametrize(
    ("text", "gpu", "words"),
    [
        (FLOAT16, "gtx1660ti", "in spite of compute capability 7.5"),
        (FLOAT16, "gtx1080ti", "saves memory, not time"),
        (FLOAT16, "p100", "saves memory, not time"),
        (BFLOAT16, "t4", "use mixed_float16"),
        (BFLOAT16, "v100-sxm2", "came with 8.0"),
    ],
)
def test_a_precision_that_the_gpu_lacks_is_a_warning_at_the_policy(text: str, gpu: str, words: str) -> None:
    (finding,) = found("TC206", subject(text, gpu=gpu))
    assert finding.severity == "warning"
    assert words in message(finding)
    assert finding.place is not None
    assert finding.place.line == 4


@pytest.mark.parametrize(
    ("text", "gpu"),
    [(FLOAT16, "t4"), (FLOAT16, "v100-sxm2"), (FLOAT16, "a100-sxm-40"), (BFLOAT16, "a100-sxm-40"), (HEAD, "gtx1660ti")],
)
def test_what_the_gpu_can_is_silent(text: str, gpu: str) -> None:
    assert said("TC206", subject(text, gpu=gpu, products=(PRODUCT,))) == []


@pytest.mark.parametrize(("gpu", "tf32"), [("v100-sxm2", True), ("t4", True), ("a100-sxm-40", False)])
def test_float32_that_leaves_tensor_cores_idle_is_a_note(gpu: str, tf32: bool) -> None:
    (finding,) = found("TC206", subject(HEAD, gpu=gpu, tf32=tf32, products=(PRODUCT,)))
    assert (finding.severity, finding.place) == ("note", None)


def test_float32_as_tf32_is_silent_and_so_is_a_model_without_products() -> None:
    assert said("TC206", subject(HEAD, products=(PRODUCT,))) == []
    assert said("TC206", subject(HEAD, gpu="t4")) == []


def test_the_dtype_that_the_user_asks_for_decides() -> None:
    assert said("TC206", subject(FLOAT16, gpu="t4", dtype="bfloat16")) == ["4 warning"]
    assert said("TC206", subject(BFLOAT16, gpu="t4", dtype="float16")) == []
    assert said("TC206", subject(HEAD, gpu="a100-sxm-40", dtype="float8")) == ["- warning"]
    assert said("TC206", subject(HEAD, gpu="h100-sxm", dtype="float8")) == []
