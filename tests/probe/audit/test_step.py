"""What a step of tcprobe's own leaves out while it is traced, with a stand-in for Keras."""

from __future__ import annotations

import gc
import types
from typing import Any

import pytest

from tcprobe.probe.audit.step import Lean
from tcprobe.probe.core.gaps import Gaps


class BatchNormalization:
    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return inputs, training, mask


def keras(**names: Any) -> Any:
    return types.SimpleNamespace(layers=types.SimpleNamespace(BatchNormalization=BatchNormalization), **names)


def test_batch_statistics_are_left_out_and_come_back() -> None:
    layer, gaps = BatchNormalization(), Gaps()
    with Lean([keras(ops=None)], gaps):
        assert layer.call(1, training=True, mask=2) == (1, False, 2)
        assert layer.call(1, True) == (1, False, None)
        assert not gc.isenabled()
    assert layer.call(1, training=True) == (1, True, None)
    assert gc.isenabled()
    assert gaps.gaps == []


def test_keras_2_normalises_as_ever() -> None:
    with Lean([keras()], Gaps()):
        assert BatchNormalization().call(1, training=True) == (1, True, None)


def test_an_error_puts_everything_back_and_garbage_stays_off_where_it_was() -> None:
    gc.disable()
    try:
        with pytest.raises(ValueError, match="mine"), Lean([keras(ops=None)], Gaps()):
            raise ValueError("mine")
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert BatchNormalization().call(1, training=True)[1]
