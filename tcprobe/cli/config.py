"""Where the values of a verb's options are from: the command line, the environment, pyproject.toml."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tcprobe.cli.options import chosen, put_json
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.visible import put

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
