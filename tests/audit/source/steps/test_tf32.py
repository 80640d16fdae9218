"""Whether float32 may run as TF32, as the code says."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source, read_steps

HEAD = """import os, keras, tensorflow as tf
m = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8)])
"""
SWITCH = "tf.config.experimental.enable_tensor_float_32_execution"


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("", False),
        (f"{SWITCH}(False)", True),
        (f"{SWITCH}(enabled=False)", True),
        (f"{SWITCH}(True)", False),
        (f"precision = 'float32'\n{SWITCH}(precision == 'tf32')", True),
        (f"{SWITCH}(unknown())", False),
        (f"if unknown():\n    {SWITCH}(False)", False),
        (f"{SWITCH}(False)\n{SWITCH}(True)", False),
        ("os.environ['NVIDIA_TF32_OVERRIDE'] = '0'", True),
        ("os.environ['NVIDIA_TF32_OVERRIDE'] = '1'", False),
        ("os.environ.setdefault('NVIDIA_TF32_OVERRIDE', '0')", True),
        ("os.environ.update(NVIDIA_TF32_OVERRIDE='0', TF_XLA_FLAGS='')", True),
        ("os.environ.update({'NVIDIA_TF32_OVERRIDE': '0'})", True),
        ("os.environ['OTHER'] = '0'", False),
    ],
)
def test_tf32_is_off_where_the_code_says_so(text: str, off: bool) -> None:
    (model,) = read_steps(parse_source(f"{HEAD}{text}\nm.compile('sgd')\nm.fit(x, y)\n", "/model.py"))
    assert model.tf32_off is off
