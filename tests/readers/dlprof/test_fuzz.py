"""Damaged DLProf reports: whatever the bytes, a Profile or one InputError, and never a figure out of range."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.errors import InputError
from tcprobe.readers.dlprof.reader import CSV as dlprof_csv
from tcprobe.readers.dlprof.reader import JSON as dlprof_json
from tcprobe.readers.dlprof.report import LARGEST, parse_number
from tcprobe.readers.dlprof.summary import from_lines
from tcprobe.readers.dlprof.tables import first_shape, shapes_of
from tests.fixtures.dlprof import make
from tests.fuzz.mutate import bytewise, cells, trees
from tests.fuzz.mutate.chance import Chance

FILES = sorted(p for p in (Path(make.__file__).parent / "tf2_1.8").iterdir() if p.suffix in (".csv", ".json"))
CONTENT = {p.name: p.read_bytes() for p in FILES}


def check(name: str, content: bytes) -> None:
    """Find and read `content`; whatever is read must keep the contract."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        for reader in (dlprof_csv, dlprof_json):
            files = reader.finds(path)
            try:
                profile = reader.read(files or [path])
            except InputError as error:
                assert str(path) in error.message and "\n" not in error.message
                continue
            for table in profile.tables.values():
                for column in table.spec.columns:
                    if column.kind == "int" and column.name not in ("stream", "op_id", "config_id"):
                        numbers = table.numbers(column.name)
                        known = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
                        assert (known >= 0).all()


@settings(max_examples=60)
@given(st.sampled_from(sorted(CONTENT)), st.integers(0, 2**32))
def test_changed_files(name: str, seed: int) -> None:
    chance = Chance(str(seed))
    mutated = cells.mutated if name.endswith(".csv") else trees.mutated
    check(name, (bytewise.mutated if chance.random() < 0.3 else mutated)(CONTENT[name], chance))


@given(st.text(max_size=200), st.booleans())
def test_any_lines_of_a_summary(text: str, ended: bool) -> None:
    try:
        figures = list(from_lines(Path("s.csv"), f"All Kernels\n{text}" + "\n" * ended))
    except InputError:
        return
    assert all(f.value is None or 0 <= f.value < LARGEST for f in figures)


@given(st.text(max_size=60), st.sampled_from([None, "Conv2D", "MatMul", "conv2d"]))
def test_any_shape_text(text: str, op_type: str | None) -> None:
    shapes_of(text, op_type)
    first_shape(text, op_type)


@given(st.integers(0, 2**53 - 1))
def test_whole_numbers_are_exact(number: int) -> None:
    assert parse_number(str(number)) == number


@pytest.mark.parametrize("text", ["-1", "1e999", "0x10", "1,000", "१", "1 2", "--", "9" * 30])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        parse_number(text)
