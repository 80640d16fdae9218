"""What every verb has besides its own options: defaults of the environment and pyproject.toml, --json, --color, and
--show-config, which says where each value is from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand

from tcprobe.cli import options as o
from tcprobe.cli.progress import long_work
from tcprobe.errors import UsageError
from tcprobe.progress import now

CONFIG: Final = "tcprobe.config"
JSON: Final = "tcprobe.json"
DOCUMENTS: Final = {"safe_csv", "report_file"}
"""Parameters of verbs that write a document."""
_NO_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)\.", re.DOTALL)  # Click's words: it has no other form


class Verb(TyperCommand):
    """A verb of the command line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if getattr(param, "envvar", None) is None:  # those of one verb alone are told once, for all
                param.show_envvar = False  # type: ignore[attr-defined]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of a command line, its defaults those of environment and pyproject.toml."""
        from tcprobe.cli.config import defaults, variable

        for param in self.params:
            own = variable(self, param)
            if getattr(param, "envvar", None) and os.environ.get(own):
                param.envvar = own  # what is set for this verb alone goes first
        extra.setdefault("auto_envvar_prefix", variable(self))
        with o.errors_as_json(o.wants_json(args)):
            extra.setdefault("default_map", defaults(self))
            return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; an error about a value says where that is from, and what was meant."""
        with _explained(ctx):
            left = super().parse_args(ctx, args)
        source = ctx.get_parameter_source("format")
        if ctx.meta.get(JSON) and source is not None:
            if source.name == "COMMANDLINE" and ctx.params["format"] != "json":
                raise UsageError("--json and --format say different things", "leave one of them out")
            ctx.params["format"] = "json"
            ctx.set_parameter_source("format", ctx.get_parameter_source("json"))
        return left

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, or show its settings."""
        if not ctx.meta.get(CONFIG):
            now.show = long_work
            return super().invoke(ctx)
        from tcprobe.cli.config import show

        return show(ctx, bool(ctx.meta.get(JSON) or ctx.params.get("json")))


@contextmanager
def _explained(ctx: Any) -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        from tcprobe.cli.config import origin

        if unlike := _NO_CHOICE.search(error.format_message()):
            near = get_close_matches(unlike[1], re.findall(r"'([^']*)'", unlike[2]), n=1)
            error.message += f" Did you mean {near[0]}?" if near else ""
        if error.param is not None:
            error.param.show_envvar = False  # type: ignore[attr-defined] # else told of what was typed too
            where = origin(ctx, error.param)
            error.message += f" It is set by {where}." if where else ""
        raise


def _color(value: str) -> str:
    o.chosen["color"] = value
    return value


def _show_config(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[CONFIG] = value
    return value


def _json(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[JSON] = o.chosen["json"] = value
    return value


def _open(value: bool) -> bool:
    o.chosen["open"] = value
    return value


def _options_of_all(
    color: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(callback=_color, help="Colours in text; auto: on a terminal, as NO_COLOR and FORCE_COLOR say."),
    ] = "auto",
    json: Annotated[
        bool, typer.Option("--json", callback=_json, help="The result as JSON on standard output, an error as well.")
    ] = False,
    show_config: Annotated[
        bool,
        typer.Option(
            "--show-config",
            callback=_show_config,
            help="Show the value of each option and where it is from, and do nothing else.",
        ),
    ] = False,
    open: Annotated[  # noqa: A002 - the parameter's name is the option's
        bool, typer.Option("--open", callback=_open, help="Open what -o writes, in the system's viewer or browser.")
    ] = False,
) -> None:
    """Have the options of every verb; `open` is for those that write a document with -o."""


def with_options_of_all(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb with the options of every verb besides its own."""
    own = signature(verb, eval_str=True)
    given = {*own.parameters, *(() if DOCUMENTS & own.parameters.keys() else ("open",))}
    more = [p for p in signature(_options_of_all, eval_str=True).parameters.values() if p.name not in given]

    @wraps(verb)
    def run(**given: Any) -> None:
        verb(**{name: value for name, value in given.items() if name in own.parameters})

    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    return run
