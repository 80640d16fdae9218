"""`tcprobe doctor`: say whether this machine can record a profile, and what to do where it cannot."""

from __future__ import annotations

from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.visible import put

ProfilerOption = Annotated[
    o.Profiler,
    typer.Option(envvar="TCPROBE_PROFILER", help="Profiler to judge for; auto is the one that `profile` would take."),
]


def doctor(profiler: ProfilerOption = "auto", python: o.PythonOption = None, width: o.WidthOption = None) -> None:
    """Check GPU, driver, frameworks and profilers, and say what to do where a recording would fail.

    Exits with 1 where a problem stops the profiler that `tcprobe profile` would take.
    """
    with o.errors_as_json(o.chosen["json"]):
        from tcprobe.flows.doctor import diagnose
        from tcprobe.flows.profile import TITLES
        from tcprobe.report.doctor import data_of_checks, lines_of_checks

        made = diagnose(python, profiler)
        if o.chosen["json"]:
            o.put_json(
                profiler=made.profiler, problems=made.problems, checks=data_of_checks(made.profiler, made.checks)
            )
        else:
            put(*lines_of_checks(made.profiler, TITLES[made.profiler], made.checks, o.text_width(width)))
    raise typer.Exit(1 if made.problems else 0)
