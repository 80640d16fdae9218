"""The capture with NVIDIA's Nsight Systems, for any script: starts the workload under it, and exports what it recorded.

The probe runs inside the workload where its interpreter can run it. It marks steps, phases and layers as NVTX ranges,
and begins and ends the recording by a range of its own: what follows the window of a long run is not recorded.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tcprobe.capture import environment
from tcprobe.capture.args import Further, Options, further
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.environment import NAMED_OPS
from tcprobe.capture.nsys import left
from tcprobe.capture.nsys.build import NSYS, Build, ask_build
from tcprobe.capture.probed import (
    Unprobed,
    install_probe,
    kept_by_profiler,
    other_processes,
    read_probe,
    unfinished,
    unwatched,
    why_no_probe,
    workload_below,
)
from tcprobe.capture.program import missing
from tcprobe.errors import writing
from tcprobe.probe.constants import DOMAIN, WINDOW_RANGE

NAME = "nsys"

OPTIONS: Final = Options(
    "--nsys-args",
    "`nsys profile`",
    "--cuda-memory-usage=true",
    {},
    {
        "--output": "its report must lie in the run folder",
        "--export": "the report is exported once the run has ended",
        "--command-file": "what it holds is not known; give its options here",
        "--session-new": "tcprobe profile runs a workload in a session of its own",
        "--session": "tcprobe profile runs a workload in a session of its own",
        "--start-later": "tcprobe profile waits for the recording",
        "--help": "run nsys by hand",
        "--version": "run nsys by hand",
    },
)
CHOOSE_WHEN: Final = frozenset(("--capture-range", "--nvtx-capture", "--capture-range-end", "--delay", "--duration"))
"""Options that decide what part of a run is recorded."""
ENDLESS: Final = 10**12
DISABLED: Final = "NVTX_DISABLE"  # the probe then marks nothing, and a recording that waits for its range never begins


def available(request: CaptureRequest) -> str | None:
    """Return None if there is an `nsys`, or a launcher that may lead to one; else the reason."""
    return missing(NSYS, request.launcher)


class _Plan(NamedTuple):
    """How one run is recorded: by which nsys, with which words of the user's, and why without the probe."""

    build: Build
    own: Further
    unprobed: Unprobed | None

    @property
    def windowed(self) -> bool:
        """Whether the recording begins and ends with the probe's range."""
        hears = not os.environ.get(DISABLED) and ("--trace" not in self.own.flags or "nvtx" in " ".join(self.own.words))
        return self.build.stops_alone and hears and not self.unprobed and not self.own.flags & CHOOSE_WHEN


def prepare(request: CaptureRequest) -> Launch:
    """Choose options that this build has and say how to start it.

    Raises:
        ToolError: Nsight Systems is missing or another program.
        UsageError: ``--nsys-args`` holds what is tcprobe's to set.
        OutputError: the run folder cannot be written.
    """
    build = ask_build(request.launcher)
    own = further(request.nsys.args, replace(OPTIONS, short=build.short))
    with writing(left.home(request.folder)):
        left.home(request.folder).mkdir(parents=True, exist_ok=True)
    plan = _Plan(build, own, why_no_probe(request))
    holds = environment.ask_interpreter(request.python, request.launcher)
    chosen = environment.variables(request.precision, request.xla, request.device, holds.tensorflow) | {NAMED_OPS: "1"}
    # A launcher may start with a clean environment (a container, ssh): `env` sets ours on its far side.
    inside = ("env", *(f"{name}={value}" for name, value in chosen.items())) if request.launcher else ()
    workload = _workload(plan, request)
    return Launch(
        argv=(*request.launcher, *inside, NSYS, "profile", *flags(plan, request), *workload),
        environment=chosen,
        workload=partial(workload_below, request.folder, workload),
        profiler_version=build.version,
        wraps=True,
        notes=(plan.unprobed.note,) if plan.unprobed else (),
        keeps=kept_by_profiler(plan.unprobed),
    )


def flags(plan: _Plan, request: CaptureRequest) -> tuple[str, ...]:
    """Return the options for this build: kernels, ranges and library calls, no sampling of the processor."""
    wanted = {
        "--trace": ",".join(plan.build.traces),
        "--sample": "none",
        "--cpuctxsw": "none",
        "--cuda-graph-trace": "node",  # else the kernels of a graph are one interval
    }
    if plan.windowed:
        wanted["--capture-range"] = "nvtx"
        wanted["--nvtx-capture"] = f"{WINDOW_RANGE}@{DOMAIN}"
        wanted["--capture-range-end"] = "stop"  # the default ends the workload
    given = {flag: value for flag, value in wanted.items() if flag in plan.build.flags and flag not in plan.own.flags}
    return (*(f"{flag}={value}" for flag, value in given.items()), *plan.own.words, f"--output={_output(request)}")


def _output(request: CaptureRequest) -> str:
    """Return the report's path without its ending; behind a launcher (mpirun) several processes may write one each."""
    folder = str(left.home(request.folder)).replace("%", "%%")
    return f"{folder}/{left.REPORT}-%h-%p" if request.launcher else f"{folder}/{left.REPORT}"


def _workload(plan: _Plan, request: CaptureRequest) -> tuple[str, ...]:
    if plan.unprobed:
        return unwatched(request, plan.unprobed)
    # How large the recording is cannot be told while it grows: steps and seconds alone end the window.
    orders = {"nvtx": True, "tool": True, "window_bytes": ENDLESS, "umask": request.umask}
    if not plan.windowed:
        orders |= {"window_steps": ENDLESS, "window_seconds": ENDLESS}
    return install_probe(request, profile=True, **orders)


def collect(request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:
    """Export what was recorded, look at what is in it, and say what is missing: the exit code says nothing of that."""
    probe = read_probe(request.folder)
    recorded = left.export(request.folder, request.launcher)
    code = _workload_code(probe, exit_code, bool(recorded.reports), died_of)
    notes = (
        *left.notes(recorded, probe, exit_code, request.iter_start),
        *other_processes(request.folder),
        *unfinished(probe, exit_code if code is None else code),
    )
    return Collected((*recorded.reports, *recorded.databases), notes, code)


def _workload_code(probe: dict[str, object], exit_code: int, reported: bool, died_of: int | None) -> int | None:
    """Return the workload's own exit code; None where it is not known.

    nsys ends with that, or with 128 + n where signal n ended the workload; with 1 where it could not start it; and
    with 0 or 130 where it was interrupted itself. A workload may die after its script has ended well.
    """
    own = probe.get("exit_code")
    if isinstance(own, int) and (own or exit_code < 128):
        return own
    if died_of is not None:
        return exit_code if exit_code > 128 else 128 + died_of  # nsys may tell of another that it died of later
    died = exit_code == 0 and probe.get("finished") is False
    return exit_code if (probe or reported) and not died else None
