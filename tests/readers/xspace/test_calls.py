"""Outermost calls of a thread, and which names are worth being told."""

from __future__ import annotations

import numpy as np
import pytest

from tcprobe.readers.xspace.host import Spans, is_evidence, outermost_calls


def calls(*events: tuple[int, int, bool]) -> list[tuple[int, int]]:
    """Return (start, duration) of the outermost calls among events of (start, duration, whether it shows a call)."""
    start, length, calling = (np.array([event[i] for event in events], np.int64) for i in range(3))
    found = outermost_calls(Spans(np.arange(len(events)), start, length), calling.astype(np.bool_))
    return list(zip(found.start_ns.tolist(), found.duration_ns.tolist(), strict=True))


def test_the_event_around_a_call_is_the_outermost() -> None:
    assert calls((10, 5, True), (0, 100, False), (11, 2, True), (200, 5, False), (300, 7, True)) == [(0, 100), (300, 7)]


def test_of_events_that_begin_together_the_longest() -> None:
    assert calls((0, 5, True), (0, 50, False), (50, 5, True)) == [(0, 50), (50, 5)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FlushSummaryWriter:FlushSummaryWriter", True),
        ("tf.constant", True),
        ("BufferSequencingEvent::Execute", True),
        ("TFE_Py_FastPathExecute_C", False),
        ("EagerKernelExecute", False),
        ("Iterator::Model::ParallelMapV2", False),
        ("ParallelMapProduce", False),
        ("void Eigen::internal::EigenMetaKernel<float>(float*)", False),
        ("tcprobe_step", False),
    ],
)
def test_what_is_worth_being_named(name: str, told: bool) -> None:
    assert is_evidence(name) is told
