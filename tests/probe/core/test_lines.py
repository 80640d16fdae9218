"""Whose line it is: the user's, a library's, a framework's, generated, or the probe's own."""

from __future__ import annotations

import os
import sys

import pytest

from tcprobe.probe.core import lines
from tcprobe.probe.core.lines import OTHER, PACKAGE, USER, best, constructed_line, rank, running_line
from tcprobe.probe.tensorflow import places

SITE = "/env/lib/python3.9/site-packages"


@pytest.fixture(autouse=True)
def known() -> None:
    """Make TensorFlow known, as the import of what hooks it does."""
    lines.know_framework(places.FRAMEWORK_PACKAGES, places.GENERATED)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/train.py", USER),
        ("train.py", USER),
        (f"{SITE}/mymodels/net.py", PACKAGE),
        (f"{SITE}/workloads/train_gan.py", PACKAGE),
        (f"{SITE}/tensorflow/python/eager/x.py", OTHER),
        (f"{SITE}/keras/src/layers/layer.py", OTHER),
        ("/env/lib/python3/dist-packages/tf_keras/x.py", OTHER),
        (os.__file__, OTHER),
        ("<stdin>", OTHER),
        ("/tmp/__autograph_generated_fileab12.py", OTHER),
        ("/tmp/tmpab12cd34.py", OTHER),
        (lines.__file__, OTHER),
    ],
)
def test_ranks(path: str, expected: int) -> None:
    assert rank(path) == expected


def test_the_users_line_goes_before_a_librarys_and_that_before_none() -> None:
    framework, library, user = (f"{SITE}/keras/a.py", 1), (f"{SITE}/mymodels/net.py", 2), ("/home/me/train.py", 3)
    assert best([framework, library, user]) == "/home/me/train.py:3"
    assert best([framework, library]) == f"{SITE}/mymodels/net.py:2"
    assert best([framework]) is None


def test_a_script_named_relatively_gets_its_absolute_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best([("some_script_of_mine.py", 7)]) == f"{os.path.abspath('some_script_of_mine.py')}:7"  # noqa: PTH100


def test_the_running_line_is_this_one() -> None:
    line = sys._getframe().f_lineno + 1
    assert running_line() == f"{__file__}:{line}"


def test_each_line_of_a_code_is_told_from_others_and_from_those_of_code_that_is_gone() -> None:
    lines = []
    for number in range(3):
        place = f"/home/me/cell{number}.py"  # its code goes with the turn, and its address may be the next one's
        for _ in range(2):
            exec(compile("ask()\nask()", place, "exec"), {"ask": lambda: lines.append(line_of_the_caller())})
    assert lines == [f"/home/me/cell{number}.py:{line}" for number in range(3) for _ in range(2) for line in (1, 2)]


def line_of_the_caller() -> str | None:
    return running_line(3)


class Base:
    def __init__(self) -> None:
        self.line, self.by_layer, self.span = constructed_line(self, sys._getframe(1), None)


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()


def test_a_users_own_class_is_constructed_where_it_is_called_not_in_its_init() -> None:
    line = sys._getframe().f_lineno + 1
    made = Derived()
    assert (made.line, made.by_layer) == (f"{__file__}:{line}", False)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns before 3.11")
def test_each_of_two_on_a_line_has_its_own_columns() -> None:
    line = sys._getframe().f_lineno + 1
    made = ["é", Derived(), Derived()]
    assert [one.span for one in made if isinstance(one, Derived)] == [(line, 17, line, 26), (line, 28, line, 37)]


def test_a_framework_is_told_to_the_lines() -> None:
    assert rank(f"{SITE}/toyflow/nn.py") == PACKAGE
    lines.know_framework(["toyflow"], r"toy\d\.py")
    assert [rank(f"{SITE}/toyflow/nn.py"), rank("/tmp/toy1.py"), rank(f"{SITE}/keras/a.py")] == [OTHER] * 3
    lines._frameworks.discard("toyflow")
