"""The report of a run as a document: what stands beside its texts."""

from __future__ import annotations

import pytest

from tcprobe.formatting import NA
from tcprobe.report.document import Cell, sections
from tests.report.builders import PROFILES, run


@pytest.mark.parametrize("name", PROFILES)
def test_every_figure_keeps_its_raw_value(name: str) -> None:
    document = run(PROFILES[name]())
    figures = [
        (section.title, head.text, cell)
        for section in sections([*document.screen(), *document.page()])
        for row in section.cells
        for head, cell in zip(section.headings, row, strict=True)
        if head.right
    ]
    assert figures
    for title, head, cell in figures:
        assert isinstance(cell, Cell) and (cell.value is not None or cell.text == NA), (title, head, cell)
