"""`tcprobe explain`: what a rule, a column or an error means, or the GPUs to predict for; and `tcprobe workloads`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tcprobe.cli import options as o
from tcprobe.cli.options import words_of_explain
from tcprobe.visible import put


def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WORD",
            show_default=False,
            help="Code or name of a rule, code of an error, column or table of a report, a kernel, gpus, or agent. "
            "Default: list the rules.",
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


def workloads() -> None:
    """List the workloads that come with tcprobe; `tcprobe profile NAME` runs one."""
    from tcprobe.flows.workloads import packaged_workloads

    found = packaged_workloads()
    if o.chosen["json"]:
        o.put_json(workloads=[{"name": w.name, "description": w.description, "path": str(w.path)} for w in found])
        return
    widest = max((len(w.name) for w in found), default=0)
    put(*(f"{workload.name.ljust(widest)}  {workload.description}" for workload in found))
