"""Make the sentences of statements: the fields of each are handed to the function of its kind.

And say whose constants predicted figures rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tcprobe.hardware import lookup_gpu, spoken_name
from tcprobe.rules.base import Says
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


_DTYPES: Final = {"tc16": "16 bits", "tf32": "TF32", "fp32": "float32", "fp8": "float8", "int8": "int8"}


def constants_of(provenance: Provenance) -> str:
    """Return ``the constants of an H200 SXM through vLLM and what a framework costs on an A100 SXM4 80GB ...``."""
    borrowed = provenance.borrowed
    owner = f"the constants of {gpu_of(provenance.measured_on)}" if "gpu" in borrowed else "its own constants"
    through = f" through {provenance.stack.name}" if provenance.stack.name else ""
    parts = [f"{owner}{through}"]
    if "dtype" in borrowed:
        parts.append(f"those of {_DTYPES.get(borrowed['dtype'], borrowed['dtype'])} where a dtype has none")
    framework, sizes = borrowed.get("stack"), borrowed.get("alignment")
    if framework is not None:
        costly = "a framework and unaligned sizes cost" if framework == sizes else "a framework costs"
        parts.append(f"what {costly} on {gpu_of(framework)}")
    if "convolution" in borrowed:
        parts.append(f"the convolutions of {gpu_of(borrowed['convolution'])}")
    if sizes is not None and sizes != framework:
        parts.append(f"what unaligned sizes cost on {gpu_of(sizes)}")
    said = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    return f"{said}; the range is wider for it" if borrowed else said


def gpu_of(name: str) -> str:
    """Return a GPU with its article and board: ``an A100 SXM4 80GB``."""
    known = lookup_gpu(name)
    return spoken_name(known.name if known else name)
