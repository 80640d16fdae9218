"""In which order findings and reasons stand that agree in place and rule: by kinds and fields, never by words."""

from __future__ import annotations

import re
from typing import Final, get_args

from tcprobe.schema.finding_kinds import AddedKind, EffectKind, FindingKind, LinkReason, RefusalKind, WhyKind
from tcprobe.schema.statement import About, FieldValue, Statement

_KINDS: Final = [
    kind
    for listed in (FindingKind, WhyKind, EffectKind, AddedKind, LinkReason, RefusalKind)
    for kind in get_args(listed)
]
_RANKS: Final = {kind: f"{rank:03}" for rank, kind in enumerate(_KINDS)}


def order(said: FieldValue) -> tuple[str, ...]:
    """Return a key of a statement: what it is about, its kind in the closed list, its other fields as written."""
    match said:
        case Statement():
            about = said.get("subject")
            rest = (part for name, value in said.fields if name != "subject" for part in order(value))
            return (*order(about), _RANKS.get(said.kind, said.kind), *rest)
        case About():
            # What stands for several layers comes before what is said of the first of them alone.
            more = f"a{said.more}" if said.more else "b"
            return said.class_name, said.name, more, said.dimension or "", *order(said.size)
        case tuple():
            return tuple(part for value in said for part in order(value))
        case None:
            return ("",)
        case _:
            return (str(said),)


def natural(text: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts ``dense_2`` before ``dense_10``."""
    return tuple((letters, int(digits or 0)) for letters, digits in re.findall(r"(\D*)(\d*)", text))
