"""`AuditCalls`: a function that runs in other sizes than those of its first call, which are judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.audit.calls import AuditCalls
from tcprobe.probe.core.gaps import Gaps


class Sizes(tuple[int | None, ...]):
    """A shape as TensorFlow has it."""

    @property
    def rank(self) -> int:
        return len(self)


def flat(values: Any) -> list[Any]:
    return [one for value in values for one in flat(value)] if isinstance(values, list | tuple) else [values]


@pytest.mark.parametrize(
    ("signature", "calls", "note"),
    [
        (None, [(8, 64), (8, 64), (8, 64)], None),
        (None, [(8, 64), (8, 32), (8, 16)], "the sizes of train change from step to step, (8, 64) and then (8, 32): "),
        ((None, 64), [(8, 64), (8, 64)], None),  # the batch alone
        ((None, None), [(8, 64), (8, 32)], "the input_signature of train leaves sizes open beside the batch: "),
    ],
)
def test_sizes_that_change_are_said(
    signature: tuple[int | None, ...] | None, calls: list[tuple[int, int]], note: str | None
) -> None:
    watch = AuditCalls(SimpleNamespace(current=None), SimpleNamespace(), Gaps(), None, SimpleNamespace())  # type: ignore[arg-type]
    watch.tf, watch.names = SimpleNamespace(nest=SimpleNamespace(flatten=flat)), {1: "__main__.train"}
    given = None if signature is None else (SimpleNamespace(shape=Sizes(signature)),)
    for sizes in calls:
        watch._compare(1, SimpleNamespace(input_signature=given), (SimpleNamespace(shape=Sizes(sizes)), 7), ())
    assert len(watch.notes) == (note is not None)
    assert all(one.startswith(str(note)) and one.endswith("those of its first call, (8, 64)") == bool(signature)
               for one in watch.notes)  # fmt: skip
