"""TC305: finds runs on a GPU without Tensor Cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import Advice

DOC: Final = RuleDoc(
    code="TC305",
    name="gpu-without-tensor-cores",
    summary="The GPU has no Tensor Cores.",
    explanation=(
        "NVIDIA GPUs before Volta (compute capability below 7.0), and the GTX 16xx of the Turing generation, have no "
        "Tensor Cores. Mixed precision saves memory and bandwidth there, and no arithmetic.\n\n"
        "Another GPU shortens the kernels at most, not the time that the GPU waits."
    ),
    severity="it counts the kernel time of the ops that could use Tensor Cores, at most.",
    bad="# on a Tesla P100\nmodel.fit(dataset)\n",
    good="# the same on a T4, V100, A100 or later\nmodel.fit(dataset)\n",
    sources=("tcprobe/gpus.csv: which GPUs have Tensor Cores, with their sources",),
)
SAYS: Final[Says] = {"use_gpu": "Run on a GPU with Tensor Cores (Volta or later, but no GTX 16xx)"}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where ops ran that another GPU would run on Tensor Cores."""
    if ops := subject.blocked("gpu"):
        yield subject.item(DOC.code, "use_gpu", ops)
