"""The parts of the reference that are made from the code: commands, errors, variables of options, GPUs."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Final

import typer.main

from tcprobe.api.profile import NoTable
from tcprobe.cli.app import application
from tcprobe.flows.explain import ERRORS
from tcprobe.hardware import GIB, Gpu, load_gpus

COMMAND: Final[Any] = typer.main.get_command(application())
OF_EVERY_VERB: Final = frozenset(param.help for param in COMMAND.commands["workloads"].params)
"""What is said of the options that every verb has: `tcprobe workloads` has no others."""
BLANK: Final = "\n\n"
PEAKS: Final = ("float32", "tf32", "float16", "bfloat16", "float8", "int8")


def commands() -> str:
    """Return a section for each verb: what it does, how it is called, its arguments and options."""
    return "\n".join(map(_verb, COMMAND.commands.values()))


def _verb(verb: Any) -> str:
    context = COMMAND.context_class(verb, info_name=f"tcprobe {verb.name}")
    usage = " ".join([context.command_path, *verb.collect_usage_pieces(context)])
    first, _, rest = (verb.help or "").partition("\n\n")
    rows = [f"| {_called(p)} | {_meaning(p)} |" for p in verb.params if p.help not in OF_EVERY_VERB]
    table = ["| option | meaning |", "|---|---|", *rows] if rows else []
    about = [*map(_prose, filter(None, rest.split("\n\n"))), f"More: [{verb.name}]({verb.name}.md)."]
    return "\n\n".join(
        [f"## tcprobe {verb.name}\n{_prose(first)}", f"```\n{usage}\n```", *about, "\n".join([*table, ""])]
    )


def _called(param: Any) -> str:
    """Return how a parameter is typed: its names, the long one with its values."""
    if param.param_type_name == "argument":
        return _cell(f"`{param.metavar}`")
    *short, long = sorted([*param.opts, *param.secondary_opts], key=lambda name: name.startswith("--"))
    values = [*(getattr(param.type, "choices", ()) or filter(None, [param.metavar]))] or ["N"] * (not param.is_flag)
    return _cell(", ".join(f"`{word}`" for word in (*short, " ".join([long, *values[:1]]), *values[1:])))


def _meaning(param: Any) -> str:
    default = None if param.default in (None, "", False) or "Default:" in param.help else param.default
    said = [param.help, *([f"Default: {default:g}."] if isinstance(default, float) else [])]
    said += [f"Default: {default}."] if default is not None and not isinstance(default, float) else []
    return _prose(" ".join(said)) + (f" `{param.envvar}`" if param.envvar else "")


def variables() -> str:
    """Return the variables that several verbs share: which option they set, and of which verbs."""
    shared = sorted(
        (param.envvar, max(param.opts, key=len), verb)
        for verb, command in COMMAND.commands.items()
        for param in command.params
        if param.envvar
    )
    rows = [
        f"| `{name}` | `{option}` | {', '.join(f'[{verb}](commands.md#tcprobe-{verb})' for *_, verb in every)} |"
        for (name, option), every in groupby(shared, key=lambda row: row[:2])
    ]
    return "\n".join(["| variable | option | verbs |", "|---|---|---|", *rows, ""])


def errors() -> str:
    """Return the table of the codes of errors."""
    every = (*ERRORS, NoTable)  # the last one is of the Python API alone
    rows = (f"| {e.code} | {_prose((e.__doc__ or '').partition(BLANK)[0])} |" for e in every)
    return "\n".join(["| code | meaning |", "|---|---|", *rows, ""])


def gpus() -> str:
    """Return a table of GPUs for each generation, in the order of the file."""
    return "\n".join(_generation(name, list(every)) for name, every in groupby(load_gpus(), key=lambda gpu: gpu.arch))


def _generation(name: str, every: list[Gpu]) -> str:
    head = f"| id | name | CC | TC | SMs | GB | GB/s | {' | '.join(PEAKS)} | evidence |"
    line = f"|---|---|---{'|--:' * (len(PEAKS) + 4)}|---|"
    return "\n".join([f"## {name.capitalize()}", head, line, *map(_gpu, every), ""])


def _gpu(gpu: Gpu) -> str:
    capability = ".".join(map(str, gpu.compute_capability))
    memory, bandwidth = "/".join(f"{size / GIB:g}" for size in gpu.memory_variants), gpu.bandwidth_bytes_per_s / 1e9
    peaks = (f"{peak / 1e12:g}" if (peak := gpu.peak_flop_per_s(dtype)) else "" for dtype in PEAKS)
    cells = (f"`{gpu.id}`", gpu.name, capability, "yes" if gpu.tensor_cores else "no", f"{gpu.sm}", memory)
    return f"| {' | '.join([*cells, f'{bandwidth:g}', *peaks, gpu.evidence])} |"


def _prose(text: str) -> str:
    """Return a text of the code in one line of Markdown, its stars and bars as they are."""
    return _cell(re.sub(r"([*<])", r"\\\1", " ".join(text.replace("``", "`").split())))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
