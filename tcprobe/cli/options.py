"""Options that several verbs share, and what verbs do with them: what the shell completes, where a document goes, and
how a failure is told.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TextIO

import typer
from typer import Option

from tcprobe.errors import TcprobeError, UsageError
from tcprobe.visible import hand_over, put, say, tell

if TYPE_CHECKING:
    from tcprobe.flows.write import Destination
    from tcprobe.report import DocumentKind, RenderSpec
    from tcprobe.report.document import Document
    from tcprobe.schema.comparison import Verdict


def gpus(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids of GPUs, each with its name."""
    from tcprobe.hardware import load_gpus

    return [(gpu.id, gpu.name) for gpu in load_gpus() if gpu.id.startswith(incomplete.lower())]


def rules(incomplete: str) -> list[tuple[str, str]]:
    """Return the codes of rules of an audit, each with its name."""
    return [(code, name) for code, name in _rules(incomplete) if not code.startswith("TC3")]


def words_of_explain(incomplete: str) -> list[tuple[str, str]]:
    """Return what `tcprobe explain` explains: rules, errors, tables."""
    from tcprobe.flows.explain import AGENT, ERRORS, GPUS
    from tcprobe.schema.tables import TABLES

    others = [
        (GPUS, "the GPUs to predict for"),
        (AGENT, "a page for assistants"),
        *((e.code, e.__name__) for e in ERRORS),
    ]
    others += [(table.name, table.row) for table in TABLES.values()]
    return [*_rules(incomplete), *(pair for pair in others if pair[0].lower().startswith(incomplete.lower()))]


def workloads(incomplete: str) -> list[tuple[str, str]]:
    """Return the workloads that come with tcprobe."""
    from tcprobe.flows.workloads import packaged_workloads

    return [(w.name, w.description) for w in packaged_workloads() if w.name.startswith(incomplete)]


def baselines(incomplete: str) -> list[tuple[str, str]]:
    """Return the baselines that are kept, each with its file."""
    from tcprobe.flows.baselines import baseline_files

    return [(file.stem, str(file)) for file in baseline_files() if file.stem.startswith(incomplete)]


def _rules(incomplete: str) -> list[tuple[str, str]]:
    from tcprobe.rules.registry import RULES, RUN_RULES

    return [(rule.code, rule.name) for rule in (*RULES, *RUN_RULES) if rule.code.startswith(incomplete.upper())]


Format = Literal["text", "csv", "json", "markdown", "html"]
FormatOption = Annotated[
    Format | None, Option(envvar="TCPROBE_FORMAT", help="Output format. Default: by the ending of -o, else text.")
]
OutputOption = Annotated[
    str | None,
    Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Write to a file (.txt, .csv, .json, .md, .html) or, as one CSV per table, to a folder; - is stdout.",
    ),
]
ForceOption = Annotated[bool, Option("--force", "-f", help="Replace files that exist.")]
TopOption = Annotated[
    int | None,
    Option(
        "--top",
        "-n",
        min=0,
        envvar="TCPROBE_TOP",
        help="Rows of each table; 0 shows all. Default: 10 in text and markdown, 500 in html, all in csv and json.",
    ),
]
FailIfOption = Annotated[
    list[str] | None,
    Option(
        metavar="COND",
        help="Exit with 1 where this holds: tc_kernel_time_pct<30; a sign asks of the change: step_time>+5%.",
    ),
]
AllowUnknownOption = Annotated[
    bool, Option("--allow-unknown", help="Exit with 0, not 2, where a --fail-if cannot be told.")
]
IterStartOption = Annotated[
    int | None, Option(min=0, metavar="N", help="First iteration to count. Default: after the warm-up.")
]
IterStopOption = Annotated[
    int | None, Option(min=0, metavar="N", help="Last iteration to count. Default: the last whole one.")
]
StepRangeOption = Annotated[
    str | None,
    Option(
        metavar="REGEX",
        help="Ranges (NVTX) whose names hold this are the steps. Default: those that the profile itself marks.",
    ),
]
TargetOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        autocompletion=gpus,
        help="GPU for which a run without one is judged. Default: the one of the run, else a100-sxm-40.",
    ),
]
SafeCsvOption = Annotated[
    bool, Option("--safe-csv", help="CSV for a spreadsheet: text is quoted, and never a formula.")
]
AllOption = Annotated[bool, Option("--all", help="Show every table below the first screen, as in a pipe or a file.")]
WidthOption = Annotated[
    int | None,
    Option(
        min=0,
        metavar="N",
        envvar="TCPROBE_WIDTH",
        help="Columns to fit the text in; 0 sets no limit. Default: the terminal's, no limit elsewhere.",
    ),
]

# of the verbs that run a workload
Profiler = Literal["auto", "tensorflow", "dlprof", "nsys", "ncu"]
DeviceOption = Annotated[
    str | None,
    Option(metavar="ID", envvar="TCPROBE_DEVICE", help="GPU to run on (CUDA_VISIBLE_DEVICES). Default: the first."),
]
PythonOption = Annotated[
    str | None,
    Option(metavar="PATH", envvar="TCPROBE_PYTHON", help="Interpreter that runs the workload. Default: tcprobe's own."),
]
LauncherOption = Annotated[
    str,
    Option(
        metavar="WORDS",
        envvar="TCPROBE_LAUNCHER",
        show_default=False,
        help="What stands before the command, as in 'singularity exec --nv image.simg'.",
    ),
]
ModeOption = Annotated[str | None, Option(metavar="MODE", help="DLProf: auto, simple, tensorflow1 or tensorflow2.")]
DelayOption = Annotated[float | None, Option(min=0, metavar="SECONDS", help="DLProf: begin to record that late.")]
DurationOption = Annotated[
    float | None, Option(min=0, metavar="SECONDS", help="DLProf: record that long and no longer.")
]


chosen: Final[dict[str, Any]] = {"color": "auto", "json": False, "open": False}
"""Values of the options that every verb has, once they are parsed."""


class Output(NamedTuple):
    """Where a verb's document goes, and how."""

    to: Destination
    spec: RenderSpec

    def write(self, document: Document, stdout: TextIO | None = None) -> None:
        """Write the document, open it if asked, and tell which files; `stdout` takes what would go there."""
        from tcprobe.flows.write import write_document

        files = write_document(document, self.spec, self.to, stdout)
        if chosen["open"] and files:
            _open(files[0] if len(files) == 1 else files[0].parent)
        if len(files) > 1:
            tell(f"Wrote {len(files)} tables to {files[0].parent}: {', '.join(f.name for f in files)}")
        elif files:
            tell(f"Wrote {files[0]}")

    @property
    def width(self) -> int | None:
        """Return the columns that the text has; None where nothing limits them."""
        return self.spec.width if self.to.path is None else None

    @property
    def web(self) -> bool:
        """Return whether it is a page for a browser."""
        return self.to.renderer.name == "html"

    def brief(self, every: bool) -> bool:
        """Return whether only the first screen is to stand on the terminal, and not `every` table."""
        return self.to.path is None and not every and sys.stdout.isatty()


@contextmanager
def document(
    ctx: typer.Context,
    kind: DocumentKind,
    format: str | None,  # noqa: A002 - the parameter's name is the option's
    output: str | None,
    force: bool,
    spec: RenderSpec,
) -> Iterator[Output]:
    """Provide where a verb's document goes by its options; a failure within is JSON where the document would be.

    TCPROBE_FORMAT applies to standard output, which has no file ending.
    """
    source = ctx.get_parameter_source("format")
    typed = source is not None and source.name == "COMMANDLINE"
    on_stdout = output in (None, "-")
    name = format if typed or on_stdout else None
    with errors_as_json(name == "json" and on_stdout):
        from tcprobe.flows.write import destination

        check_open(on_stdout)
        yield Output(destination(kind, name, output, force), spec)


def check_open(on_stdout: bool) -> None:
    """Refuse `--open` before any work where nothing could be opened.

    Raises:
        UsageError: no file is written, or no desktop or browser is there to show it.
    """
    if not chosen["open"]:
        return
    if on_stdout:
        raise UsageError("--open: nothing is written that could be opened", "name a file: -o report.md --open")
    if sys.platform == "linux" and not any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))):
        hint = "leave --open out, or set BROWSER to a program that shows files"
        raise UsageError("--open: there is no display here, and BROWSER is not set", hint)


def _open(path: Path) -> None:
    """Have the system's viewer show a file or folder."""
    import webbrowser

    from tcprobe.foreign import real_path

    if not webbrowser.open_new_tab(real_path(path).as_uri()):
        say(f"--open: no program here shows {path}")


@contextmanager
def judged(verdicts: Sequence[Verdict], names: Sequence[str], allow_unknown: bool = False) -> Iterator[None]:
    """Print a document within; then tell what became of the conditions, and exit with 1 or 2 where they say so.

    A reader who closes the pipe does not take the outcome away; a failure to write counts before it.

    Args:
        verdicts: of all conditions; nothing happens where there are none.
        names: of the runs; empty where there is one alone.
        allow_unknown: whether one that cannot be told passes.
    """
    try:
        yield
    except BrokenPipeError:
        if not verdicts:
            raise
    if not verdicts:
        return
    from tcprobe.flows.conditions import exit_code
    from tcprobe.report.compare.words import outcome

    for verdict in verdicts:
        say(f"--fail-if {outcome(verdict, names)}")
    if (code := exit_code(verdicts)) and not (code == 2 and allow_unknown):
        raise typer.Exit(code)


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
    if chosen["color"] != "auto":
        return bool(chosen["color"] == "always")
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def render_spec(width: int | None = None, safe_csv: bool = False) -> RenderSpec:
    """Return what standard output can show, for the options given."""
    from tcprobe.report import RenderSpec

    return RenderSpec(text_width(width), wants_color(), safe_csv)


@contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Also print a failure to standard output, as ``{"error": {...}}``, for programs that read JSON there."""
    try:
        yield
    except TcprobeError as error:
        if wanted:
            tell_as_json(error.code, error.message, error.hint)
        raise


def tell_as_json(code: str, message: str, hint: str | None = None) -> None:
    """Print a failure to standard output as JSON."""
    import json

    from tcprobe.masking import without_secrets

    told = {"message": without_secrets(message), "hint": hint and without_secrets(hint)}
    with suppress(TcprobeError, OSError):  # where it cannot be printed, standard error still has it
        hand_over(json.dumps({"error": {"code": code, **told}}).encode() + b"\n")


def wants_json(typed: Sequence[str]) -> bool:
    """Return whether words of a command line, which may make no sense, ask for JSON."""
    own = typed[: typed.index("--")] if "--" in typed else typed
    return "--json" in own or "--format=json" in own or ("--format", "json") in pairwise(own)


def put_json(**data: Any) -> None:
    """Print data to standard output, as documents are printed: which form they have, what wrote them, and the rest."""
    import json

    from tcprobe.report.document import data_of

    put(*json.dumps(data_of(data), indent=2, default=str, allow_nan=False).splitlines())
