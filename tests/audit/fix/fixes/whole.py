"""Audit a text in source mode as the command does, and return the fixes of its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.source.text import apply
from tcprobe.audit.severity import grade
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.cost.predict import Target
from tcprobe.hardware import find_gpu
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import Step
from tcprobe.rules.registry import RULES
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Model

TARGET = Target(find_gpu("a100-sxm-40"))


@dataclass(frozen=True)
class Whole:
    """An audited text, its models and findings, and the text with all fixes made."""

    text: str
    models: tuple[Model, ...]
    findings: tuple[Finding, ...]
    mended: str

    def sizes(self, *severities: str) -> set[tuple[str, Any, Any]]:
        """What is said of sizes; not that an aligned one lies just past a tile of this GPU (TC109)."""
        return {
            (f.code, f.layer, f.dimension)
            for f in self.findings
            if f.code != "TC109" and (f.severity in severities or not severities)
        }


def whole(text: str, dtype: str = "float16", batch: int = 4096) -> Whole:
    """Audit a text."""
    source = parse_source(text, "/model.py")
    sources = {source.path: source}
    models, findings = tuple(read_model(source, batch)), []
    for model in models:
        step = Step(model, TARGET, dtype)
        found = [grade(f, step) for rule in RULES for f in rule.check(Subject(model, step, sources))]
        sized = [f for f in dict.fromkeys(found) if f.suggested is not None]
        findings += with_fixes(sized, model, step, sources)
    return Whole(text, models, tuple(findings), apply(findings, sources).get(source.path, text))
