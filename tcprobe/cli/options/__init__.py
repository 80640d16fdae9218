"""Options that several verbs share, and how the terminal affects output."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tcprobe.errors import TcprobeError, UsageError
from tcprobe.visible import hand_over

if TYPE_CHECKING:
    from tcprobe.report.base import RenderSpec


class Format(StrEnum):
    """An output format; the names are those of `tcprobe.report.FORMATS`."""

    text = "text"
    csv = "csv"
    json = "json"
    markdown = "markdown"


class By(StrEnum):
    """A table to show; the names are those of `tcprobe.report.run.views.BY`."""

    kernel = "kernel"
    op = "op"
    range = "range"
    layer = "layer"
    iteration = "iteration"
    device = "device"
    phase = "phase"
    gap = "gap"
    cause = "cause"
    advice = "advice"


class ComparedBy(StrEnum):
    """A table of a comparison; the names are those of `tcprobe.report.compare.spec.TABLE_OF`."""

    figure = "figure"
    layer = "layer"
    op = "op"
    kernel = "kernel"
    renamed = "renamed"
    loss = "loss"
    setting = "setting"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", envvar="TCPROBE_FORMAT", help="Output format. Default: by the ending of -o, else text."),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Write to a file (.txt, .csv, .json, .md) or, as one CSV per table, to a folder; - is standard output.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
TopOption = Annotated[
    int | None,
    typer.Option(
        "--top",
        "-n",
        min=0,
        envvar="TCPROBE_TOP",
        help="Rows of each table; 0 shows all. Default: 10 in text and markdown, all in csv and json.",
    ),
]
ByOption = Annotated[
    list[By] | None,
    typer.Option("--by", help="Show only this table below the headline; may be given several times."),
]
ComparedByOption = Annotated[
    list[ComparedBy] | None,
    typer.Option("--by", help="Show only this table below the answer; may be given several times."),
]
FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="COND",
        help="Exit with 1 where this holds: tc_kernel_time_pct<30; a sign asks of the change: step_time>+5%.",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="OTHER",
        help="Also say what changed from this run or profile; --fail-if step_time>+5% then is of that change.",
    ),
]
IterStartOption = Annotated[
    int | None,
    typer.Option("--iter-start", min=0, metavar="N", help="First iteration to count. Default: after the warm-up."),
]
IterStopOption = Annotated[
    int | None,
    typer.Option("--iter-stop", min=0, metavar="N", help="Last iteration to count. Default: the last whole one."),
]
StepRangeOption = Annotated[
    str | None,
    typer.Option(
        "--step-range",
        metavar="REGEX",
        help="Ranges (NVTX) whose names hold this are the steps. Default: those that the profile itself marks.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target-gpu",
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        help="GPU for which a run without one is judged. Default: the one of the run, else a100-sxm-40.",
    ),
]
SafeCsvOption = Annotated[
    bool,
    typer.Option("--safe-csv", help="CSV for a spreadsheet: text is quoted, and never a formula."),
]
WidthOption = Annotated[
    int | None,
    typer.Option(
        "--width",
        min=0,
        metavar="N",
        envvar="TCPROBE_WIDTH",
        help="Columns to fit the text in; 0 sets no limit. Default: the terminal's, no limit elsewhere.",
    ),
]


def chosen_format(ctx: typer.Context, format: Format | None, output: str | None) -> str | None:  # noqa: A002
    """Return the format asked for; TCPROBE_FORMAT applies to standard output, which has no file ending."""
    source = ctx.get_parameter_source("format")
    typed = source is not None and source.name == "COMMANDLINE"
    return format.value if format and (typed or output in (None, "-")) else None


def split(option: str, words: str) -> tuple[str, ...]:
    """Return the words of an option's value, as a shell takes them apart.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(words))
    except ValueError as error:
        raise UsageError(f"{option} {words!r}: {error}", "quote it as one would in a shell") from error


def names(ctx: typer.Context) -> list[str]:
    """Return every option of the verb, as typed."""
    return [
        name for option in ctx.command.params for name in (*option.opts, *option.secondary_opts) if name.startswith("-")
    ]


def check_words(ctx: typer.Context, words: Sequence[str] | None) -> None:
    """Refuse an unknown option in place of the workload.

    Raises:
        UsageError: names the option, and the one that it resembles.
    """
    first = words[0] if words else ""
    if not first.startswith("-") or first == "-m":
        return
    name = first.partition("=")[0]
    near = get_close_matches(name, names(ctx), n=1)
    hint = f"did you mean {near[0]}?" if near else f"tcprobe {ctx.command.name} --help lists them"
    raise UsageError(f"no such option: {name}", f"{hint} (options of the workload stand after its name)")


def text_width(asked: int | None) -> int | None:
    """Return the columns for text on standard output; None if unlimited."""
    if asked is not None:
        return asked or None
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wants_color() -> bool:
    """Return whether standard output takes colours: a terminal does unless NO_COLOR is set; FORCE_COLOR forces them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def render_spec(width: int | None = None, safe_csv: bool = False) -> RenderSpec:
    """Return what standard output can show, for the options given."""
    from tcprobe.report.base import RenderSpec

    return RenderSpec(text_width(width), wants_color(), safe_csv)


@contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Also print a failure to standard output, as ``{"error": {...}}``, for programs that read JSON there."""
    try:
        yield
    except TcprobeError as error:
        if wanted:
            from tcprobe.masking import without_secrets

            told = {"message": without_secrets(error.message), "hint": error.hint and without_secrets(error.hint)}
            with suppress(TcprobeError, OSError):  # where it cannot be printed, standard error still has it
                hand_over(json.dumps({"error": {"code": error.code, **told}}).encode() + b"\n")
        raise
