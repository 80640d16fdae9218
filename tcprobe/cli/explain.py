"""`tcprobe explain`: show what a rule of an audit or of a report means, or list the GPUs to predict for."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tcprobe.cli import options as o
from tcprobe.visible import put


def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE|gpus", show_default=False, help="Code or name of a rule, or gpus. Default: list the rules."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the parameter's name is the option's
        Literal["text", "markdown"], typer.Option(help="Output format.")
    ] = "text",
    width: o.WidthOption = None,
) -> None:
    """Explain a rule of `tcprobe audit-shapes`, or advice of `tcprobe report`, or list the GPUs of --target-gpu."""
    from tcprobe.flows.explain import explanation

    put(*explanation(what, format, o.text_width(width)).splitlines())
