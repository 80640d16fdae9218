"""TC102: notes a batch size that is not a multiple of 8, which hardly matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.gemm.alignment import RULE_OF_EIGHT, next_size
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.schema.finding import Finding
from tcprobe.schema.finding_kinds import WhyKind
from tcprobe.schema.place import Place
from tcprobe.schema.statement import Statement, say

DOC = RuleDoc(
    code="TC102",
    name="batch-not-multiple-of-8",
    summary="The batch is not a multiple of 8, which is a matter of tiles, not of Tensor Cores.",
    explanation=(
        "TensorFlow's guide lists the batch among the sizes that should be multiples of 8. Measured, it does not "
        "matter: on an A100 in float16 products with only the batch odd reach 216-225 TFLOP/s, fully aligned ones "
        "211-223, in forward, dgrad and wgrad alike; 7 against 8 and 15 against 16 rows differ by 0.2 % on A100, "
        "H100, B200 and L40S. The batch is a row count in every pass and never innermost in memory. cuBLAS 10 does "
        "ask for it, and a batch just past a multiple of a tile may cost a few percent: TC109 says so where it "
        "does."
    ),
    severity="Always a note.",
    level="note",
    bad="model.fit(x, y, batch_size=4090)",
    good="model.fit(x, y, batch_size=4096)",
    sources=(
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100), one dimension unaligned at a time",
        "aiconfigurator measurements (A100, H100, B200, L40S): 7 against 8 and 15 against 16 rows",
        "NVIDIA, Matrix Multiplication Background User's Guide, table 1: cuBLAS before 11.0",
    ),
)
SAYS: Final[Says] = {
    "batch_not_a_multiple": ("batch={batch} is not a multiple of 8", "{why}"),
    "batch_never_innermost": (
        "it does not matter, as no pass has the batch innermost in memory (only cuBLAS before 11 asks for it)"
    ),
    "cublas10_batch": "cuBLAS 10 uses Tensor Cores only where it is a multiple of 8",
}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield one note for a model whose batch size is known and not a multiple of 8."""
    model = subject.model
    if not model.batch_known or model.batch % RULE_OF_EIGHT == 0:
        return
    old = subject.step.target.library == "cublas10"
    why: Statement[WhyKind] = say("cublas10_batch" if old else "batch_never_innermost")
    suggested = next_size(model.batch, RULE_OF_EIGHT)
    yield Finding(
        code=DOC.code,
        says=say("batch_not_a_multiple", batch=model.batch, why=why),
        place=batch_place(subject),
        severity="note",
        dimension="batch",
        size=model.batch,
        suggested=suggested if old else None,
        why=why,
    )


def batch_place(subject: Subject) -> Place | None:
    """Return where ``batch_size=`` is given this value literally; None if nowhere."""
    for source in subject.sources.values():
        for call in source.calls():
            given = call.arguments.get("batch_size")
            if given is not None and given.known is not None and given.known.value == subject.model.batch:
                return given.place
    return None
