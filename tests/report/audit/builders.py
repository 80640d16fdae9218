"""Build audits by hand for the tests of reports."""

from __future__ import annotations

from tcprobe.report.audit.document import AuditDocument
from tcprobe.report.document import ReportSpec
from tcprobe.schema.finding import (
    Audited,
    AuditReport,
    Edit,
    EffectKind,
    Finding,
    FindingKind,
    Fix,
    Range,
    UnjudgedFile,
)
from tcprobe.schema.model import NotJudged, Place, Unseen
from tcprobe.schema.provenance import Provenance, Stack
from tcprobe.schema.statement import About, Statement, say

ROOT = "/home/me/project"
FILE = f"{ROOT}/models/gan.py"
SPEC = ReportSpec(cwd=ROOT)

FIX = Fix(
    say(
        "change_sizes",
        others=(say("size_changed", argument="filters", old=63, new=64),),
        last=say("size_changed", argument="target_shape", old=63, new=64),
    ),
    (
        Edit(Place(FILE, 12, 9, 12, 11), "63", "64"),
        Edit(Place(FILE, 30, 17, 30, 19), "63", "64"),
    ),
)


def slower(*passes: str) -> Statement[EffectKind]:
    """Return that passes run at 35-45 % of an aligned product's rate on an A100."""
    return say("slower", passes=passes, low_pct=35, high_pct=45, gpu="A100 SXM4 40GB", padded=False, estimated=False)


def bad(about: About, *passes: str) -> Statement[FindingKind]:
    """Return that a size is no multiple of 8 and slows passes down."""
    return say("not_a_multiple", subject=about, multiple=8, effect=slower(*passes), added=())


LENT = Provenance(
    "a100-sxm-40",
    "a100-sxm-80",
    Stack("framework", "PyTorch"),
    convolutions_of="v100-sxm2",
    widened=1.1,
)
COSTLY = Finding(
    code="TC101",
    says=bad(About("Conv2D", "conv2d_1", "filters", 63), "forward", "dgrad", "wgrad"),
    place=Place(FILE, 12, 5, 12, 40),
    severity="error",
    layer="generator/conv2d_1",
    layer_class="Conv2D",
    dimension="filters",
    size=63,
    suggested=64,
    passes=("forward", "dgrad", "wgrad"),
    dtype="float16",
    saving_ns=Range(400_000.0, 500_000.0, 600_000.0),
    saving_pct=Range(4.5, 5.6, 6.7),
    basis="predicted",
    constants=LENT,
    related=(
        (
            Place(FILE, 30, 17, 30, 19),
            say("takes", subject=About("Conv2D", "conv2d_2"), dimension="channels", old=63, new=64),
        ),
    ),
    fix=FIX,
)
MILD = Finding(
    code="TC101",
    says=bad(About("Dense", "dense", "units", 4090), "forward"),
    place=Place(FILE, 20, 9, 21, 12),
    severity="warning",
    layer="generator/dense",
    layer_class="Dense",
    dimension="units",
    size=4090,
    suggested=4096,
    saving_ns=Range(90_000.0, 100_000.0, 120_000.0),
    saving_pct=Range(0.9, 1.05, 1.2),
    basis="predicted",
    constants=LENT,
)
FREE = Finding(
    code="TC102",
    says=say("batch_not_a_multiple", batch=4090, why=say("batch_never_innermost")),
    place=None,
    severity="note",
    dimension="batch",
    size=4090,
    suggested=4096,
    why=say("batch_never_innermost"),
)
SILENT = Finding(
    code="TC205",
    says=say("policy_after_layers", policy="mixed_float16", layers=2),
    place=Place(FILE, 3, 1, 3, 20),
    severity="warning",
)
UNSEEN = (
    Unseen("Dense at models/gan.py:40: units", "comes from a function argument", Place(FILE, 40, 5)),
    Unseen("Dense at models/gan.py:41: units", "comes from a function argument", Place(FILE, 41, 5)),
    Unseen("Lambda at models/gan.py:50", "runs code of its own", Place(FILE, 50, 5)),
)


def document(of: AuditReport, spec: ReportSpec = SPEC) -> AuditDocument:
    return AuditDocument(of, spec)


def audited(findings: tuple[Finding, ...] = (COSTLY, MILD, FREE), batch_known: bool = True) -> Audited:
    return Audited(
        label="generator",
        file=FILE,
        mode="traced",
        findings=findings,
        suppressed=(SILENT,),
        step_ns=Range(8_000_000.0, 9_000_000.0, 10_000_000.0),
        total_saving_ns=Range(490_000.0, 600_000.0, 720_000.0),
        batch=4090 if batch_known else 1024,
        batch_known=batch_known,
        products=12,
        costed=11,
        layers=9,
        gpu="a100-sxm-40",
        dtype=None,
        library="cublas12",
        xla=False,
        constants=(LENT,),
        keras="3.12.0",
        tensorflow="2.21.0",
        unseen=UNSEEN,
        notes=("stopped at the first training step",),
    )


def report() -> AuditReport:
    """Three findings, one suppressed, one unused suppression, one file that failed."""
    unused = ((Place(FILE, 60, 30, 60, 43), "# noqa: TC101"),)
    return AuditReport((audited(),), unused, ((f"{ROOT}/broken.py", "line 3: invalid syntax"),), ROOT)


def clean() -> AuditReport:
    made = Audited("m", FILE, "source", layers=4, gpu="h100-sxm", library="cublas12", batch=1024)
    return AuditReport((made,), root=ROOT)


def unjudged() -> AuditReport:
    """Return an audit of a PyTorch file that was named, of one in a folder, and of a file with sizes that are open."""
    other, open_ = f"{ROOT}/net.py", f"{ROOT}/blocks.py"
    foreign = (
        NotJudged("PyTorch", "model", "Module", 1, Place(other, 3, 1)),
        NotJudged("PyTorch", "layer", "Linear", 8, Place(other, 6, 18)),
        NotJudged("PyTorch", "layer", "Conv2d", 4, Place(other, 9, 18)),
    )
    one = NotJudged("TensorFlow", "product", "matmul", 1, Place(FILE, 4, 9))
    audits = (
        Audited("net.py", other, "source", not_judged=foreign),
        Audited("gan.py", FILE, "source", not_judged=(one,)),
        Audited("blocks.py", open_, "source", unseen=(Unseen("Dense at blocks.py:3: units", "comes from a file"),)),
    )
    fails = (UnjudgedFile(other, True), UnjudgedFile(FILE, False), UnjudgedFile(open_, True))
    return AuditReport(audits, root=ROOT, unjudged=fails)


REPORTS = {"findings": report, "clean": clean, "unjudged": unjudged}
