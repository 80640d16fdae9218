"""The typer application: global options, and the list of verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tcprobe import __version__
from tcprobe.cli import options as o
from tcprobe.cli.command import Verb, with_options_of_all
from tcprobe.errors import Interrupted
from tcprobe.errors import UsageError as OurUsageError
from tcprobe.visible import put, visible

VERBS: Final = (
    *("profile", "sweep", "report", "compare", "baseline", "audit-shapes", "find-key-node", "calibrate"),
    *("doctor", "explain", "redact", "reproduce", "workloads"),
)
"""The verbs in the order of the help, each a function in a module of this package."""
BESIDE: Final = {"redact": "doctor", "reproduce": "report"}
"""A verb -> the module of another, in which it stands."""
RUNS_WORKLOAD: Final = ("profile", "sweep", "find-key-node")
WORDS_FOLLOW: Final = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of a verb that runs a workload: the words after that are its own."""
HELP: Final = ("-h", "--help")
"""As the first word: the help on all verbs, which needs nothing of a verb but its description."""
EPILOG: Final = (
    "Each option can be set as a variable of the environment (TCPROBE_REPORT_TOP for tcprobe report --top) or in "
    "pyproject.toml (top under [tool.tcprobe.report]); --show-config says what holds. --install-completion sets up "
    "the shell to complete names."
)
UsageError: Final[Any] = typer.BadParameter.__base__
"""What typer raises where it cannot make sense of the command line; its module is private."""


class _Verbs(TyperGroup):
    """Makes typer's own errors visible before it prints them (they quote what was typed); keeps Ctrl-C from it."""

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the first sentence of every verb whole, on as many lines as it takes."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(verb.help or "")) for name, verb in self.commands.items()])

    def format_epilog(self, _ctx: Any, formatter: Any) -> None:
        """Say what holds for the options of all verbs."""
        formatter.write_paragraph()
        formatter.write_text(EPILOG)

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **named: Any) -> Any:
        self._typed = tuple(args)
        with _own_errors(self._typed):
            return super().make_context(info_name, args, *more, **named)

    def invoke(self, ctx: Any) -> Any:
        with _own_errors(self._typed):
            return super().invoke(ctx)


def _first_sentence(text: str) -> str:
    return " ".join(text.partition(".\n")[0].partition("\n\n")[0].split()).removesuffix(".") + "."


@contextmanager
def _own_errors(typed: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.message = visible(error.message)
        if o.wants_json(typed):
            o.tell_as_json(OurUsageError.code, error.format_message())
        raise
    except KeyboardInterrupt as error:
        raise Interrupted from error


def words(typed: Sequence[str]) -> list[str]:
    """Return the words of a command line: where none is typed, those that ask for help."""
    return [*typed] or ([] if "_TCPROBE_COMPLETE" in os.environ else [HELP[1]])


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the application for a command line: with only the verb that it starts with, if any, else with all.

    Setting up the options of all verbs takes as long as a small audit, and the help on all of them shows none.
    """
    app = typer.Typer(
        name="tcprobe",
        cls=_Verbs,
        help="Say how well a training run uses the Tensor Cores, why not better, and what to change.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )
    app.callback()(_global)
    for verb in [verb for verb in VERBS if verb in arguments[:1]] or VERBS:
        name = verb.replace("-", "_")
        module = import_module(f"tcprobe.cli.{BESIDE.get(verb, name)}")
        settings = WORDS_FOLLOW if verb in RUNS_WORKLOAD else None
        if arguments and arguments[0] in HELP:
            app.command(verb)(_without_options(getattr(module, name)))
        else:
            function = with_options_of_all(getattr(module, name))
            app.command(verb, cls=getattr(module, "Command", Verb), context_settings=settings)(function)
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
