"""Order statements that share place and rule: by kind and fields, never by words."""

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
    """Return the sort key of a statement: its subject, its kind's place in the closed list, its other fields."""
    match said:
        case Statement():
            about = said.get("subject")
            rest = (part for name, value in said.fields if name != "subject" for part in order(value))
            return (*order(about), _RANKS.get(said.kind, said.kind), *rest)
        case About():
            # A subject that stands for several layers comes before one that names only the first of them.
            more = f"a{said.more}" if said.more else "b"
            return said.class_name, said.name, more, said.dimension or "", *order(said.size)
        case tuple():
            return tuple(part for value in said for part in order(value))
        case None:
            return ("",)
        case _:
            return (str(said),)


def natural(text: str) -> tuple[tuple[str, int, str], ...]:
    """Return a key that sorts ``dense_2`` before ``dense_10``, however long a name's digits are."""
    parts = re.findall(r"(\D*)0*(\d*)", text)
    return tuple((letters, len(digits), digits) for letters, digits in parts)
