"""How a recording was made: nsys, machine, command, rank; of its environment only what bears on the figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from tcprobe.masking import mask_words
from tcprobe.readers.nsys.columns import read_strings
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.profile import Note

EXPORTED: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CAPTURED: Final = "META_DATA_CAPTURE"
MACHINE: Final = "TARGET_INFO_SYSTEM_ENV"
# Open MPI, MPICH, PMIx, Slurm, torchrun
RANKS: Final = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")
# which NVIDIA's containers of these frameworks set
FRAMEWORKS: Final = {"PYTORCH_VERSION": "pytorch", "TENSORFLOW_VERSION": "tensorflow", "JAX_VERSION": "jax"}
_RANK: Final = re.compile(r"MPI Rank (\d{1,9})")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def session(database: Database) -> tuple[dict[str, Any], list[Note]]:
    """Return (fields of the metadata, notes); a field that the file does not tell is left out."""
    environment = dict(_environment(database))
    told = {
        "profiler": _profiler(database),
        "host": _first(database, MACHINE, "Hostname"),
        "command": _command(database),
        "rank": _rank(database, environment),
        "framework": _framework(environment),
    }
    return {name: value for name, value in told.items() if value is not None}, list(_notes(environment))


def _first(database: Database, table: str, name: str) -> str | None:
    found = (value for key, value in database.rows(table, "name", "value") if key == name)
    return next((value for value in found if isinstance(value, str) and value), None)


def _profiler(database: Database) -> str:
    versions = (_first(database, table, "EXPORT_PRODUCT_VERSION") for table in EXPORTED)
    version = next((found for found in versions if found), "")
    return " ".join(["Nsight Systems", *([".".join(version.split(".")[:3])] if version else [])])


def _command(database: Database) -> tuple[str, ...] | None:
    """Return the command line of the first process, secrets masked."""
    words: dict[int, str] = {}
    for key, value in database.rows(CAPTURED, "name", "value"):
        place = re.fullmatch(r"PROCESS_0:(?:COMMAND|ARGUMENT_(\d{1,6}))", str(key))
        if place and isinstance(value, str):
            words[-1 if place[1] is None else int(place[1])] = value
    return mask_words([words[place] for place in sorted(words)]) if -1 in words else None


def _environment(database: Database) -> Iterator[tuple[str, str]]:
    """Yield the variables that nsys kept: of the process that it started, else of its own."""
    for name, value in database.rows(MACHINE, "name", "value"):
        if name == "DeviceEnvironment" and isinstance(value, str):
            for line in re.split(r"[\0\n]", value):
                yield from _variable(line)
    for name, value in database.rows(CAPTURED, "name", "value"):
        if name == "PROCESS_0:ENVIRONMENT_VARIABLE" and isinstance(value, str):
            yield from _variable(value)


def _variable(text: str) -> Iterator[tuple[str, str]]:
    name, sign, value = text.partition("=")
    if sign and _NAME.fullmatch(name):
        yield name, value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _rank(database: Database, environment: Mapping[str, str]) -> int | None:
    """Return the rank of the only process of a distributed run that is in the file; None where several are."""
    ids = [number for (number,) in database.rows("ThreadNames", "nameId") if isinstance(number, int)]
    names = read_strings(database, np.array(ids, np.int64)).names
    ranks = {int(found[1]) for name in names if (found := _RANK.fullmatch(name))}
    if ranks:
        return ranks.pop() if len(ranks) == 1 else None
    given = (environment[name] for name in RANKS if name in environment)
    return next((int(value) for value in given if re.fullmatch(r"[0-9]{1,9}", value)), None)


def _framework(environment: Mapping[str, str]) -> str | None:
    told = [f"{name} {environment[variable]}" for variable, name in FRAMEWORKS.items() if environment.get(variable)]
    return told[0] if len(told) == 1 else None


def _notes(environment: Mapping[str, str]) -> Iterator[Note]:
    if environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        message = "TF32 was switched off where this was recorded (NVIDIA_TF32_OVERRIDE=0)"
        yield Note("tf32-override", message, "unset it to let float32 products run on Tensor Cores as TF32", "note")
    if environment:
        message = f"the file holds {len(environment):,} environment variables of the recording, which may be private"
        yield Note("environment-inside", message, "look at them before you pass the file on", "note")
