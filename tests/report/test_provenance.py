"""Whose constants a figure rests on, in words."""

from __future__ import annotations

import pytest

from tcprobe.report.sentences import constants_of
from tcprobe.schema.provenance import Provenance, Stack

VLLM, TORCH = Stack("serving", "vLLM"), Stack("framework", "PyTorch")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Provenance("a100-sxm-80", "a100-sxm-80", TORCH), "measurements of an A100 SXM4 80GB"),
        (Provenance("t4", "t4"), "measurements of a T4"),
        (Provenance("a100-sxm-40", "a100-sxm-80", TORCH), "measurements of an A100 SXM4 80GB: wide range"),
        (
            Provenance("b200", "h200-sxm", VLLM, "tc16", "a100-sxm-80", "v100-sxm2", "h100-sxm"),
            "measurements of an H200 SXM, an A100 SXM4 80GB, a V100 SXM2 and an H100 SXM5: wide range",
        ),
        (
            Provenance("l4", "l40s", VLLM, framework_of="a100-sxm-80", unaligned_of="a100-sxm-80"),
            "measurements of an L40S and an A100 SXM4 80GB: wide range",
        ),
        (Provenance("", "new-gpu"), "measurements of a new-gpu: wide range"),
    ],
)
def test_a_phrase(known: Provenance, said: str) -> None:
    assert constants_of(known) == said
