"""Print the documentation of rules and the lists of rules and GPUs, as text or Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcprobe.report.blocks import ColumnHead, Section
from tcprobe.report.formatting import full_number
from tcprobe.report.grid import escape_markdown, markdown_lines, text_lines

if TYPE_CHECKING:
    from tcprobe.hardware import Gpu
    from tcprobe.rules.base import RuleDoc

WIDTH: Final = 100  # of prose, if the output is no terminal
GPU_LEGEND: Final = (
    "--target-gpu takes the id. CC: compute capability. float32 to float8: dense peak in TFLOP/s with accumulation in "
    "float32; int8: TOP/s; -: none known. float32 runs as TF32 where there is a figure, unless --dtype float32."
)
PEAKS: Final = ("float32", "tf32", "float16", "bfloat16", "float8", "int8")


def rule_text(doc: RuleDoc, markdown: bool, width: int | None = None) -> str:
    """Return the documentation of a rule."""
    return _rule_markdown(doc) if markdown else _rule_text(doc, width or WIDTH)


def _rule_text(doc: RuleDoc, width: int) -> str:
    blocks = [
        f"{doc.code} {doc.name}",
        textwrap.fill(doc.summary, width),
        *(textwrap.fill(p, width) for p in doc.explanation.split("\n\n")),
        f"Bad:\n{textwrap.indent(doc.bad.strip(), '    ')}",
        f"Good:\n{textwrap.indent(doc.good.strip(), '    ')}",
        textwrap.fill(f"{doc.weighed_by}: {doc.severity}", width),
        *(() if doc.of_runs else (_fixing(doc),)),
        "Sources:\n"
        + "\n".join(textwrap.fill(s, width, initial_indent="- ", subsequent_indent="  ") for s in doc.sources),
        *(() if doc.of_runs else (_silencing(doc),)),
    ]
    return "\n\n".join(blocks) + "\n"


def _fixing(doc: RuleDoc) -> str:
    changes = " (changes the model: checkpoints no longer fit)" if doc.code.startswith("TC1") else ""
    return f"--fix may mend it{changes}." if doc.fixable else "--fix leaves it."


def _silencing(doc: RuleDoc) -> str:
    return f"Silence it on its line with # tcprobe: ignore[{doc.code}], everywhere with --ignore {doc.code}."


def _rule_markdown(doc: RuleDoc) -> str:
    blocks = [
        f"## {doc.code} {doc.name}",
        doc.summary,
        doc.explanation,
        f"Bad:\n\n```python\n{doc.bad.strip()}\n```",
        f"Good:\n\n```python\n{doc.good.strip()}\n```",
        f"{doc.weighed_by}: {doc.severity}",
        *(() if doc.of_runs else ("Fixable with `--fix`." if doc.fixable else "Not fixable with `--fix`.",)),
        "Sources:\n\n" + "\n".join(f"- {escape_markdown(s)}" for s in doc.sources),
    ]
    return "\n\n".join(blocks) + "\n"


def rule_list(docs: Sequence[RuleDoc], markdown: bool, width: int | None = None) -> str:
    """Return one line per rule."""
    headings = (ColumnHead("code"), ColumnHead("name"), ColumnHead("fix"), ColumnHead("what it finds", wraps=True))
    cells = tuple((d.code, d.name, "--fix" if d.fixable else "", d.summary) for d in docs)
    return _table(Section("", headings, cells), markdown, width)


def gpu_list(listed: Sequence[Gpu], markdown: bool, width: int | None = None) -> str:
    """Return one line per GPU: id, name, compute capability, Tensor Cores, SMs, dense peaks in TFLOP/s (int8 TOP/s)."""
    headings = (
        ColumnHead("id"),
        ColumnHead("name", least=12, rank=1),
        ColumnHead("CC"),
        ColumnHead("Tensor Cores"),
        ColumnHead("SMs", right=True, rank=2),
        ColumnHead("GB/s", right=True, rank=2),
        *(ColumnHead(dtype, right=True, rank=3) for dtype in PEAKS),
    )
    table = _table(Section("", headings, tuple(_gpu(gpu) for gpu in listed)), markdown, width)
    said = GPU_LEGEND if markdown or width is None else "\n".join(textwrap.wrap(GPU_LEGEND, width))
    return f"{table}\n{said}\n"


def _gpu(gpu: Gpu) -> tuple[str, ...]:
    peaks = (gpu.peak_flop_per_s(dtype) for dtype in PEAKS)
    major, minor = gpu.compute_capability
    return (
        gpu.id,
        gpu.name,
        f"{major}.{minor}",
        "yes" if gpu.tensor_cores else "no",
        str(gpu.sm),
        full_number(gpu.bandwidth_bytes_per_s / 1e9, 4),
        *("-" if peak is None else full_number(peak / 1e12, 4) for peak in peaks),
    )


def _table(section: Section, markdown: bool, width: int | None) -> str:
    lines = markdown_lines(section) if markdown else text_lines(section, width)
    return "".join(f"{line}\n" for line in lines)
