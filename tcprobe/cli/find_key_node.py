"""`tcprobe find-key-node`: find an op or range that fires once in each step."""

from __future__ import annotations

import typer

from tcprobe.cli import options as o
from tcprobe.cli.options import profile as p
from tcprobe.visible import say


def register(app: typer.Typer) -> None:
    """Add the verb to the application; words after the workload are the workload's own."""
    app.command(
        "find-key-node",
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
        },
    )(find_key_node)


def find_key_node(
    ctx: typer.Context,
    words: p.ProfileOrWorkload = None,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: p.SearchOutputOption = None,
    top: o.TopOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    profiler: p.SearchProfilerOption = "auto",
    python: p.PythonOption = None,
    launcher: p.LauncherOption = "",
    device: p.DeviceOption = None,
    mode: p.ModeOption = None,
    delay: p.DelayOption = None,
    duration: p.DurationOption = None,
) -> None:
    """Find an op that runs once in each step, for DLProf's --key-node, or ranges that are steps.

    Options stand before PROFILE or WORKLOAD. A profile is searched as it is; a workload is run first, with DLProf
    for a minute where there is one, else with TensorFlow's profiler.
    """
    o.check_words(ctx, words)
    chosen = o.chosen_format(ctx, format, output)
    with o.errors_as_json(chosen == "json" and output in (None, "-")):
        from tcprobe.capture.base import DlprofOptions
        from tcprobe.flows.key_node import find_key_node as search
        from tcprobe.flows.profile import ProfileOptions
        from tcprobe.flows.write.destination import destination
        from tcprobe.flows.write.document import write_document
        from tcprobe.report.key_node.document import KeyNodeDocument

        to = destination("key_node", chosen, output, force)
        wanted = ProfileOptions(
            tuple(words or ()), profiler, device=device, python=python, launcher=o.split("--launcher", launcher),
            dlprof=DlprofOptions(None, mode, delay, duration),
        )  # fmt: skip
        done = search(wanted, say)
        document = KeyNodeDocument(done.found, str(done.path), done.ran, top)
        for path in write_document(document, o.render_spec(width, safe_csv), to):
            say(f"wrote {path}")
