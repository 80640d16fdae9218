"""Notebooks as modules: cells, magics, languages, the lines of the file, and what is damaged."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tcprobe.errors import InputError, UnsupportedVersion, WrongFormat
from tcprobe.schema.model import CellLine
from tcprobe.source.notebook import Notebook, OtherLanguage, read_notebook
from tests.support import notebook_text


def read(*cells: str | list[str], **metadata: Any) -> Notebook:
    return read_notebook(notebook_text(*cells, **metadata), "n.ipynb")


def test_cells_make_one_module_and_lines_know_theirs() -> None:
    notebook = read(["import keras\n", "\n", "x = 1"], "y = x\n")
    assert notebook.text == "import keras\n\nx = 1\ny = x\n"
    assert [(line.cell, line.line) for line in notebook.lines] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert notebook.at(5) is None


def test_cells_without_code_are_counted_and_empty_ones_are_no_line() -> None:
    text = json.loads(notebook_text("", "x = 1"))
    text["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["import this"]})
    notebook = read_notebook(json.dumps(text), "n.ipynb")
    assert (notebook.text, notebook.lines) == ("x = 1\n", (CellLine(3, 1, 1),))


@pytest.mark.parametrize("separator", ["\n", "\r\n"])
def test_rows_are_those_of_the_file(separator: str) -> None:
    text = notebook_text(["a = 1\n", "b = '\u2028'\n", "c = 3"], "d = 4\ne = 5").replace("\n", separator)
    rows = text.split("\n")
    notebook = read_notebook(text, "n.ipynb")
    assert [rows[line.row - 1].strip()[:4] for line in notebook.lines[:3]] == ['"a =', '"b =', '"c =']
    assert len({line.row for line in notebook.lines[3:]}) == 1


@pytest.mark.parametrize(
    ("cell", "module"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1\n"),
        ("!pip install keras \\\n  --upgrade\nx = 1", "pass\n\nx = 1\n"),
        ("if colab:\n    !ls\nx = 1", "if colab:\n    pass\nx = 1\n"),
        ("files = !ls\nx = 1", "files = get_ipython()\nx = 1\n"),
        ("t = %timeit -o f()", "t = get_ipython()\n"),
        ("keras.layers.Dense?", "pass\n"),
        ("?keras", "pass\n"),
        ("%time x = f(1)", "if 1: x = f(1)\n"),
        ("%%time\nx = 1", "pass\nx = 1\n"),
        ("%%capture out\nx = 1", "pass\nx = 1\n"),
        ("%%bash\nls -l", "\n\n"),
        ('"""\n%s\n!\n"""\nx = (a\n  % b)', '"""\n%s\n!\n"""\nx = (a\n  % b)\n'),
        ("await f()", "await f()\n"),
    ],
)
def test_what_ipython_alone_understands_keeps_its_line(cell: str, module: str) -> None:
    notebook = read(cell)
    assert (notebook.text, notebook.unread) == (module, ())
    ast.parse(notebook.text)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("%%writefile model.py\nimport keras", "is a cell of %%writefile"),
        ("print 'Python 2'", "is no Python: line 1: "),
        ("def f(:\n  pass", "is no Python: line 1: "),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_and_the_others_are_read(cell: str, reason: str) -> None:
    notebook = read("x = 1", cell, "y = 2")
    (unread,) = notebook.unread
    assert unread.reason.startswith(reason)
    assert notebook.at(unread.line) == CellLine(2, 1, notebook.lines[1].row)
    assert notebook.text == f"x = 1\n{chr(10) * (cell.count(chr(10)) + 1)}y = 2\n"


def test_a_cell_of_another_language_is_left_out() -> None:
    text = json.loads(notebook_text("x = 1", "SELECT 1"))
    text["cells"][1]["metadata"] = {"vscode": {"languageId": "sql"}}
    assert read_notebook(json.dumps(text), "n.ipynb").text == "x = 1\n"


@pytest.mark.parametrize("metadata", [{"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia"}}])
def test_a_notebook_of_another_language(metadata: dict[str, Any]) -> None:
    with pytest.raises(OtherLanguage, match=r"is a notebook in (r|julia), not in Python"):
        read("x <- 1", **metadata)


def test_an_old_notebook_is_named() -> None:
    with pytest.raises(UnsupportedVersion, match="nbformat 3") as error:
        read_notebook('{"nbformat": 3, "worksheets": [{"cells": []}]}', "n.ipynb")
    assert "nbconvert" in str(error.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "[]",
        "{}",
        '{"nbformat": 4}',
        '{"nbformat": "4", "cells": []}',
        '{"nbformat": 4, "cells"',
        "[" * 10**5,
    ],
)
def test_what_is_no_notebook(text: str) -> None:
    with pytest.raises(WrongFormat):
        read_notebook(text, "n.ipynb")


ODD = (None, 1, 1.5, "x", [], {}, True, [[]], {"a": 1}, "\u2028\f\r", "\ud800")


def varied(value: Any, luck: random.Random) -> Any:
    """Return a value with some of its parts replaced or left out."""
    if luck.random() < 0.05:
        return luck.choice(ODD)
    if isinstance(value, dict):
        return {key: varied(part, luck) for key, part in value.items() if luck.random() > 0.03}
    return [varied(part, luck) for part in value] if isinstance(value, list) else value


def test_no_notebook_is_too_odd() -> None:
    luck, whole, read_ones = random.Random(7), notebook_text(["%time f()\n", "x = 1"], "!ls", "import keras"), 0
    for _ in range(500):
        text = json.dumps(varied(json.loads(whole), luck), ensure_ascii=luck.random() < 0.5)
        cut = text if luck.random() < 0.5 else text[: luck.randrange(len(text))]
        try:
            notebook = read_notebook(cut, "n.ipynb")
        except InputError:
            continue
        read_ones += 1
        assert notebook.text.count("\n") == len(notebook.lines)
        ast.parse(notebook.text)
    assert read_ones > 50


def test_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongFormat, match=r"n\.ipynb: is JSON, but no notebook"):
        read_notebook("{}", str(tmp_path / "n.ipynb"))
