"""What a step of tcprobe's own leaves out while it is traced, with a stand-in for Keras, and what an error says."""

from __future__ import annotations

import gc
import types
from typing import Any

import pytest

from tcprobe.probe.audit.audit import _said
from tcprobe.probe.audit.lean import Lean
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ValueError: bad units", "ValueError: bad units"),
        ("", ""),
        (
            'ValueError: in user code:\n\n    File "m.py", line 3, in call\n        raise ValueError("no")\n\n'
            "    ValueError: no\n",
            "ValueError: no",
        ),
        (
            "ValueError: Exception encountered when calling Net.call().\n\n\x1b[1mno such axis\x1b[0m\n\n"
            "Arguments received by Net.call():\n  • x=1",
            "ValueError: no such axis",
        ),
        (
            'TypeError: in user code:\n\n    File "m.py", line 3, in f  *\n        g(x)\n\n    TypeError: Exception'
            ' encountered when calling layer "net" (type Net).\n\n    no such axis\n\n    Call arguments received',
            "TypeError: no such axis",
        ),
        (
            "ValueError: in user code:\n\n    ValueError: Exception encountered when calling layer 'net' (type N).\n\n"
            '    in user code:\n\n        File "m.py", line 3, in call  *\n            raise ValueError("no")\n\n'
            "        ValueError: no\n\n\n    Call arguments received by layer 'net'",
            "ValueError: no",
        ),
        ("ValueError: in user code:\n\n    something", "something"),
    ],
)
def test_of_an_error_the_line_is_told_that_says_what_is_wrong(text: str, said: str) -> None:
    assert _said(text.splitlines()) == said
