"""`tcprobe explain`: show what a rule, a column or an error means, or list the GPUs to predict for."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tcprobe.cli import options as o
from tcprobe.cli.completion import words_of_explain
from tcprobe.visible import put


def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WORD",
            show_default=False,
            help="Code or name of a rule, code of an error, column or table of a report, gpus, or agent. Default: list "
            "the rules.",
            autocompletion=words_of_explain,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the parameter's name is the option's
        Literal["text", "markdown"], typer.Option(help="Output format.")
    ] = "text",
    width: o.WidthOption = None,
) -> None:
    """Explain a rule of `tcprobe audit-shapes`, advice, a column or a table of `tcprobe report`, or an error's code."""
    from tcprobe.flows.explain import explained, explanation

    if o.chosen["json"]:
        with o.errors_as_json(True):
            o.put_json(**explained(what))
        return
    put(*explanation(what, format, o.text_width(width)).splitlines())
