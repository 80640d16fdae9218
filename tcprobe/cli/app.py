"""The typer application: global options, and the list of verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tcprobe import __version__
from tcprobe.errors import Interrupted
from tcprobe.visible import put, visible

VERBS: Final = ("profile", "report", "compare", "audit-shapes", "find-key-node", "calibrate", "explain", "workloads")
"""The verbs in the order of the help, each a function in a module of this package."""
RUNS_WORKLOAD: Final = ("profile", "find-key-node")
WORDS_FOLLOW: Final = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of a verb that runs a workload: the words after that are its own."""
HELP: Final = ("-h", "--help")
"""As the first word: the help on all verbs, which needs nothing of a verb but its description."""
UsageError: Final[Any] = typer.BadParameter.__base__
"""What typer raises where it cannot make sense of the command line; its module is private."""


class _Verbs(TyperGroup):
    """Makes typer's own errors visible before it prints them (they quote what was typed); keeps Ctrl-C from it."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _own_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _own_errors():
            return super().invoke(ctx)


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.message = visible(error.message)
        raise
    except KeyboardInterrupt as error:
        raise Interrupted from error


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the application for a command line: with only the verb that it starts with, if any, else with all.

    Setting up the options of all verbs takes as long as a small audit, and the help on all of them shows none.
    """
    app = typer.Typer(
        name="tcprobe",
        cls=_Verbs,
        help="Say how well a training run uses the Tensor Cores, why not better, and what to change.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )
    app.callback()(_global)
    for verb in [verb for verb in VERBS if verb in arguments[:1]] or VERBS:
        name = verb.replace("-", "_")
        module = import_module(f"tcprobe.cli.{name}")
        settings = WORDS_FOLLOW if verb in RUNS_WORKLOAD else None
        function = (
            _without_options(getattr(module, name)) if arguments and arguments[0] in HELP else getattr(module, name)
        )
        app.command(verb, cls=getattr(module, "Command", None), context_settings=settings)(function)
    return app


def _without_options(verb: Callable[..., None]) -> Callable[[], None]:
    def described() -> None:
        pass

    described.__doc__ = verb.__doc__
    return described


def _version(wanted: bool) -> None:
    if wanted:
        put(f"tcprobe {__version__}")
        raise typer.Exit


def _global(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
