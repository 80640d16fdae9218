"""The summary as a whole: half a folder, a rehearsal, what was not recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.gpu.summary.__main__ import write
from bench.gpu.summary.whole import SECTIONS, key, page, summarise
from tests.bench.gpu import made


def summary(place: Path) -> str:
    write(place)
    return (place / "summary.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_data_say(tmp_path: Path) -> None:
    place = made.results(tmp_path)
    data = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    assert page(data) == (place / "summary.md").read_text(encoding="utf-8")
    assert page(summarise(place)) == page(data)


def test_a_contradiction_is_listed_with_its_case_and_counter(tmp_path: Path) -> None:
    text = summary(made.results(tmp_path, launches=[made.launch("g16odd", made.OLD, None)]))
    assert "Contradictions between name and counters: 1" in text
    (line,) = [line for line in text.splitlines() if "cutlass_80_tensorop" in line and "sm__" in line]
    assert "gemm forward float16 m=4095" in line
    assert "sm__ops_path_tensor_src_bf16.sum 0" in line


def test_a_rehearsal_is_fake_at_the_top_and_in_every_table_of_counters(tmp_path: Path) -> None:
    text = summary(made.results(tmp_path, dry=True))
    assert "FAKE" in text.partition("## Recorded")[0]
    heads = [line for line in text.splitlines() if line.startswith("#") or line.endswith(":")]
    told = [line for line in heads if "counters" in line or "ontradiction" in line or "Tensor Cores" in line]
    assert len(told) >= 5
    assert not [line for line in told if "FAKE" not in line]


def test_what_was_not_recorded_has_its_reason_and_remedy(tmp_path: Path) -> None:
    place = made.results(tmp_path)
    told = {"status": "failed", "reason": "nsys is not here", "remedy": "it comes with the CUDA Toolkit"}
    made.made_unit(place, "runs", "nvtx-train-gan", **told)
    assert "| runs | nvtx-train-gan | failed | nsys is not here | it comes with the CUDA Toolkit |" in summary(place)


@pytest.mark.parametrize("cut", ["provenance.json", "classification", "profiles", "everything"])
def test_half_a_folder_has_a_summary(tmp_path: Path, cut: str) -> None:
    place = made.results(tmp_path)
    for path in place.iterdir():
        if cut in (path.name, "everything"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert [f"## {section.TITLE}" in summary(place) for section in SECTIONS] == [True] * len(SECTIONS)


def test_damaged_files_cost_no_section_but_theirs(tmp_path: Path) -> None:
    place = made.results(tmp_path)
    for path in place.glob("*/*/*"):
        path.write_bytes(path.read_bytes()[:40])
    (place / "provenance.json").write_text('["no object"]', encoding="utf-8")
    text = summary(place)
    assert "`classification/ncu-torch` cannot be read: EOFError" in text
    assert "its unit.json is missing or damaged" in text
    assert {key(section) for section in SECTIONS} <= set(summarise(place))
