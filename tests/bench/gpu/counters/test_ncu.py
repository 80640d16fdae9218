"""A program counted by a stand-in for Nsight Compute: what stays of it, and what is said where nothing is counted."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from bench.gpu.counters import ncu, ranges
from bench.gpu.counters.ncu import NotAllowed, count
from bench.gpu.day import Day, NotRecorded, OutOfTime, run
from bench.gpu.machine import Machine, Tool
from bench.gpu.tables import read_table
from tcprobe.readers.ncu.launches import read_launches

CASES = ("gemm-forward-bfloat16-nn-4096", "gemm-forward-float32-nn-4096", "elementwise-forward-float16-add-8192")
PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(ranges.__file__).parent)!r})
from ranges import open_ranges
ranges = open_ranges()
for name in sys.argv[1:]:
    with ranges.case(name), ranges.measure():
        pass
"""
SAYS = """#!/bin/sh
case "$*" in *query-metrics*) exit 1;; *missing-option*) ;; esac
echo "$*" >> "$0.calls"
case "$*" in *{option}*) echo "{said}"; exit 1;; esac
echo "==WARNING== No kernels were profiled."
exit 1
"""


def day(folder: Path, tool: Tool | None, *, dry: bool) -> Day:
    return Day(folder, Machine(None, {}, 0, (), tool, None), dry, lambda _: None)


def stand_in(folder: Path, option: str, said: str) -> Tool:
    path = folder / "ncu"
    path.write_text(SAYS.format(option=option, said=said))
    path.chmod(0o755)
    return Tool(str(path), "2025.3.1.0")


def test_a_dry_run_gives_back_what_was_ordered_and_says_that_it_is_invented(tmp_path: Path) -> None:
    assert count(day(tmp_path, None, dry=True), [sys.executable, "-S", "-c", PROGRAM, *CASES], tmp_path, 30.0) == 3
    rows = read_table(tmp_path / "kernels.csv.gz")
    assert [row["case"] for row in rows] == list(CASES)
    assert {row["fake"] for row in rows} == {"1"}
    assert all("fake" in row["kernel"] and "fake" in row["mangled"] for row in rows)
    used = [int(row["sm__ops_path_tensor_src_bf16_dst_fp32.sum"]) > 0 for row in rows]
    assert used == [True, False, False]
    assert [launch.ranges[-2:] for launch in read_launches(tmp_path / "ncu.csv.gz")] == [
        (("tcprobe", case), ("tcprobe", "measure")) for case in CASES
    ]
    assert json.loads((tmp_path / "count.json").read_text())["fake"]
    assert b"127.0.0.1" not in gzip.decompress((tmp_path / "ncu.csv.gz").read_bytes())


def test_nothing_to_count_with(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="no Nsight Compute") as caught:
        count(day(tmp_path, None, dry=False), ["true"], tmp_path, 60.0)
    assert "PATH" in (caught.value.remedy or "")


def test_no_permission_is_tried_once(tmp_path: Path) -> None:
    tool = stand_in(tmp_path, "metrics", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
    with pytest.raises(NotAllowed) as caught:
        count(day(tmp_path, tool, dry=False), ["true"], tmp_path, 60.0)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in (caught.value.remedy or "")
    assert len(Path(f"{tool.path}.calls").read_text().splitlines()) == 1


def test_an_option_that_a_version_lacks_is_left_out_and_the_driver_is_asked_where_nvtx_tells_nothing(
    tmp_path: Path,
) -> None:
    tool = stand_in(tmp_path, "--cache-control", "==ERROR== unrecognised option '--cache-control'. Use --help")
    with pytest.raises(NotRecorded):
        count(day(tmp_path, tool, dry=False), ["true"], tmp_path, 60.0)
    with_it, nvtx, driver = Path(f"{tool.path}.calls").read_text().splitlines()
    assert "--nvtx-include tcprobe@measure/ --nvtx-include tcprobe@measure " in nvtx
    assert "--cache-control" in with_it
    assert "--cache-control" not in nvtx + driver
    assert "--profile-from-start off" in driver and "nvtx-include" not in driver


def test_a_tool_that_hangs_costs_no_more_than_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "MARGIN_S", 0.0)
    monkeypatch.setattr(ncu, "READ_S", 0.1)
    path = tmp_path / "ncu"
    path.write_text('#!/bin/sh\ncase "$*" in *query-metrics*) exit 1;; esac\nexec sleep 60\n')
    path.chmod(0o755)
    with pytest.raises(OutOfTime):
        count(day(tmp_path, Tool(str(path), "1"), dry=False), ["true"], tmp_path, 1.2)


def test_a_program_whose_ranges_nobody_hears_ends_at_once(tmp_path: Path) -> None:
    status = run(
        [sys.executable, "-S", "-c", PROGRAM, *CASES], 20.0, log=tmp_path / "log", environment={ranges.NEEDED: "1"}
    )
    assert status == ranges.UNHEARD
    assert "no tool listens" in (tmp_path / "log").read_text()


def test_a_program_ends_itself_when_its_time_is_up(tmp_path: Path) -> None:
    program = PROGRAM + "\nwhile True: pass\n"
    status = run([sys.executable, "-S", "-c", program], 20.0, environment={ranges.UNTIL: "1"}, log=tmp_path / "log")
    assert status == 128 + 14
