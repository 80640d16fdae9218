"""What the precision rules say of Keras 3, held to Keras 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow
SCRIPT = Path(__file__).with_name("facts.py")


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    """Return what the script measured."""
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not measured["keras"].startswith("3."):
        pytest.skip(f"Keras {measured['keras']} is not 3")
    return measured


def test_a_wrapper_divides_also_what_nobody_multiplied(facts: dict[str, Any]) -> None:
    # mean((8 - 0) ** 2) by one weight: 2 * 8 * 1 = 16, times the learning rate 0.01
    assert facts["scaled"] == pytest.approx(-0.16, rel=1e-3)
    assert facts["unscaled"] == pytest.approx(-0.16 / 8, rel=1e-2)
    assert facts["initial_scale"] == 32768


def test_two_wrappers_divide_twice(facts: dict[str, Any]) -> None:
    assert facts["nested"] == pytest.approx(-0.16 / 8, rel=1e-2)
    assert facts["inner_factor"] is None


def test_what_is_gone(facts: dict[str, Any]) -> None:
    assert {name: facts[name] for name in ("static", "with_scale", "policy_scale", "rewrite")} == {
        "static": "ValueError",
        "with_scale": "ValueError",
        "policy_scale": "TypeError",
        "rewrite": "ValueError",
    }
    for name in ("get_scaled_loss", "get_unscaled_gradients", "experimental"):
        assert facts[name] == "AttributeError"


def test_layers_keep_their_policy_and_losses_are_float32(facts: dict[str, Any]) -> None:
    assert facts["early"] == "float32"
    assert facts["loss_dtype"] == "float32"
