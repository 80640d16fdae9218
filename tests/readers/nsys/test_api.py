"""What the host did while a GPU ran no kernel: which calls and ranges are kept, and what they say of a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.readers.nsys import database
from tcprobe.schema.columns import Row
from tests.readers.nsys.made import Made
from tests.support import shared

US = 1000
GEMM = "nvjet_tst_128x128_64x6_2x1_v_bz_TNT"


def recording(version: str = "3.25.0", inline: bool = True) -> Made:
    """Two kernels with 1 ms between them."""
    made = Made(version, inline)
    made.launch(GEMM, 0, 100 * US, 200 * US)
    made.launch(GEMM, 1190 * US, 1200 * US, 1300 * US)
    return made


def events(made: Made, folder: Path) -> list[Row]:
    profile = database.read([made.write(folder / f"{len(list(folder.iterdir()))}.sqlite")])
    return list(profile.require("host_events").rows())


def test_long_calls_outside_kernels_are_named_without_their_version(tmp_path: Path) -> None:
    made = recording()
    made.call(210 * US, 900 * US, 1, tid=5000, name="cudaStreamSynchronize_v3020")
    made.call(210 * US, 215 * US, 2, name="cudaStreamSynchronize_v3020")  # too short
    made.call(110 * US, 190 * US, 3, name="cudaStreamSynchronize_v3020")  # while a kernel ran
    made.call(910 * US, 990 * US, 4, name="cudaMemcpy_ptds_v7000")
    made.call(990 * US, 1100 * US, 5, name="cudaMalloc_v3020")  # says nothing
    found = events(made, tmp_path)
    assert [(row["name"], row["work"], row["start_ns"], row["duration_ns"]) for row in found] == [
        ("cudaStreamSynchronize", "synchronise", 210 * US, 690 * US),
        ("cudaMemcpy", "copy_call", 910 * US, 80 * US),
    ]
    assert found[0]["thread"] != found[1]["thread"]


@pytest.mark.parametrize("version", ["3.0.0", "3.25.0"])
@pytest.mark.parametrize("inline", [True, False])
def test_ranges_that_wait_explain_a_gap_and_others_say_where_it_is(version: str, inline: bool, tmp_path: Path) -> None:
    made = recording(version, inline)
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__, op_id = 7"
    made.range(loader, 210 * US, 1000 * US)
    made.range("nccl:all_to_all", 300 * US, 400 * US)
    made.range("nccl:too_short", 300 * US, 340 * US)
    made.range("aten::copy_", 210 * US, 1100 * US)
    made.range("Compile", 210 * US, 1100 * US)  # a user's word is no evidence of what is done in it
    path = made.write(tmp_path / "x.sqlite")
    found = list(database.read([path]).require("host_events").rows())
    assert [(row["name"], row["work"]) for row in found] == [
        (loader.partition(",")[0], "input"),
        ("nccl:all_to_all", "communicate"),
        ("aten::copy_", "range"),
        ("Compile", "range"),
    ]
    (gap,) = analyse(database.read([path])).require("gaps").rows()
    assert (gap["host_work"], gap["host_op"], gap["host_ns"]) == ("input", loader.partition(",")[0], 790 * US)


def test_a_range_without_a_launch_tells_where_the_gpu_waits(tmp_path: Path) -> None:
    """Of the 900 us between the kernels 600 pass in it, the others in the range around it alone."""
    made = recording()
    made.range("ensure_layer_3_weights", 250 * US, 850 * US)
    made.range("load the model", 0, 1100 * US)
    waits = analyse(database.read([made.write(tmp_path / "x.sqlite")])).require("waits")
    inside = [row for row in waits.rows() if row["host_work"] == "range"]
    assert [(row["host_op"], row["idle_ns"]) for row in inside] == [
        ("ensure_layer_3_weights", 600 * US),
        ("load the model", 300 * US),
    ]


def test_a_gap_of_one_gpu_counts_while_another_is_busy(tmp_path: Path) -> None:
    made = recording()
    made.launch(GEMM, 0, 100 * US, 1300 * US, deviceId=1)
    made.call(210 * US, 900 * US, 1, name="cuStreamSynchronize")
    assert [row["name"] for row in events(made, tmp_path)] == ["cuStreamSynchronize"]


def test_without_kernels_or_calls_nothing_is_said(tmp_path: Path) -> None:
    made = Made()
    made.range("MPI_Barrier", 0, 900 * US)
    made.call(0, 900 * US, 1, name="cudaDeviceSynchronize")
    assert events(made, tmp_path) == []
    alone = Made()
    alone.kernel(GEMM, 0, 5)
    assert events(alone, tmp_path) == []


def test_a_real_rank_of_mpi_waits_for_others() -> None:
    found = database.read([shared("samples/nsys/v100_mpi_rank1.sqlite")]).require("host_events")
    assert {"MPI_Sendrecv", "cudaMemcpy"} <= set(found.names("name").names)
    gaps = analyse(database.read([shared("samples/nsys/v100_mpi_rank1.sqlite")])).require("gaps")
    assert "MPI_Sendrecv" in gaps.names("host_op").tolist()
