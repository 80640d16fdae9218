"""The state of the GPUs around and in a run, which run.json has from nvidia-smi: laid onto the table `devices`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from tcprobe.jsonfile import Text, record, records
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.profile import Note, Profile

HOT: Final = frozenset(("hardware slowdown", "temperature (driver)", "temperature (hardware)", "power brake"))
"""What holds clocks down where something is amiss: a cap of power is usual under load."""
OFTEN_PCT: Final = 10.0
XSPACE: Final = "xplane"
MEASURED: Final = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")


class _State(Struct):
    samples: int = 0
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    held_down_pct: dict[str, float] | None = None


class _Gpu(Struct):
    index: int | None = None
    name: Text | None = None
    device: int | None = None
    other_processes: int | None = None
    uncorrected_errors: float | None = None
    window: Any = None
    run: Any = None

    def state(self) -> tuple[str, _State]:
        """Return the state in the window, else in the run, and which it is."""
        for basis, given in (("window", self.window), ("run", self.run)):
            if (state := record(_State, given)) is not None and state.samples > 0:
                return basis, state
        return "", _State()


def with_states(profile: Profile, given: Any) -> Profile:
    """Return a profile whose `devices` say what the GPUs were in, with notes of what slowed them.

    Args:
        profile: of a run.
        given: ``gpu_states`` of run.json.
    """
    table, rows = profile.table("devices"), profile.active_gpus
    if table is None:
        return profile
    states = dict(_matched(rows, records(_Gpu, given), profile.metadata.format == XSPACE))
    if not states:
        return profile
    filled = [_columns(states.get(int(device or 0))) for device in table.values("device")]
    profile = profile.with_tables(table.with_columns(**{name: [row[name] for row in filled] for name in filled[0]}))
    return profile.with_notes(*(note for device, gpu in states.items() for note in _notes(device, gpu)))


def _matched(rows: Sequence[Row], gpus: Sequence[_Gpu], by_process: bool) -> Iterator[tuple[int, _Gpu]]:
    """Yield the GPUs that ran kernels, by ordinal, with the state of each; none where it is not certain which is which.

    Args:
        rows: of `devices`.
        gpus: those of run.json.
        by_process: ordinals are those of the process; else (Nsight Systems, by its version) they may be the machine's
            instead, and several GPUs are told apart only where both numbers of each are the same.
    """
    seen = {gpu.device: gpu for gpu in gpus if gpu.device is not None}
    ran = {int(row["device"] or 0): row for row in rows}
    if len(ran) == len(seen) == 1:
        seen = dict(zip(ran, seen.values(), strict=True))
    elif not by_process:
        seen = {device: gpu for device, gpu in seen.items() if gpu.index == device}
    if ran and ran.keys() <= seen.keys():
        for device, row in ran.items():
            if row["name_basis"] != "reported" or _plain(row["name"]) == _plain(seen[device].name):
                yield device, seen[device]


def _plain(name: Value) -> str:
    return str(name or "").lower().removeprefix("nvidia ").strip()


def _columns(gpu: _Gpu | None) -> dict[str, Value]:
    gpu = gpu or _Gpu()
    basis, state = gpu.state()
    held = sorted((state.held_down_pct or {}).items(), key=lambda one: (-one[1], one[0]))
    errors = gpu.uncorrected_errors
    return {
        "state_basis": basis or None,
        "state_samples": state.samples or None,
        **{name: getattr(state, name) for name in MEASURED},
        "held_down_by": ", ".join(name for name, _ in held) if state.held_down_pct is not None else None,
        "held_down_pct": held[0][1] if held else None if state.held_down_pct is None else 0.0,
        "other_processes": gpu.other_processes,
        "uncorrected_errors": None if errors is None else int(errors),
    }


def _notes(device: int, gpu: _Gpu) -> Iterator[Note]:
    _, state = gpu.state()
    held = {name: pct for name, pct in (state.held_down_pct or {}).items() if name in HOT and pct >= OFTEN_PCT}
    if held:
        by = ", ".join(f"{name} in {pct:.0f} % of the samples" for name, pct in held.items())
        at = "" if state.sm_clock_mhz is None else f"; its SM clock was {state.sm_clock_mhz:,.0f} MHz"
        yield Note(
            "clocks-held-down",
            f"something held the clocks of GPU {device} down: {by}{at}",
            "mend the cooling, or the power supply, and run again",
        )
    if gpu.other_processes:
        count = gpu.other_processes
        message = f"{count} other process{'es' * (count > 1)} computed on GPU {device} before or after the workload"
        yield Note("gpu-shared", f"{message}, and may have slowed it", "run it on a GPU of its own")
    if gpu.uncorrected_errors:
        count = int(gpu.uncorrected_errors)
        yield Note(
            "ecc-errors",
            f"GPU {device} had {count:,} memory error{'s' * (count > 1)} that ECC could not correct in this run",
            "results may be wrong: see nvidia-smi -q -d ECC, and have it looked at",
        )
