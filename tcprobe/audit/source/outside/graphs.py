"""The layers that a model holds: counted again where it is called again, frozen together."""

from __future__ import annotations

from typing import Final

from tcprobe.audit.source.values.kinds import Draft, Graph, SourceValue, Stack
from tcprobe.audit.source.values.known import SpentError, tensors_of
from tcprobe.source.values import Known

_MOST_CALLS: Final = 100_000


def graph_members(graph: Graph, drafts: list[Draft]) -> list[SourceValue]:
    """Return the layers between a functional model's inputs and outputs; `drafts` are all of the file."""
    by_name = {draft.name: draft for draft in drafts}
    pending = [s for t in tensors_of(graph.outputs) for s in t.sources]
    ends = {s for t in tensors_of(graph.inputs) for s in t.sources}
    found: dict[str, SourceValue] = {}
    while pending:
        name = pending.pop()
        if name in found or name in ends or name not in by_name:
            continue
        found[name] = by_name[name]
        pending.extend(s for t in by_name[name].inputs for s in t.sources)
    return list(found.values())


def count_again(parts: list[SourceValue], drafts: list[Draft]) -> None:
    """Count one more call of every layer in a model's parts.

    Raises:
        SpentError: models hold one another, or one another twice too often.
    """
    pending = list(parts)
    for _ in range(_MOST_CALLS):
        if not pending:
            return
        part = pending.pop()
        if isinstance(part, Draft):
            part.applied += 1
            part.calls = part.applied
        elif isinstance(part, Stack):
            pending.extend(part.parts)
        elif isinstance(part, Graph):
            pending.extend(graph_members(part, drafts))
    raise SpentError


def freeze(target: SourceValue, value: SourceValue, drafts: list[Draft]) -> None:
    """Note ``layer.trainable = False`` for a layer, or for every layer of a model."""
    known = value.value if isinstance(value, Known) else None
    parts: list[SourceValue] = [target]
    seen = set[int]()
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Draft) and part.trainable is not False:
            part.trainable = None if known is None else bool(known)
        elif isinstance(part, Stack):
            parts.extend(part.parts)
        elif isinstance(part, Graph):
            parts.extend(graph_members(part, drafts))
