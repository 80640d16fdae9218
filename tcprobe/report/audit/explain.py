"""Print the documentation of rules and the lists of rules and GPUs, as text or Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tcprobe.formatting import full_number
from tcprobe.report.fields import Field, cell_of
from tcprobe.report.grid import escape_markdown, table_lines

if TYPE_CHECKING:
    from tcprobe.hardware import Board, Gpu
    from tcprobe.rules.docs.base import RuleDoc

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
    title, apart = ("## ", "\n") if markdown else ("", "")

    def prose(text: str, mark: str = "") -> str:
        if markdown:
            return f"{mark}{text}"
        return textwrap.fill(text, width or WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))

    def code(text: str) -> str:
        return f"```python\n{text.strip()}\n```" if markdown else textwrap.indent(text.strip(), "    ")

    sources = (prose(escape_markdown(source) if markdown else source, "- ") for source in doc.sources)
    blocks = (
        f"{title}{doc.code} {doc.name}",
        *map(prose, (doc.summary, *doc.explanation.split("\n\n"))),
        f"Bad:\n{apart}{code(doc.bad)}",
        f"Good:\n{apart}{code(doc.good)}",
        prose(f"{doc.weighed_by}: {doc.severity}"),
        "" if doc.of_runs else _fixing(doc, markdown),
        f"Sources:\n{apart}" + "\n".join(sources),
        "" if doc.of_runs or markdown else _silencing(doc),
    )
    return "\n\n".join(filter(None, blocks)) + "\n"


def _fixing(doc: RuleDoc, markdown: bool) -> str:
    if markdown:
        return f"{'Fixable' if doc.fixable else 'Not fixable'} with `--fix`."
    changes = " (changes the model: checkpoints no longer fit)" if doc.code.startswith("TC1") else ""
    return f"--fix may mend it{changes}." if doc.fixable else "--fix leaves it."


def _silencing(doc: RuleDoc) -> str:
    return f"Silence it on its line with # tcprobe: ignore[{doc.code}], everywhere with --ignore {doc.code}."


def rule_list(docs: Sequence[RuleDoc], markdown: bool, width: int | None = None) -> str:
    """Return one line per rule."""
    return _table(RULES, docs, markdown, width)


def gpu_list(listed: Sequence[Gpu], markdown: bool, width: int | None = None) -> str:
    """Return a table per generation and kind of board, one line per GPU: id, name, SMs, bandwidth and dense peaks."""
    mark, apart = ("## ", "\n") if markdown else ("", "")
    blocks = [f"{mark}{title}\n{apart}{_table(GPUS, group, markdown, width)}" for title, group in _groups(listed)]
    legend = GPU_LEGEND if markdown or width is None else "\n".join(textwrap.wrap(GPU_LEGEND, width))
    return "\n".join([*blocks, f"{legend}\n"])


def term_list(terms: Sequence[tuple[str, str]], markdown: bool, width: int | None = None) -> str:
    """Return names and what they mean, a line each; of one alone a paragraph."""
    if markdown:
        return "".join(f"- `{name}`: {escape_markdown(meaning)}\n" for name, meaning in terms)
    if len(terms) == 1:
        return textwrap.fill(f"{terms[0][0]}: {terms[0][1]}", width or WIDTH) + "\n"
    return _table(TERMS, terms, markdown, width)


def _groups(listed: Sequence[Gpu]) -> Iterator[tuple[str, list[Gpu]]]:
    """Yield the GPUs of each generation, cards first."""
    for kind in KINDS:
        of_kind = [gpu for gpu in listed if KIND_OF.get(gpu.board, CARDS) == kind]
        for arch in dict.fromkeys(gpu.arch for gpu in of_kind):
            yield f"{arch.capitalize()}, {kind}", sorted((gpu for gpu in of_kind if gpu.arch == arch), key=_order)


def _order(gpu: Gpu) -> tuple[object, ...]:
    """Order GPUs of a group by capability and then by id, numbers in it as numbers."""
    return gpu.compute_capability, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", gpu.id)]


def _peak(dtype: str, gpu: Gpu) -> str:
    peak = gpu.peak_flop_per_s(dtype)
    return "-" if peak is None else full_number(peak / 1e12, 4)


RULES: Final = (
    cell_of("code", lambda doc: doc.code),
    cell_of("name", lambda doc: doc.name),
    cell_of("fix", lambda doc: "--fix" if doc.fixable else ""),
    cell_of("what it finds", lambda doc: doc.summary, wraps=True),
)
TERMS: Final = (
    cell_of("name", lambda term: term[0]),
    cell_of("what it means", lambda term: term[1], wraps=True),
)
GPUS: Final = (
    cell_of("id", lambda gpu: gpu.id),
    cell_of("name", lambda gpu: re.sub(r"\s*\(.*\)", "", gpu.name), 1, least=22),
    cell_of("CC", lambda gpu: ".".join(map(str, gpu.compute_capability)), 2),
    cell_of("TC", lambda gpu: "yes" if gpu.tensor_cores else "no", 2),
    cell_of("SMs", lambda gpu: str(gpu.sm), 2, right=True),
    cell_of("GB/s", lambda gpu: full_number(gpu.bandwidth_bytes_per_s / 1e9, 4), 2, right=True),
    *(cell_of(dtype, partial(_peak, dtype), 2 if dtype == "float16" else 3, right=True) for dtype in PEAKS),
)


def _table(fields: Sequence[Field], rows: Sequence[Any], markdown: bool, width: int | None) -> str:
    return "".join(f"{line}\n" for line in table_lines(fields, rows, width, markdown))
