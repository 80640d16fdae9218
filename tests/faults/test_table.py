"""Every row of the table of faults has a test that takes it, and nothing else has."""

from __future__ import annotations

import importlib
from collections import Counter

from tests.faults.table import FAULTS

ROWS = [fault for faults in FAULTS.values() for fault in faults]


def arguments(test: str) -> list[object]:
    """Return what a test is parametrized with."""
    module, _, name = test.partition(".")
    function = getattr(importlib.import_module(f"tests.faults.{module}"), name)
    (mark,) = [m for m in function.pytestmark if m.name == "parametrize"]
    return [parameter.values[0] for parameter in mark.args[1]]


def test_every_row_is_run_by_the_test_that_it_names() -> None:
    assert [fault.name for fault in ROWS if fault not in arguments(fault.test)] == []


def test_no_two_rows_have_one_name() -> None:
    assert [name for name, rows in Counter(fault.name for fault in ROWS).items() if rows > 1] == []
