"""`tcprobe find-key-node`: find an op or range that fires once in each step."""

from __future__ import annotations

from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.visible import say

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROFILE|WORKLOAD",
        show_default=False,
        help="A profile or run folder as `tcprobe report` takes it; or a workload, then its own arguments.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to a file (.txt, .csv, .json, .md, .html); - is standard output."
    ),
]
ProfilerOption = Annotated[
    o.Profiler,
    typer.Option(
        envvar="TCPROBE_PROFILER",
        help="How a workload is run: auto takes DLProf where there is one, else TensorFlow's own.",
    ),
]


def find_key_node(
    ctx: typer.Context,
    words: WordsArgument = None,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: OutputOption = None,
    top: o.TopOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    profiler: ProfilerOption = "auto",
    python: o.PythonOption = None,
    launcher: o.LauncherOption = "",
    device: o.DeviceOption = None,
    mode: o.ModeOption = None,
    delay: o.DelayOption = None,
    duration: o.DurationOption = None,
) -> None:
    """Find an op that runs once in each step, for DLProf's --key-node, or ranges that are steps.

    Options stand before PROFILE or WORKLOAD. A profile is searched as it is; a workload is run first, with DLProf
    for a minute where there is one, else with TensorFlow's profiler.
    """
    o.check_words(ctx, words)
    with o.document(ctx, "key_node", format, output, force, o.render_spec(width, safe_csv)) as out:
        from tcprobe.capture.base import DlprofOptions
        from tcprobe.flows.key_node import find_key_node as search
        from tcprobe.flows.profile import ProfileOptions
        from tcprobe.report.document import ReportSpec
        from tcprobe.report.key_node import KeyNodeDocument

        wanted = ProfileOptions(
            tuple(words or ()),
            profiler,
            device=device,
            python=python,
            launcher=o.split("--launcher", launcher),
            dlprof=DlprofOptions(mode=mode, delay_s=delay, duration_s=duration),
        )
        done = search(wanted, say)
        out.write(KeyNodeDocument(done.found, str(done.path), done.ran, ReportSpec(top)))
