"""TC309: says that kernels ran without Tensor Cores and the source does not name their ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import Advice
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC309",
    name="ops-not-named",
    summary="Kernels ran without Tensor Cores, and the source does not say for which ops.",
    explanation=(
        "A summary, such as that of DLProf's simple mode, tells how much kernel time ran on Tensor Cores and not which "
        "ops the rest belongs to: whether they multiply matrices in a precision or size that keeps them off, or are "
        "element-wise ops that never could. A profile that names ops tells them apart and weighs each.\n\n"
        "All of that time is a bound for what Tensor Cores could save, and a loose one: most models have element-wise "
        "kernels too. Those that a framework names as its own, and communication between GPUs, do not count. Where a "
        "kernel's name tells that it multiplies, the item names the costliest."
    ),
    severity="it counts the time of the kernels that are known to run without Tensor Cores, at most.",
    bad="# dlprof --mode=simple python train.py\nmodel.fit(dataset)\n",
    good="# dlprof --mode=tensorflow2 --reports=all python train.py, or tcprobe profile train.py\nmodel.fit(dataset)\n",
    sources=("DLProf 0.16 summaries of simple mode: kernel times by use of Tensor Cores, and no op",),
)
ORDER: Final = (
    "Record which ops these kernels belong to (tcprobe profile; under Nsight Systems their NVTX ranges; with DLProf "
    "all reports, in its framework mode)"
)


def _says(fields: Mapping[str, Any]) -> Template:
    most = ", the costliest that multiplies {kernel!n}" if fields["kernel"] else ""
    return ORDER, f"kernels of unnamed ops ran without Tensor Cores{most}"


SAYS: Final[Says] = {"name_ops": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where kernels without Tensor Cores belong to no op that the source names."""
    if subject.unnamed_ns > 0 and subject.kernel_ns > 0:
        share = 100.0 * subject.unnamed_ns / subject.kernel_ns
        concern = subject.concern(share, "kernel_time", subject.unnamed_ns)
        yield Advice(DOC.code, say("name_ops", kernel=subject.unnamed_kernel), concern)
