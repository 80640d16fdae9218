"""`report --counters`: hardware counters over the names of another profile's kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.report import make_report
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.fixtures.ncu.make import OPS, SPENT, Launch, raw
from tests.readers.kineto.made import Made, training
from tests.support import ROOT

OWN = ROOT / "bench" / "gpu" / "results" / "h100-sxm-2026-11-27"
LIES = "ampere_sgemm_128x64_tn"
"""By its name on CUDA cores."""
RELU = ("void relu<4>(float*)", "void relu<(int)4>(float *)")
"""One kernel as PyTorch's profiler spells it, and as Nsight Compute does."""


def counted(folder: Path, *kernels: tuple[str, int], capability: str = "9.0") -> Path:
    made = [
        Launch(name, (8, 4, 1), (128, 1, 1), {SPENT: ("5.0", "usecond"), OPS: (str(count), "")}, capability=capability)
        for name, count in kernels
    ]
    path = folder / "counters.csv"
    path.write_text(raw(made), encoding="utf-8")
    return path


def timeline(folder: Path) -> Path:
    made = Made()
    made.op("aten::mm", 10, 50, [64, 64], [64, 64], dtype="float32")
    made.launch(LIES, 20, 100, 60)
    made.launch(RELU[0], 80, 200, 20)
    made.launch(b.TC, 90, 300, 20)
    return made.write(folder / "worker.pt.trace.json")


def classes(profile: Profile) -> dict[object, object]:
    return {row["kernel"]: (row["uses_tc"], row["basis"]) for row in b.rows(profile, "kernels")}


def test_counters_decide_and_what_they_do_not_cover_goes_by_name(tmp_path: Path) -> None:
    path = timeline(tmp_path)
    assert classes(make_report(path))[LIES] == ("no", "name")
    found = make_report(path, counters=counted(tmp_path, (LIES, 4096), (RELU[1], 0)))
    assert classes(found) == {LIES: ("yes", "counter"), RELU[0]: ("no", "counter"), b.TC: ("yes", "name")}
    said = {note.code: note.message for note in found.metadata.notes}
    assert "class 80.0 % of the kernel time; the rest goes by names" in said["counters-cover"]
    contradicted = f"class 1 kernels (60.0 % of the time) otherwise than their names: {LIES}"
    assert contradicted in said["counters-contradict-names"]
    assert [source.format for source in found.metadata.sources] == ["kineto", "ncu_csv"]


def test_counters_of_another_gpu_or_none_are_refused(tmp_path: Path) -> None:
    path = timeline(tmp_path)
    with pytest.raises(UsageError, match=r"compute capability 7\.5, this profile's of 9\.0"):
        make_report(path, counters=counted(tmp_path, (LIES, 1), capability="7.5"))
    other = training(1).write(tmp_path / "other.json")
    with pytest.raises(UsageError, match="holds no hardware counter of a kernel"):
        make_report(path, counters=other)


def test_a_step_of_an_h100_and_its_counters_agree() -> None:
    """All that its names call Tensor Core kernels, counters do too: 38.3 % of the time."""
    by_name = make_report(OWN / "trace-torch-bfloat16")
    found = make_report(OWN / "trace-torch-bfloat16", counters=OWN / "count-torch-bfloat16" / "ncu.raw.csv.gz")
    assert found.value("tc_kernel_time_pct") == by_name.value("tc_kernel_time_pct")
    spent = {True: 0, False: 0}
    for row in b.rows(found, "kernels"):
        if row["uses_tc"] == "yes":
            spent[row["basis"] == "counter"] += int(row["sum_ns"] or 0)
    assert spent[True] / sum(spent.values()) > 0.97  # but for one whose name is mangled in the trace
    assert "counters-contradict-names" not in {note.code for note in found.metadata.notes}
