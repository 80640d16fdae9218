"""Make the sentences of statements: the fields of each are handed to the function of its kind.

And say whose constants predicted figures rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcprobe.hardware import lookup_gpu, spoken_name
from tcprobe.rules.base import Says
from tcprobe.rules.words import listed
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import About, Both, FieldValue, Statement


def sentence_of(says: Says, said: Statement[str]) -> str:
    """Return a statement as a sentence, or as the part of a sentence that its kind stands for."""
    first, second = halves(says, said.kind, dict(said.fields))
    return f"{first}: {second}" if second else first


def halves(says: Says, kind: str, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return both sentences of a kind; the second is empty if it has only one."""
    made = says[kind]
    if callable(made):
        made = made(**{name: _worded(says, value) for name, value in fields.items()})
    return (made.first, made.second) if isinstance(made, Both) else (made, "")


def _worded(says: Says, value: FieldValue) -> Any:
    """Return a field as its sentence takes it: statements within it and what it is about as text, else as it is."""
    match value:
        case Statement():
            return sentence_of(says, value)
        case About():
            more = f" (and {value.more:,} more)" if value.more else ""
            size = f" {value.dimension}={value.size}" if value.dimension else ""
            return f"{value.class_name} '{value.name}'{more}{size}"
        case tuple():
            return tuple(_worded(says, one) for one in value)
        case _:
            return value


def constants_of(provenance: Provenance) -> str:
    """Return ``measurements of an H200 SXM and an A100 SXM4 80GB: wide range``."""
    borrowed = {kind: whose for kind, whose in provenance.borrowed.items() if kind != "dtype"}
    measured = dict.fromkeys(map(gpu_of, (provenance.measured_on, *borrowed.values())))
    return f"measurements of {listed(measured)}{': wide range' if provenance.borrowed else ''}"


def gpu_of(name: str) -> str:
    """Return a GPU with its article and board: ``an A100 SXM4 80GB``."""
    known = lookup_gpu(name)
    return spoken_name(known.name if known else name)
