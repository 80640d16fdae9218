"""The typer application: global options, and the list of verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from tcprobe import __version__
from tcprobe.cli import audit_shapes, calibrate, explain, profile, report, workloads

app = typer.Typer(
    name="tcprobe",
    help="Say how well a training run uses the Tensor Cores, why not better, and what to change.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tcprobe {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for verb in (profile, report, audit_shapes, calibrate, explain, workloads):
    verb.register(app)
