"""What stands before a workload: which launchers start a job of several ranks, and what a container must see."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tcprobe.capture import environment
from tcprobe.capture.base import CaptureRequest
from tcprobe.errors import ToolError, writing
from tcprobe.probe.ranks import RANKS, TORCHRUN

_OF_RANKS: Final = re.compile(
    r"(?:mpirun|mpiexec|orterun|prterun|prun|srun|jsrun|aprun|flux|horovodrun|torchrun)(?:\.\w+)?"
)
_MOUNTS: Final = {
    "docker": "-v {0}:{0}",
    "podman": "-v {0}:{0}",
    "nerdctl": "-v {0}:{0}",
    "singularity": "-B {0}",
    "apptainer": "-B {0}",
    "bwrap": "--bind {0} {0}",
    "srun": "--container-mounts={0}:{0}",
}
"""How a folder is mounted under its own path, by the program that starts a container (srun: with Pyxis)."""
COPIES: Final = "workload"
"""The folder of a run folder with the copy of a script that its container does not see."""
MOST_BESIDE: Final = 200  # modules beside a script that are copied with it
MOST_BYTES: Final = 8 << 20


def starts_ranks(launcher: Sequence[str]) -> bool:
    """Return whether a launcher starts the ranks of a job, by the name of a program in it."""
    return any(_OF_RANKS.fullmatch(Path(word).name) for word in launcher)


def once(launcher: tuple[str, ...], program: str) -> tuple[str, ...]:
    """Return what starts a program by one rank of a job alone: nothing where it is here as well, else the first."""
    if shutil.which(program):
        return ()
    rank = "0"
    for name in reversed(RANKS):
        rank = f"${{{name}:-{rank}}}"
    first = f'rank="${{{TORCHRUN}:+${RANKS[-1]}}}"; test "${{rank:-{rank}}}" = 0 || exit 0; exec "$@"'
    return (*launcher, "sh", "-c", first, "sh")


def mount_of(launcher: Sequence[str], folder: Path) -> str:
    """Return how to have a folder behind a launcher under the same path, in words of that launcher where it is known.

    The working directory is mounted, where the folder is in it: it holds the script as well.
    """
    here = Path.cwd()
    place = here if folder.is_relative_to(here) else folder.parent
    program = next((name for word in launcher if (name := Path(word).name) in _MOUNTS), None)
    if program is None:
        return f"have {place} there under the same path"
    return f"add {_MOUNTS[program].format(place)} to --launcher"


def behind(request: CaptureRequest) -> tuple[CaptureRequest, str]:
    """Return the request as its launcher can run it, and what was done for that in words; empty where nothing.

    Probe and profiles lie in the run folder, which must be there. A script that is not is copied into it, with the
    modules beside it.

    Raises:
        ToolError: the run folder is not there.
        OutputError: the copy cannot be written.
    """
    if not request.launcher:
        return request, ""
    script = Path(request.target.name).absolute() if request.target.kind == "script" else None
    wanted = [request.folder, *([script] if script is not None else [])]
    seen = environment.sees(wanted, request.python, request.launcher)
    if seen is None or request.folder not in seen:
        shown = " ".join(request.launcher)
        raise ToolError(
            f"{shown}: {request.folder.parent} is not there behind it, so nothing that it records would be here",
            mount_of(request.launcher, request.folder),
        )
    if script is None or script in seen:
        return request, ""
    copy, beside = _copied(script, request.folder / COPIES)
    modules = f" and {beside} module{'s' * (beside > 1)} beside it" if beside else ""
    said = f"copied {script.name}{modules} into the run folder: {script.parent} is not there behind the launcher"
    return replace(request, target=replace(request.target, name=str(copy))), said


def _copied(script: Path, folder: Path) -> tuple[Path, int]:
    """Copy a script and the modules beside it, as far as they are few and small; return the copy, and how many."""
    others = [path for path in sorted(script.parent.glob("*.py")) if path != script and path.is_file()]
    if len(others) > MOST_BESIDE or sum(path.stat().st_size for path in others) > MOST_BYTES:
        others = []
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (script, *others):
            shutil.copyfile(path, folder / path.name)
    return folder / script.name, len(others)
