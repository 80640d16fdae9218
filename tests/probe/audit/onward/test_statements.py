"""Statements that fail one by one, and those that stay together."""

from __future__ import annotations

import ast
import traceback
from pathlib import Path
from typing import Any

import pytest

from tcprobe.probe.audit.onward.statements import run_statements, separated


def run(text: str, going: bool = True) -> tuple[dict[str, Any], list[str]]:
    """Return the names that a text leaves, and the types of what its statements raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    raised = []

    def ended(error: BaseException | None) -> bool:
        if error is not None:
            raised.append(type(error).__name__)
        return going

    run_statements(text.encode(), "script.py", names, ended, lambda thing: None)
    return names, raised


def test_what_stands_behind_a_failed_statement_is_run() -> None:
    names, raised = run("import nothing_like_it\na = 1\nb = nothing_like_it.x\nc = 2\n")
    assert raised == ["ModuleNotFoundError", "NameError"]
    assert (names["a"], names["c"], "b" in names) == (1, 2, False)


def test_the_bodies_of_if_and_with_and_a_procedure_are_taken_apart() -> None:
    text = (
        "import contextlib\nfound = []\n"
        "def main():\n    '''Text.'''\n    global seen\n    1 / 0\n    seen = 1\n    found.append(1)\n    return\n"
        "with contextlib.nullcontext():\n    1 / 0\n    found.append(2)\n"
        "if __name__ == '__main__':\n    1 / 0\n    main()\nelse:\n    found.append(3)\n"
    )
    names, raised = run(text)
    assert names["found"] == [2, 1]
    assert names["seen"] == 1
    assert names["main"].__doc__ == "Text."
    assert raised == ["ZeroDivisionError"] * 3


@pytest.mark.parametrize("frame", ["{}", "def main():\n    global x, y, z\n    {}\nmain()\n"])
def test_what_a_failed_statement_was_to_assign_is_forgotten(frame: str) -> None:
    lines = ["x = y = 1", "x = nothing(x)", "z = x + 1", "y.w = nothing", "(y, z) = 5, 6"]
    names, raised = run(frame.format(("\n    " if "main" in frame else "\n").join(lines)))
    assert raised == ["NameError", "NameError", "AttributeError"] or raised == ["NameError"] * 3
    assert ("x" in names, names["y"], names["z"]) == (False, 5, 6)


def test_what_a_failed_statement_was_to_add_to_is_spoiled() -> None:
    spoiled: list[Any] = []
    text = (
        "a, b, c, d = [], set(), [], 1\na.append(nothing)\nfor i in (1, 2):\n    b.add(nothing(i))\n"
        "for i in (1, 2):\n    c.append(nothing)\nd.real.imag(1)\nd.compile(1)\n"
        "def main():\n    c.append(nothing)\nmain()\n"
    )
    names: dict[str, Any] = {}
    run_statements(text.encode(), "script.py", names, lambda _: True, spoiled.append)
    assert spoiled == [[], set(), []]
    assert {"a", "b", "c", "d", "i"} & set(names) == {"c", "d", "i"}


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    1 / 0\n    found.append(1)\nf()\nf()\n",  # called twice
        "def f():\n    1 / 0\n    found.append(1)\nx = f()\n",  # its value is taken
        "def f():\n    1 / 0\n    found.append(1)\nfor i in range(2):\n    f()\n",  # a loop
        "def f():\n    1 / 0\n    found.append(1)\n    yield\nlist(f())\n",  # a generator
        "for i in range(3):\n    1 / 0\n    found.append(1)\n",
        "try:\n    1 / 0\n    found.append(1)\nexcept ZeroDivisionError:\n    pass\n",
    ],
)
def test_what_may_run_often_or_gives_a_value_stays_whole(text: str) -> None:
    assert run("found = []\n" + text)[0]["found"] == []


def test_the_file_is_that_of_the_user() -> None:
    text = (
        '"""Text."""\nfrom __future__ import annotations\ndef f(x: Unknown): ...\nfrom math import *\ny = floor(1.5)\n'
    )
    names, raised = run(text)
    assert (names["__doc__"], names["f"].__annotations__, names["y"]) == ("Text.", {"x": "Unknown"}, 1)
    assert not raised
    assert names["f"].__code__.co_firstlineno == 3


def test_what_the_caller_does_not_pass_over_comes_through() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        run("a = 1\n\n1 / 0\n", going=False)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [frame.lineno for frame in frames if frame.filename == "script.py"] == [3]
    with pytest.raises(SyntaxError):
        run("y = = 2\n")


def test_every_statement_of_real_files_still_compiles() -> None:
    for path in (ast.__file__, pytest.__file__, __file__):
        compile(separated(ast.parse(Path(path).read_text(encoding="utf-8"))), path, "exec")
