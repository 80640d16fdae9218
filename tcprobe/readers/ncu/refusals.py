"""Say why a file holds no launch of Nsight Compute's, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, InputError, WrongFormat
from tcprobe.foreign import head

REPORT: Final = b"NVR\0"  # the first bytes of an .ncu-rep
NOT_ALLOWED: Final = "ERR_NVGPUCTRPERM"
_NOT_PROFILED: Final = "No kernels were profiled"
_ALLOW: Final = (
    "run ncu as root or with CAP_SYS_ADMIN, or set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia kernel module"
)
_FILTERS: Final = (
    "check that the program launches kernels, and ncu's filters; programs that it starts need --target-processes all"
)


def no_launches(path: Path, said: Sequence[str]) -> InputError:
    """Return why there is none: another format, or an error or warning among what ncu `said`."""
    start = head(path, len(REPORT)) or b""
    if start == REPORT:
        export = f"export it: ncu --import {path.name} --csv --page raw > {path.stem}.csv"
        return WrongFormat(path, "is Nsight Compute's own report, which only ncu reads", export)
    if not start:
        return EmptyInput(path, "holds nothing", "record again, and wait until ncu has ended")
    if any(NOT_ALLOWED in line for line in said):
        return EmptyInput(path, f"holds no launch: ncu was not allowed to read the counters ({NOT_ALLOWED})", _ALLOW)
    if said:
        found = f"holds no launch: ncu says '{said[0][:200]}'"
        return EmptyInput(path, found, _FILTERS if _NOT_PROFILED in said[0] else "mend that, and record again")
    return EmptyInput(path, "holds no launch that Nsight Compute profiled", "give it what ncu --csv --page raw prints")
