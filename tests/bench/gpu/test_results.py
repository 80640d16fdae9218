"""Committed results of GPUs hold, and so does a folder of ours; each broken variant of it fails with its own reason."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.gpu.summary.__main__ import write
from bench.gpu.summary.check import Kind, problems
from bench.gpu.summary.pack import RESULTS
from bench.gpu.tables import read_table, write_table
from docs import make_gpu_results
from tests.bench.gpu import made

COMMITTED = sorted(place for place in RESULTS.iterdir() if place.is_dir())
KERNELS = "classification/ncu-torch/kernels.csv.gz"


@pytest.mark.parametrize("place", [*COMMITTED, None], ids=lambda p: p.name if p else "ours")
def test_a_folder_of_results_holds(place: Path | None, ours: Path) -> None:
    assert list(problems(place or ours)) == []


@pytest.mark.parametrize("name", make_gpu_results.PAGES)
def test_pages_print_what_follows_from_the_committed_folders(name: str) -> None:
    text = (make_gpu_results.ROOT / name).read_text(encoding="utf-8")
    assert make_gpu_results.page(name, text) == text, "python -m docs.make_gpu_results"


def test_pages_print_what_a_folder_says(ours: Path) -> None:
    bare = "<!-- gpu results -->\nolder\n<!-- /gpu results -->\n"
    names, costs, listed = (make_gpu_results.page(name, bare, ours.parent) for name in make_gpu_results.PAGES)
    assert f"| {made.NAME} | torch 2.11.0 | 5 | 5 | 0 | 1 | 0 |" in names
    assert f"| {made.NAME} | torch | gemm | float16 | 1 of 1 | 1 of 1 |  |" in names
    assert f"| {made.NAME} calibrate-torch | unaligned GEMMs | float16 | 1 | 9.1 | 100.0 |" in costs
    assert f"| {made.NAME} | pairs-torch | 1 of 2 |" in costs
    assert f"- [{made.NAME}]({made.NAME}/summary.md): NVIDIA H200; 1 of classification, 2 of costs" in listed
    assert "older" not in names + costs + listed


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results that holds."""
    return made.results(tmp_path_factory.mktemp("results"))


def _contradicted(place: Path) -> None:
    """Counters that see no Tensor Core in a kernel that its name says to use them."""
    _launches(place, made.launch("g16", made.NVJET, None))


def _other_precision(place: Path) -> None:
    _launches(place, made.launch("g16", made.NVJET, "bf16"))


def _launches(place: Path, *launches: made.Row) -> None:
    write_table(place / KERNELS, made.KERNELS, launches)


def _renamed(place: Path) -> None:
    place.rename(place.with_name("a100-sxm-80-2026-11-22"))


def _rehearsed(place: Path) -> None:
    (place / "provenance.json").write_text(json.dumps(made.provenance(dry=True)), encoding="utf-8")


def _fake(place: Path) -> None:
    table = place / KERNELS
    write_table(table, [*made.KERNELS, "fake"], [{**row, "fake": 1} for row in read_table(table)])


def _told_where(place: Path) -> None:
    unit = place / "classification" / "ncu-torch"
    (unit / "ncu.csv.gz").write_bytes(gzip.compress(b'"Process Name"\n"/home/someone/bin/python"\n'))


def _told_who(place: Path) -> None:
    unit = place / "profiles" / "gan-torch-kineto"
    (unit / "trace.json.gz").write_bytes(gzip.compress(b'{"host": "tower-of-mine"}'))


def _told_in_bytes(place: Path) -> None:
    unit = place / "profiles" / "gan-torch-kineto"
    (unit / "trace.xplane.pb.gz").write_bytes(gzip.compress(b"\x0a\x00A/scratch/someone/step.py\x12"))


def _without_a_column(place: Path) -> None:
    table = place / "classification" / "ncu-torch" / "cases.csv.gz"
    rows = [{name: cell for name, cell in row.items() if name != "status"} for row in read_table(table)]
    write_table(table, list(rows[0]), rows)


def _undescribed(place: Path) -> None:
    write_table(place / "profiles" / "gan-torch-nsys" / "extra.csv.gz", ("what",), [{"what": 1}])


def _damaged(place: Path) -> None:
    table = place / KERNELS
    table.write_bytes(table.read_bytes()[:-20])


def _large_trace(place: Path) -> None:
    (place / "profiles" / "gan-torch-nsys" / "trace.nsys-rep").write_bytes(bytes(3 << 20))


def _large(place: Path) -> None:
    for number in range(5):
        (place / "profiles" / "gan-torch-nsys" / f"{number}.nsys-rep").write_bytes(bytes(2 << 20))


def _killed(place: Path) -> None:
    (place / "killed" / "costs-pairs-torch-1").mkdir(parents=True)
    (place / "killed" / "costs-pairs-torch-1" / "pairs.csv.gz").write_bytes(b"")


def _stale(place: Path) -> None:
    page = place / "summary.md"
    page.write_text(page.read_text(encoding="utf-8").replace("| 5 | 5 |", "| 5 | 6 |"), encoding="utf-8")


def _nowhere(place: Path) -> None:
    told = {**made.provenance(dry=False), "gpu": None}
    (place / "provenance.json").write_text(json.dumps(told), encoding="utf-8")


BROKEN: dict[Callable[[Path], None], tuple[Kind, str]] = {
    _contradicted: ("contradiction", "its name says yes"),
    _other_precision: ("precision", "its name says fp16, it multiplies bf16"),
    _renamed: ("name", "not h200-sxm-2026-11-22"),
    _rehearsed: ("rehearsal", "dry_run"),
    _fake: ("rehearsal", "kernels.csv.gz: fake counters"),
    _told_where: ("private", "'/home/someone'"),
    _told_who: ("private", "'tower-of-mine'"),
    _told_in_bytes: ("private", "'/scratch/someone/step.py'"),
    _without_a_column: ("table", "cases.csv.gz: no status"),
    _undescribed: ("table", "does not describe extra.csv.gz"),
    _damaged: ("table", "kernels.csv.gz: "),
    _large_trace: ("size", "trace.nsys-rep: 3.0 MB, more than 2"),
    _large: ("size", "10.0 MB in all, more than 8"),
    _killed: ("leftover", "it is no result"),
    _stale: ("summary", "stale"),
    _nowhere: ("provenance", "NVIDIA H200"),
}


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda f: f.__name__.strip("_"))
def test_a_broken_folder_fails_with_its_own_reason(
    break_it: Callable[[Path], None], ours: Path, tmp_path: Path
) -> None:
    place = tmp_path / ours.name
    shutil.copytree(ours, place)
    break_it(place)
    (place,) = tmp_path.iterdir()
    if break_it is not _stale:
        write(place)
    kind, words = BROKEN[break_it]
    found = list(problems(place, ["tower-of-mine"]))
    assert {p.kind for p in found} == {kind}
    assert words in " ".join(p.text for p in found)
