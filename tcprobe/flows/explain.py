"""`explain` as a function: the documentation of rules, columns, figures and errors, and the GPUs to predict for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe import errors as e
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.hardware import load_gpus, lookup_gpu
from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.registry import RETIRED
from tcprobe.schema.records import as_dict
from tcprobe.schema.tables import FIGURES, TABLES

GPUS: Final = "gpus"
AGENT: Final = "agent"
ERRORS: Final[tuple[type[TcprobeError], ...]] = (
    TcprobeError, e.UsageError, e.InputError, e.MissingInput, e.EmptyInput, e.WrongFormat, e.UnsupportedVersion,
    e.UnreadableInput, e.OutputError, e.ToolError, e.MeasurementFailed,
)  # fmt: skip
_UNITS: Final = ("_ns", "_pct")
_END: Final = "\n\n"  # of what a docstring says in short


def find_rule(word: str) -> RuleDoc:
    """Return the rule with this code or name, in upper or lower case.

    Raises:
        UsageError: there is none; the message names what is nearest of all that can be explained.
    """
    wanted = word.strip().lower()
    for doc in DOCS:
        if wanted in (doc.code.lower(), doc.name):
            return doc
    raise _unknown(word)


def explanation(what: str | None, format_: str = "text", width: int | None = None) -> str:
    """Return an explanation, or the list of GPUs; without a word, the list of rules.

    Args:
        what: code or name of a rule, ``agent`` (the page for assistants), ``gpus``, a GPU, code of an error, a
            table, a column (``op_type``, ``kernels.kind``) or a figure (``step_time``), in upper or lower case; the
            name of a kernel; None for all rules.
        format_: text or markdown.
        width: columns for text; None leaves tables unlimited.

    Raises:
        UsageError: the word is none of these; the message names the nearest.
    """
    from tcprobe.report import agent
    from tcprobe.report.audit import explain as audit_explain

    markdown = format_ == "markdown"
    if what is None:
        return audit_explain.rule_list(DOCS, markdown, width)
    if what.strip().lower() == GPUS:
        return audit_explain.gpu_list(load_gpus(), markdown, width)
    if what.strip().lower() == AGENT:
        return agent.AGENT
    code = what.strip().upper()
    if code in RETIRED:
        return f"{code} is retired: {RETIRED[code]}.\nWhat silences it may stay, and its code is not used again.\n"
    if terms := list(_terms(what)):
        return audit_explain.term_list(terms, markdown, width)
    if (gpu := lookup_gpu(what)) is not None:
        return audit_explain.gpu_list([gpu], markdown, width)
    if kernel := list(_kernel(what)):
        return audit_explain.term_list(kernel, markdown, width)
    return audit_explain.rule_text(find_rule(what), markdown, width)


def explained(what: str | None) -> dict[str, Any]:
    """Return the same as data: ``rules``, ``rule``, ``gpus``, ``page``, ``retired`` or ``terms``.

    Raises:
        UsageError: as `explanation`.
    """
    if what is None:
        return {"rules": [{"code": d.code, "name": d.name, "fixable": d.fixable, "summary": d.summary} for d in DOCS]}
    if what.strip().lower() == GPUS:
        return {"gpus": [as_dict(gpu) for gpu in load_gpus()]}
    if what.strip().lower() == AGENT:
        from tcprobe.report import agent

        return {"page": agent.AGENT}
    code = what.strip().upper()
    if code in RETIRED:
        return {"retired": {"code": code, "reason": RETIRED[code]}}
    if (gpu := lookup_gpu(what)) is not None:
        return {"gpus": [as_dict(gpu)]}
    if terms := list(_terms(what)) or list(_kernel(what)):
        return {"terms": [{"name": name, "meaning": meaning} for name, meaning in terms]}
    doc = find_rule(what)
    return {"rule": {**as_dict(doc), "name": doc.name, "fixable": doc.fixable}}


def _terms(word: str) -> Iterator[tuple[str, str]]:
    """Yield what a word is called in full, and what it means: an error, a table, columns, a figure."""
    wanted = word.strip().lower()
    for error in ERRORS:
        if error.code.lower() == wanted:
            meaning, _, _ = (error.__doc__ or "").partition(_END)
            yield error.code, f"{' '.join(meaning.split())} Exit code {error.exit_code}."
    for figure in (wanted, *(wanted + unit for unit in _UNITS)):
        if figure in FIGURES:
            yield figure, f"figure: {FIGURES[figure]} (docs/figures.md)"
    if wanted in TABLES:
        yield wanted, f"table: a row is {TABLES[wanted].row}"
    table, _, name = wanted.rpartition(".")
    for spec in TABLES.values() if wanted not in TABLES else (TABLES[wanted],):
        for column in spec.columns:
            if wanted == spec.name or (column.name == name and table in ("", spec.name)):
                values = f"; one of {', '.join(column.values)}" if column.values else ""
                yield f"{spec.name}.{column.name}", f"column: {column.meaning}{values}"


SHORTEST_KERNEL: Final = 10  # characters of a kernel's name: a shorter word is a slip for another


def _kernel(word: str) -> Iterator[tuple[str, str]]:
    """Yield the name of a kernel, and what it tells on any GPU, where it tells anything."""
    from tcprobe.analysis.kernels.kinds import kind_of
    from tcprobe.analysis.kernels.verdict import by_name
    from tcprobe.report.run.words import kind_label

    found = by_name(word)
    if found.rule is not None and len(word) >= SHORTEST_KERNEL and "_" in word:
        uses = {"yes": "uses Tensor Cores", "no": "uses no Tensor Cores"}.get(found.uses_tc, "may use Tensor Cores")
        of = f", {found.precision}" if found.precision else ""
        yield word, f"kernel: {uses}, as its name tells; {kind_label(kind_of(word))}{of} ({found.evidence})"


def _unknown(word: str) -> UsageError:
    from difflib import get_close_matches

    wanted = word.strip().lower()
    names = {name: doc.code for doc in DOCS for name in (doc.code.lower(), doc.name)}
    columns = (column.name for table in TABLES.values() for column in table.columns)
    others = (GPUS, AGENT, *(e.code for e in ERRORS), *TABLES, *FIGURES, *columns, *(gpu.id for gpu in load_gpus()))
    names |= {name.lower(): name for name in others}
    if (table := wanted.partition(".")[0]) in TABLES and "." in wanted:
        names = {f"{table}.{column.name}": f"{table}.{column.name}" for column in TABLES[table].columns}
    begun = [wanted, wanted[:-1]] if len(wanted) > 3 else [wanted] * bool(wanted)  # h1000: h100
    starting = [code for start in begun for name, code in names.items() if name.startswith(start)]
    close = [*starting, *(names[name] for name in get_close_matches(wanted, names, n=5))]
    near = list(dict.fromkeys(close))[:5]
    lists = "tcprobe explain lists the rules, tcprobe explain gpus the GPUs"
    return UsageError(f"nothing is called {word!r}", f"did you mean {', '.join(near)}?" if near else lists)
