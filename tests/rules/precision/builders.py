"""Build subjects for the precision rules, and run a rule on one in a single line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tcprobe.audit.severity import grade
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.cost.predict import Target
from tcprobe.hardware import find_gpu
from tcprobe.report.audit.words import message
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import Step
from tcprobe.rules.registry import Rule, rule_of
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Mode, Model, Product
from tcprobe.schema.op import OpRecord

PLAIN = {"transpose_a": False, "transpose_b": False}
CODES = tuple(f"tc2{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 10))
FILE = "/models/model.py"
HEAD = "import tensorflow as tf\nfrom tensorflow import keras\nfrom tensorflow.keras import layers, mixed_precision\n"
FLOAT16 = HEAD + 'mixed_precision.set_global_policy("mixed_float16")\n'
BFLOAT16 = HEAD + 'mixed_precision.set_global_policy("mixed_bfloat16")\n'


def rule(code: str) -> Rule:
    """Return a rule."""
    return rule_of(code.upper())


def subject(
    text: str = "",
    *,
    gpu: str = "a100-sxm-40",
    mode: Mode = "source",
    dtype: str | None = None,
    tf32: bool = True,
    **model: Any,
) -> Subject:
    """Return a subject of one file; further arguments are the model's."""
    source = parse_source(text, FILE)
    made = Model(mode, "model.py", FILE, **model)
    return Subject(made, Step(made, Target(find_gpu(gpu), tf32=tf32), dtype), {FILE: source})


def read(text: str, path: str = FILE, gpu: str = "a100-sxm-40", **changes: Any) -> Subject:
    """Return a subject whose model is read from its source, with samples of 256; an empty one where it has none."""
    source = parse_source(text, path)
    model = replace(next(iter(read_model(source, 256)), Model("source", "model.py", path)), **changes)
    return Subject(model, Step(model, Target(find_gpu(gpu))), {path: source})


def found(code: str, given: Subject) -> list[Finding]:
    """Return what a rule finds, with its severity decided."""
    return [grade(finding, given.step) for finding in rule(code).check(given)]


def said(code: str, given: Subject) -> list[str]:
    """Return each finding as ``line severity``, in order of place."""
    findings = sorted(found(code, given), key=lambda f: (f.place.line if f.place else 0, message(f)))
    return [f"{f.place.line if f.place else '-'} {f.severity}" for f in findings]


def everything(given: Subject) -> list[Finding]:
    """Return what all precision rules find."""
    return [finding for code in CODES for finding in found(code, given)]


def golden(findings: Iterable[Finding]) -> str:
    """Return findings as ``line:col CODE severity message`` lines, in order of place."""
    rows = [
        (f.place.line if f.place else 0, f.place.column if f.place else 0, f"{f.code} {f.severity} {message(f)}")
        for f in findings
    ]
    return "".join(f"{line}:{column} {text}\n" for line, column, text in sorted(rows))


def dense(name: str, inputs: int, units: int, **settings: Any) -> tuple[Layer, Product]:
    """Return a Dense layer on 1,024 samples and its forward product."""
    dtype = settings.get("dtype", "float16")
    layer = Layer(name, "Dense", "Dense", **settings)
    record = OpRecord("MatMul", ((1024, inputs), (inputs, units)), (1024, units), dict(PLAIN), dtype, "forward")
    return layer, Product(record, name)


def root() -> Path:
    """Return the folder of the golden pairs."""
    return Path(__file__).parents[1] / "golden"
