"""`tcprobe doctor`: say whether this machine can record, and what to do where it cannot; and `tcprobe redact`."""

from __future__ import annotations

from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.visible import put

PathArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PROFILE",
        show_default=False,
        help="A profile as `tcprobe report` takes it: what it lacks. Default: this machine.",
    ),
]
ProfilerOption = Annotated[
    o.Profiler,
    typer.Option(envvar="TCPROBE_PROFILER", help="Profiler to judge for; auto is the one that `profile` would take."),
]

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", show_default=False, help="A run folder, or any folder or file.")
]
DeleteOption = Annotated[
    bool,
    typer.Option("--delete", help="Delete the files that cannot be cleaned, where their export to SQLite lies beside."),
]


def doctor(
    path: PathArgument = None,
    profiler: ProfilerOption = "auto",
    python: o.PythonOption = None,
    width: o.WidthOption = None,
) -> None:
    """Say what this machine lacks to record, and what to do; or what a profile lacks.

    Exits with 1 where a problem stops the profiler that `tcprobe profile` would take, or where the profile has no
    kernels.
    """
    with o.errors_as_json(o.chosen["json"]):
        problems = _machine(profiler, python, width) if path is None else _profile(path, width)
    raise typer.Exit(1 if problems else 0)


def redact(run: RunArgument, delete: DeleteOption = False) -> None:
    """Blank the environment of a run, and what it printed, in the files of Nsight Systems.

    SQLite files are cleaned, and reports of them stay the same; what cannot be cleaned is named. Exits with 1 where
    something is left.
    """
    with o.errors_as_json(o.chosen["json"]):
        from tcprobe.flows.redact import redact as clean
        from tcprobe.foreign import input_path
        from tcprobe.report.doctor import lines_of
        from tcprobe.schema.records import as_dict

        done = clean(input_path(run), delete)
        if o.chosen["json"]:
            o.put_json(**as_dict(done))
        else:
            put(*lines_of(done))
    raise typer.Exit(1 if done.left else 0)


def _machine(profiler: o.Profiler, python: str | None, width: int | None) -> int:
    from tcprobe.flows.doctor import diagnose
    from tcprobe.flows.profile import TITLES
    from tcprobe.report.doctor import data_of_checks, lines_of_checks

    made = diagnose(python, profiler)
    if o.chosen["json"]:
        o.put_json(profiler=made.profiler, problems=made.problems, checks=data_of_checks(made.profiler, made.checks))
    else:
        put(*lines_of_checks(made.profiler, TITLES[made.profiler], made.checks, o.text_width(width)))
    return made.problems


def _profile(path: str, width: int | None) -> int:
    from tcprobe.flows.doctor import lacks
    from tcprobe.foreign import input_path
    from tcprobe.report.run.lacks import lines_of_lacks
    from tcprobe.schema.records import as_dict

    found = lacks(input_path(path))
    problems = sum(lack.state == "problem" for lack in found)
    if o.chosen["json"]:
        o.put_json(path=path, problems=problems, checks=list(map(as_dict, found)))
    else:
        put(*lines_of_lacks(found, o.text_width(width)))
    return problems
