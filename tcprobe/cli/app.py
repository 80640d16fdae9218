"""The typer application: the list of verbs, global options, and what every verb has besides its own options.

That is defaults of the environment and pyproject.toml, --json, --color, and --show-config, which says where each value
is from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from tcprobe import __version__
from tcprobe.cli import options as o
from tcprobe.cli.options import chosen, put_json
from tcprobe.cli.progress import long_work
from tcprobe.errors import Interrupted, TcprobeError, UsageError
from tcprobe.progress import now
from tcprobe.visible import put, visible

_NOT_KEPT: Final = ("help", "json", "show_config")
"""Options that a file has no say in."""


def variable(verb: Any, param: Any = None) -> str:
    """Return the variable of the environment that sets an option of a verb; without one, what they all begin with."""
    name = f"TCPROBE_{verb.name}{f'_{param.name}' if param is not None else ''}"
    return name.upper().replace("-", "_")


def defaults(verb: Any) -> dict[str, Any] | None:
    """Return what the nearest pyproject.toml sets of a verb's options, by parameter; None where it sets none.

    A file that is no TOML is told of by those that need it.

    Raises:
        UsageError: a key is no option of the verb, or has a value that no option can have; names file and key.
    """
    found = _table(verb.name)
    if found is None:
        return None
    file, table = found
    options = {_key(p): p for p in verb.params if p.param_type_name == "option" and p.name not in _NOT_KEPT}
    set_: dict[str, Any] = {}
    for key, value in table.items():
        if key not in options:
            near = get_close_matches(key, options, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(options)}"
            raise UsageError(f"{file}: tool.tcprobe.{verb.name} has no key {key!r}", hint)
        option = options[key]
        values = value if isinstance(value, list) and option.multiple else [value]
        if not all(isinstance(one, str | int | float) for one in values):
            raise UsageError(f"{file}: tool.tcprobe.{verb.name}.{key} = {value!r}: expected one value")
        set_[option.name] = values if option.multiple else value
    return set_


def _key(param: Any) -> str:
    return str(max(param.opts, key=len)).removeprefix("--")


def _table(verb: str) -> tuple[Path, dict[str, Any]] | None:
    try:
        here = Path.cwd()
    except OSError:  # the current folder is gone
        return None
    if not any(os.path.lexists(folder / "pyproject.toml") for folder in (here, *here.parents)):
        return None  # most have none, and start the sooner
    from tcprobe.audit.settings import table_of_verb

    try:
        return table_of_verb(here, verb)
    except UsageError:
        raise
    except TcprobeError:
        return None


def origin(ctx: Any, param: Any) -> str:
    """Return what set a parameter: a variable, or a key of a file; empty for the command line and defaults."""
    source = ctx.get_parameter_source(param.name)
    if source is None or source.name not in ("ENVIRONMENT", "DEFAULT_MAP"):
        return ""
    if source.name == "ENVIRONMENT":
        return param.envvar if isinstance(param.envvar, str) else variable(ctx.command, param)
    found = _table(ctx.command.name)
    return f"tool.tcprobe.{ctx.command.name}.{_key(param)} in {found[0]}" if found is not None else ""


def show(ctx: Any, as_json: bool) -> None:
    """Print each option of a verb, its value, and where that is from."""
    from tcprobe.masking import without_secrets

    of_file = _of_audits(ctx.command.name)
    rows = []
    for param in ctx.command.params:
        if param.param_type_name != "option" or param.name in _NOT_KEPT:
            continue
        source = ctx.get_parameter_source(param.name)
        typed = source is not None and source.name == "COMMANDLINE"
        value = ctx.params.get(param.name, chosen.get(param.name))
        where = "command line" if typed else origin(ctx, param)
        value = without_secrets(value) if isinstance(value, str) else value
        rows.append((_key(param), *((value, where) if where else of_file.get(param.name, (value, "default")))))
    if as_json:
        listed = [{"option": name, "value": value, "from": where} for name, value, where in rows]
        put_json(verb=ctx.command.name, options=listed)
        return
    widest = max(len(name) for name, _, _ in rows)
    put(*(f"{name:{widest}}  {_text(value)}  ({where})" for name, value, where in rows))


def _of_audits(verb: str) -> dict[str, tuple[Any, str]]:
    """Return what the keys of [tool.tcprobe] itself say, which are audits'; a file named later may have another."""
    if verb != "audit-shapes":
        return {}
    from tcprobe.audit.settings import find_settings

    settings = find_settings(Path())
    fields = {"input_shapes": "input_shape"}
    values = {fields.get(name, name): getattr(settings, name) for name in settings.__struct_fields__}
    return {n: (v, f"tool.tcprobe in {settings.file}") for n, v in values.items() if v not in (None, ())}


def _text(value: Any) -> str:
    if value is None or value in ("", [], ()):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


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

        return show(ctx, bool(ctx.meta.get(JSON) or ctx.params.get("json")))


@contextmanager
def _explained(ctx: Any) -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
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


VERBS: Final = (
    *("profile", "sweep", "report", "compare", "baseline", "audit-shapes", "find-key-node", "calibrate"),
    *("doctor", "explain", "redact", "reproduce", "workloads"),
)
"""The verbs in the order of the help, each a function in a module of this package."""
BESIDE: Final = {"baseline": "compare", "redact": "doctor", "reproduce": "report", "workloads": "explain"}
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
BadCommand: Final[Any] = typer.BadParameter.__base__
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
    except BadCommand as error:
        error.message = visible(error.message)
        if o.wants_json(typed):
            o.tell_as_json(UsageError.code, error.format_message())
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
