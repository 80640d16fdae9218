"""What nvidia-smi said around and in a run, laid onto the table of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.readers.run_folder.gpu_states import with_states
from tcprobe.schema.profile import Metadata, Profile
from tests.analysis.builders import devices

HELD = {"power cap": 90.0, "temperature (driver)": 40.0}
RUN: dict[str, Any] = {"samples": 9, "sm_clock_mhz": 1005.0, "temperature_c": 84.0, "held_down_pct": HELD}


def profile(*rows: dict[str, Any]) -> Profile:
    return Profile(Metadata("xplane")).with_tables(devices(*rows))


def gpu(device: int | None, name: str = "Tesla V100-SXM2-16GB", **more: Any) -> dict[str, Any]:
    return {"index": 3, "name": name, "device": device, "run": RUN, "window": None, **more}


def clocks(found: Profile) -> list[Any]:
    return found.require("devices").values("sm_clock_mhz")


def test_the_window_counts_before_the_run_and_what_is_amiss_is_noted() -> None:
    inside = {**RUN, "samples": 2, "sm_clock_mhz": 900.0, "held_down_pct": {}}
    found = with_states(profile({}), [gpu(0)])
    (row,) = found.require("devices").rows()
    assert (row["state_basis"], row["state_samples"], row["sm_clock_mhz"], row["temperature_c"]) == (
        "run",
        9,
        1005.0,
        84.0,
    )
    assert (row["held_down_by"], row["held_down_pct"]) == ("power cap, temperature (driver)", 90.0)
    (note,) = found.metadata.notes
    assert note.code == "clocks-held-down" and "temperature (driver) in 40 % of the samples" in note.message
    found = with_states(profile({}), [gpu(0, window=inside, other_processes=2, uncorrected_errors=1)])
    (row,) = found.require("devices").rows()
    assert (row["state_basis"], row["sm_clock_mhz"], row["held_down_by"], row["held_down_pct"]) == (
        "window",
        900.0,
        "",
        0.0,
    )
    assert [note.code for note in found.metadata.notes] == ["gpu-shared", "ecc-errors"]


@pytest.mark.parametrize(
    ("rows", "given", "expected"),
    [
        (({"device": 5},), [gpu(0)], [1005.0]),  # nsys numbers all GPUs of the machine: one is the other
        (({"device": 0}, {"device": 1}), [gpu(0), gpu(1)], [1005.0, 1005.0]),
        (({"device": 2}, {"device": 3}), [gpu(0), gpu(1)], [None, None]),
        (({"device": 0, "name_basis": "reported"},), [gpu(0, "NVIDIA H100")], [None]),
        (({"device": 0},), [gpu(None)], [None]),
        (({"device": 0, "state": "idle"},), [gpu(0)], [None]),
        (({"device": 0},), [3, {}, {"device": "x", "run": []}, {"device": 0, "run": {"samples": "many"}}], [None]),
        (({"device": 0},), "nothing", [None]),
    ],
)
def test_states_are_laid_on_gpus_where_it_is_certain_which_is_which(
    rows: tuple[dict[str, Any], ...], given: Any, expected: list[Any]
) -> None:
    assert clocks(with_states(profile(*rows), given)) == expected


@pytest.mark.parametrize(
    ("visible", "ran", "by_process", "of_machine"),
    [
        # The cards of the machine in the order of CUDA_VISIBLE_DEVICES, each with its number as clock.
        ((1, 2), (1,), [2.0], [None]),  # is it card 1, or the process's second one, card 2?
        ((1, 2), (0, 1), [1.0, 2.0], [None, None]),
        ((1, 0), (0, 1), [1.0, 0.0], [None, None]),
        ((0, 1), (0, 1), [0.0, 1.0], [0.0, 1.0]),
        ((0, 2), (0,), [0.0], [0.0]),
        ((0, 2), (0, 2), [None, None], [None, None]),
        ((2,), (0,), [2.0], [2.0]),
    ],
)
def test_numbers_of_the_machine_are_not_taken_for_those_of_the_process(
    visible: tuple[int, ...], ran: tuple[int, ...], by_process: list[float | None], of_machine: list[float | None]
) -> None:
    given = [gpu(place, index=card, run={**RUN, "sm_clock_mhz": float(card)}) for place, card in enumerate(visible)]
    for form, expected in (("xplane", by_process), ("nsys", of_machine), ("dlprof_database", of_machine)):
        rows = [{"device": device} for device in ran]
        assert clocks(with_states(profile(*rows).with_metadata(format=form), given)) == expected


def test_a_run_without_gpus_stays_as_it_is() -> None:
    bare = Profile(Metadata("run_folder"))
    assert with_states(bare, [gpu(0)]) is bare
