"""Change constants of a script in a copy: which are constants, and what of the text stays."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tcprobe.errors import InputError, UsageError
from tcprobe.flows.workloads import with_constants

SCRIPT = """\
# -*- coding: latin-1 -*-
import os, json as J
from math import pi
É = "é"; MIXED = True  # the switch
SIZES = [
    64,
    32,
]
RATE: float = 1e-3
LR = -0.5
A = B = 1
WHERE = os.getcwd()
for INDEX in range(3):
    pass
if pi:
    LATE = 1
TWICE = 1
TWICE = 2
COUNT = 0
def bump():
    global COUNT
    RATE = 3
    COUNT += 1
if __name__ == "__main__":
    print(MIXED)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(SCRIPT.encode("latin-1"))
    return path


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("MIXED", "False", 'É = "é"; MIXED = (False)  # the switch'),
        ("É", "'ü'", "É = ('ü'); MIXED = True  # the switch"),
        ("RATE", "0.1", "RATE: float = (0.1)"),
        ("LR", "(1, 2)", "LR = ((1, 2))"),
        ("SIZES", "[8]", "SIZES = ([8]"),
    ],
)
def test_a_literal_is_replaced_and_all_else_stays(script: Path, name: str, value: str, line: str) -> None:
    changed = with_constants(script, [(name, value)]).decode("latin-1").splitlines()
    before = SCRIPT.splitlines()
    assert line in changed
    assert len(changed) == len(before)
    if name != "SIZES":
        assert [c for c in changed if c not in before] == [line]
    held: dict[str, object] = {}
    exec(compile("\n".join(["", *changed[1:]]), "train.py", "exec"), held)
    assert held[name] == ast.literal_eval(value)
    assert script.read_bytes() == SCRIPT.encode("latin-1")


def test_two_of_one_line_are_replaced(script: Path) -> None:
    assert "É = (1); MIXED = (2)  #" in with_constants(script, [("MIXED", "2"), ("É", "1")]).decode("latin-1")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MIXDE", "False", "MIXDE is assigned nowhere at the top level"),
        ("A", "2", "A is not assigned by itself"),
        ("INDEX", "2", "INDEX is not assigned by itself"),
        ("LATE", "2", "LATE is not assigned by itself"),
        ("pi", "3", "pi is not assigned by itself"),
        ("J", "3", "J is not assigned by itself"),
        ("TWICE", "3", "TWICE is assigned more than once (lines 17, 18)"),
        ("COUNT", "3", "COUNT is assigned more than once (lines 19, 21)"),
        ("WHERE", "'x'", "WHERE is assigned no literal, but os.getcwd()"),
        ("MIXED", "os.getcwd()", "os.getcwd() is no literal of Python"),
        ("MIXED", "good", "good is no literal of Python"),
        ("MIXED", "1; x()", "is no literal of Python"),
    ],
)
def test_what_is_no_constant_is_refused(script: Path, name: str, value: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_constants(script, [(name, value)])
    assert said in caught.value.message
    assert name != "MIXDE" or caught.value.hint == "did you mean MIXED?"


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    for text in (b"def (", b"x = 1\xff", b"# coding: nonsense\n"):
        (tmp_path / "x.py").write_bytes(text)
        with pytest.raises(InputError):
            with_constants(tmp_path / "x.py", [("x", "1")])
