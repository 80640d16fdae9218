"""Audit a text in source mode as the command does, and return the fixes of its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcprobe.audit.fix.write import apply
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.cost.predict import Target
from tcprobe.flows.audit.judge import findings_in
from tcprobe.hardware import find_gpu
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Model

TARGET = Target(find_gpu("a100-sxm-40"))


@dataclass(frozen=True)
class Whole:
    """An audited text, its models and findings of sizes, what is best left, and the text with all fixes made."""

    text: str
    models: tuple[Model, ...]
    findings: tuple[Finding, ...]
    mended: str
    left: tuple[Finding, ...]

    def sizes(self, *severities: str) -> set[tuple[str, Any, Any]]:
        """What is said of sizes, those best left too; not that an aligned one lies just past a tile (TC109)."""
        return {
            (f.code, f.layer, f.dimension)
            for f in (*self.findings, *self.left)
            if f.code != "TC109" and (f.severity in severities or not severities)
        }


def whole(text: str, dtype: str = "float16", batch: int = 1 << 19, path: str = "/model.py", **others: str) -> Whole:
    """Audit a text; `others` are texts of files beside it, by name.

    By the batch most of these models take the GPU more than a millisecond: below, nothing is worth a warning.
    """
    source = parse_source(text, path)
    sources = {path: source, **{f"/{name}.py": parse_source(other, f"/{name}.py") for name, other in others.items()}}
    steps = [Step(model, TARGET, dtype) for model in read_model(source, batch)]
    found = [f for s in steps for f in findings_in(s, sources, [x for x in steps if x is not s])]
    sized = tuple(f for f in found if f.suggested is not None)
    left = tuple(f for f in found if f.suggested is None and f.size is not None)
    return Whole(text, tuple(s.model for s in steps), sized, apply(sized, sources).get(path, text), left)
