"""Say whose constants predicted figures rest on: the one home of that phrase."""

from __future__ import annotations

from typing import Final

from tcprobe.hardware import lookup_gpu, spoken_name
from tcprobe.schema.provenance import Provenance

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
