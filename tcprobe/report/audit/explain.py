"""Print the documentation of rules and the lists of rules and GPUs, as text or Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tcprobe.report.blocks import ColumnHead, Section
from tcprobe.report.formatting import full_number
from tcprobe.report.grid import escape_markdown, markdown_lines, text_lines

if TYPE_CHECKING:
    from tcprobe.hardware import Board, Gpu
    from tcprobe.rules.base import RuleDoc

WIDTH: Final = 100  # of prose, if the output is no terminal
GPU_LEGEND: Final = (
    "--target-gpu takes the id. CC: compute capability; TC: whether it has Tensor Cores. float32 to float8: dense peak "
    "in TFLOP/s with accumulation in float32; int8: TOP/s; -: none known. float32 runs as TF32 where there is a "
    "figure, unless --dtype float32. A laptop's GPU is listed at its highest boost clock: a power limit may allow less."
)
CARDS: Final = "cards and modules"
KIND_OF: Final[Mapping[Board | None, str]] = {"mobile": "laptops", "soc": "on one chip with the CPU"}
KINDS: Final = (CARDS, *KIND_OF.values())
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
    """Return a table per generation and kind of board, one line per GPU: id, name, SMs, bandwidth and dense peaks."""
    headings = (
        ColumnHead("id"),
        ColumnHead("name", least=22, rank=1),
        ColumnHead("CC", rank=2),
        ColumnHead("TC", rank=2),
        ColumnHead("SMs", right=True, rank=2),
        ColumnHead("GB/s", right=True, rank=2),
        *(ColumnHead(dtype, right=True, rank=2 if dtype == "float16" else 3) for dtype in PEAKS),
    )
    groups = [
        Section(title, headings, tuple(_gpu(gpu) for gpu in sorted(group, key=_order)))
        for title, group in _groups(listed).items()
    ]
    tables = [f"{'## ' if markdown else ''}{section.title}\n{'' if not markdown else chr(10)}" for section in groups]
    said = GPU_LEGEND if markdown or width is None else "\n".join(textwrap.wrap(GPU_LEGEND, width))
    blocks = [title + _table(section, markdown, width) for title, section in zip(tables, groups, strict=True)]
    return "\n".join([*blocks, f"{said}\n"])


def _groups(listed: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    found: dict[str, list[Gpu]] = {}
    for kind in KINDS:
        for gpu in listed:
            if KIND_OF.get(gpu.board, CARDS) == kind:
                found.setdefault(f"{gpu.arch.capitalize()}, {kind}", []).append(gpu)
    return found


def _order(gpu: Gpu) -> tuple[object, ...]:
    """Order GPUs of a group by capability and then by id, numbers in it as numbers."""
    return gpu.compute_capability, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", gpu.id)]


def _gpu(gpu: Gpu) -> tuple[str, ...]:
    peaks = (gpu.peak_flop_per_s(dtype) for dtype in PEAKS)
    major, minor = gpu.compute_capability
    return (
        gpu.id,
        re.sub(r"\s*\(.*\)", "", gpu.name),
        f"{major}.{minor}",
        "yes" if gpu.tensor_cores else "no",
        str(gpu.sm),
        full_number(gpu.bandwidth_bytes_per_s / 1e9, 4),
        *("-" if peak is None else full_number(peak / 1e12, 4) for peak in peaks),
    )


def _table(section: Section, markdown: bool, width: int | None) -> str:
    lines = markdown_lines(section) if markdown else text_lines(section, width)
    return "".join(f"{line}\n" for line in lines)
