"""Identify the GPU that figures and blockers are judged against: the one that ran, else the target."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tcprobe.cost.constants import Constants, load_constants
from tcprobe.grouping import distinct_numbers
from tcprobe.hardware import DEFAULT_TARGET, Capability, Gpu, HasTensorCores, find_gpu
from tcprobe.identify import Identification, identify
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.kinds import NamedKernel
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import DEVICES

__all__ = ["DEFAULT_TARGET", "Options"]


class Options(Struct, frozen=True):
    """Choices that change the figures."""

    # iter_start, iter_stop: first and last iteration to count, both included; None leaves it to detection.
    iter_start: int | None = None
    iter_stop: int | None = None
    # id in gpus.csv against which blockers are judged where no GPU ran; None takes the one that the run was judged for,
    # else `DEFAULT_TARGET`
    target_gpu: str | None = None
    # regular expression for the names of the ranges that are steps; None leaves that to the reader
    step_range: str | None = None
    kernels: tuple[NamedKernel, ...] = ()  # what the user says of kernels whose names do not tell
    # gives what `tcprobe calibrate` measured on a GPU, None where it has not; asked only where a saving is to be
    # predicted
    constants: Callable[[Gpu], Constants | None] = load_constants
    timeline: bool = False  # whether to lay out what ran when (`Profile.timeline`)


class Context(Struct, frozen=True):
    """The GPU that the run used, or would use."""

    measured: bool  # whether a GPU ran; False judges against the target GPU
    gpu: Gpu | None  # its row in gpus.csv, None where it is not known or several models ran
    name: str | None  # what to call it
    compute_capability: Capability | None  # of it, None where unknown
    tensor_cores: HasTensorCores  # whether it has any; ``unknown`` where several models disagree
    nvidia: bool  # whether it is NVIDIA's
    tf32_allowed: bool | None  # whether float32 may run as TF32; None leaves it to the framework's default
    gpu_used: bool | None = True  # False where the run is known to have used no GPU, None where nobody knows
    # the GPU that savings are predicted for: the run's own; the target where none ran, or where nothing tells which ran
    # and somebody chose the target; else None
    judged: Gpu | None = None


def with_identity(profile: Profile) -> Profile:
    """Return the profile with each device's model and Tensor Cores told from its figures.

    A device that launches name and the reader did not list is added, with nothing known of it.
    """
    devices = _listed(profile)
    if not len(devices):
        return profile
    rows = [{**row, **_identity(row)} for row in devices.rows()]
    return profile.with_tables(Table.from_rows(DEVICES, rows))


def _listed(profile: Profile) -> Table:
    devices, launches = profile.require("devices"), profile.require("launches")
    seen = set(devices.numbers("device").tolist())
    added = [d for d in distinct_numbers(launches.numbers("device")).tolist() if d not in seen]
    rows = [*devices.rows(), *({"device": d, "tensor_cores": "unknown", "state": "active"} for d in added)]
    return Table.from_rows(DEVICES, sorted(rows, key=lambda row: float(row["device"] or 0)))


def _identity(row: dict[str, Value]) -> dict[str, Value]:
    if not _is_nvidia(row):
        return {"tensor_cores": "no"}
    reported = row["name"] is not None and row["name_basis"] != "inferred"
    found = identified(row if reported else {**row, "name": None})
    basis = None if found.name is None else "reported" if reported else found.basis
    capability = row["compute_capability"]
    if capability is None and found.gpu is not None:
        capability = "{}.{}".format(*found.gpu.compute_capability)
    return {
        "name": found.name, "name_basis": basis, "tensor_cores": found.tensor_cores, "compute_capability": capability,
    }  # fmt: skip


def identified(row: dict[str, Value]) -> Identification:
    """Return which GPU a row of `devices` describes, by its name and its figures."""
    return identify(
        parse_capability(row["compute_capability"]),
        None if row["sm_count"] is None else int(row["sm_count"]),
        _number(row["bandwidth_bytes_per_s"]),
        _number(row["memory_bytes"]),
        _number(row["clock_khz"]),
        text_of(row["name"]),
    )


def _is_nvidia(row: dict[str, Value]) -> bool:
    return row["vendor"] is None or str(row["vendor"]).lower() == "nvidia"


def _number(value: Value) -> float | None:
    return None if value is None else float(value)


def parse_capability(text: Value) -> Capability | None:
    """Return (major, minor) of ``7.5``; None where it is absent or is no such number."""
    major, _, minor = str(text).partition(".")
    return (int(major), int(minor or 0)) if major.isdigit() and (minor or "0").isdigit() else None


def context_of(profile: Profile, options: Options, used: frozenset[int], ran: bool) -> Context:
    """Return what the figures are judged against.

    Args:
        profile: with identified devices.
        options: for the target where no GPU ran; its target is None where nobody chose one.
        used: ordinals of the devices that ran kernels; where none is told apart, all listed ones count.
        ran: whether kernels ran at all; the source may not say on which GPU.

    Raises:
        UsageError: the target GPU is unknown.
    """
    rows = list(profile.require("devices").rows())
    active = [row for row in rows if row["device"] in used] or rows
    tf32 = tf32_asked(profile)
    if not ran:
        target = find_gpu(options.target_gpu or DEFAULT_TARGET)
        cores: HasTensorCores = "yes" if target.tensor_cores else "no"
        allowed = True if tf32 is None else tf32  # TensorFlow's default on GPUs that have it
        used_one = profile.metadata.gpu_used
        return Context(False, target, target.name, target.compute_capability, cores, True, allowed, used_one, target)
    models = {m.id: m for row in active if (m := identified(row).gpu)}
    names = {str(row["name"]) for row in active if row["name"] is not None}
    cores_of = {str(row["tensor_cores"]) for row in active}
    capabilities = {parse_capability(row["compute_capability"]) for row in active}
    gpu = next(iter(models.values())) if len(models) == 1 else None
    chosen = find_gpu(options.target_gpu) if options.target_gpu and not names and capabilities <= {None} else None
    return Context(
        measured=True,
        gpu=gpu,
        name=" and ".join(sorted(names)) or None,
        compute_capability=capabilities.pop() if len(capabilities) == 1 else None,
        tensor_cores=_agreed(cores_of),
        nvidia=not active or any(_is_nvidia(row) for row in active),
        tf32_allowed=tf32,
        judged=gpu or chosen,
    )


def _agreed(answers: set[str]) -> HasTensorCores:
    if answers == {"no"}:
        return "no"
    return "yes" if "yes" in answers else "unknown"


def forbids_tf32(profile: Profile) -> bool:
    """Return whether the environment that the run recorded switches TF32 off in cuBLAS and cuDNN."""
    environment = profile.metadata.run.get("environment")
    return isinstance(environment, dict) and str(environment.get("NVIDIA_TF32_OVERRIDE")) == "0"


def tf32_asked(profile: Profile) -> bool | None:
    """Return whether the run asked for TF32; None where it left that to the framework.

    NVIDIA_TF32_OVERRIDE=0 switches TF32 off in cuBLAS and cuDNN, whatever the framework asks for. What a script sets
    itself counts before what it was profiled with.
    """
    if forbids_tf32(profile) or (profile.metadata.policy is not None and profile.metadata.policy.tf32_off):
        return False
    return {"float32": False, "tf32": True}.get(profile.metadata.precision or "")
