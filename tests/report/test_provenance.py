"""Whose constants a figure rests on, in words."""

from __future__ import annotations

import pytest

from tcprobe.report.sentences import constants_of
from tcprobe.schema.provenance import Provenance, Stack

VLLM, TORCH = Stack("serving", "vLLM"), Stack("framework", "PyTorch")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Provenance("a100-sxm-80", "a100-sxm-80", TORCH), "its own constants through PyTorch"),
        (Provenance("t4", "t4"), "its own constants"),
        (
            Provenance("a100-sxm-40", "a100-sxm-80", TORCH),
            "the constants of an A100 SXM4 80GB through PyTorch; the range is wider for it",
        ),
        (
            Provenance("b200", "h200-sxm", VLLM, "tc16", "a100-sxm-80", "v100-sxm2", "h100-sxm"),
            "the constants of an H200 SXM through vLLM, those of 16 bits where a dtype has none, what a framework "
            "costs on an A100 SXM4 80GB, the convolutions of a V100 SXM2 and what unaligned sizes cost on an H100 "
            "SXM5; the range is wider for it",
        ),
        (
            Provenance("l4", "l40s", VLLM, framework_of="a100-sxm-80", unaligned_of="a100-sxm-80"),
            "the constants of an L40S through vLLM and what a framework and unaligned sizes cost on an A100 SXM4 80GB; "
            "the range is wider for it",
        ),
        (Provenance("", "new-gpu"), "the constants of a new-gpu; the range is wider for it"),
    ],
)
def test_a_phrase(known: Provenance, said: str) -> None:
    assert constants_of(known) == said
