"""How a report shows chains: kernels that multiply nothing and follow one another."""

from __future__ import annotations

from typing import Final

from tcprobe.gemm.record import parse_object
from tcprobe.report import formatting as f
from tcprobe.report.fields import field_of, name_of, number_of, source_of
from tcprobe.report.run.view import View
from tcprobe.schema.columns import Value


def chain_label(kinds: Value) -> str:
    """Return what the kernels of a chain do: ``7 copy + 4 elementwise``."""
    counts = parse_object(None if kinds is None else str(kinds))
    return " + ".join(f"{count} {kind}" for kind, count in counts.items()) or f.any_text(kinds)


def _rate(value: Value) -> str:
    return f.NA if value is None else f.full_number(float(value), 3)


CHAIN_VIEW: Final = View(
    "chains",
    "Kernels that multiply nothing and follow one another",
    (
        field_of("kernels of a chain", "kinds", show=chain_label, wraps=True, least=24),
        number_of("times", "calls", 1),
        number_of("kernels", "launches"),
        number_of("kernel time", "sum_ns"),
        number_of("share", "share_pct", 1),
        number_of("one kernel saves at most", "at_most_ns"),
        number_of("moved", "moved_bytes", 3),
        field_of("TB/s", "achieved_tb_per_s", 2, _rate, right=True),
        number_of("of the bandwidth", "bandwidth_pct", 1),
        name_of("costliest op", "op", 2),
        name_of("first kernel", "first_kernel", 5),
        name_of("last kernel", "last_kernel", 6),
        field_of("compiled", "compiled", 5),
        source_of(4, "source"),
        number_of("GPU", "device", 4),
    ),
)
