"""Which profiler `auto` takes: by options, by what a script imports, and by what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.capture import choice, environment
from tcprobe.capture.base import Invocation
from tcprobe.capture.choice import choose
from tcprobe.capture.environment import PythonInfo


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    code: str,
    nsys: bool = True,
    tensorflow: bool = True,
    asked: str = "auto",
) -> tuple[str, str]:
    (folder / "work.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(choice, "missing", lambda *_: None if nsys else "there is none")
    monkeypatch.setattr(environment, "ask_interpreter", lambda *_: PythonInfo("3.11", None, None, tensorflow))
    target = Invocation("script", str(folder / "work.py"))
    found = choose(asked, (), "python", (), target)
    return found.name, found.why


@pytest.mark.parametrize(
    ("code", "nsys", "tensorflow", "name", "why"),
    [
        ("import tensorflow as tf", True, True, "tensorflow", "uses TensorFlow"),
        ("import torch, tensorflow", True, True, "tensorflow", "uses TensorFlow"),
        ("from keras import layers", True, True, "tensorflow", "uses TensorFlow"),
        ("def f():\n    from torch.nn import Linear", True, True, "nsys", "uses PyTorch, which nsys records"),
        ("import jax.numpy as jnp", True, True, "nsys", "uses JAX"),
        ("import torch", False, True, "tensorflow", "no nsys on PATH, which alone records PyTorch"),
        ("import torch", False, False, "tensorflow", "no nsys on PATH"),
        ("import mine", True, True, "tensorflow", "auto"),
        ("import mine", True, False, "nsys", "has no TensorFlow"),
        ("import mine", False, False, "tensorflow", "auto"),
        ("from . import torch", True, True, "tensorflow", "auto"),
        ("import torch, (", True, True, "tensorflow", "auto"),  # Python will say so
    ],
)
def test_auto_takes_what_records_the_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, nsys: bool, tensorflow: bool, name: str, why: str
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    found, said = chosen(monkeypatch, tmp_path, code, nsys, tensorflow)
    assert found == name and why in said


def test_keras_on_another_backend_is_that_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert chosen(monkeypatch, tmp_path, "import keras")[0] == "nsys"
    assert chosen(monkeypatch, tmp_path, "import keras, tensorflow")[0] == "tensorflow"


def test_what_is_asked_for_is_taken_without_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert chosen(monkeypatch, tmp_path, "import torch", asked="tensorflow") == ("tensorflow", "")


def test_options_of_a_profiler_choose_it() -> None:
    given = choose("auto", ("nsys",), "python", ())
    assert (given.name, given.why) == ("nsys", "auto: options of it are given")
