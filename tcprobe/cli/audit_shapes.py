"""`tcprobe audit-shapes`: find badly sized layers and precision mistakes, without a GPU and without training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer import Option

from tcprobe.cli import options as o
from tcprobe.cli.app import Verb
from tcprobe.errors import UnreadableInput, UsageError
from tcprobe.visible import UNENCODABLE, hand_over, say

if TYPE_CHECKING:
    from tcprobe.flows.audit.flow import AuditOutcome
    from tcprobe.flows.audit.options import AuditOptions, Baseline
    from tcprobe.schema.model import InputShape

ARGV: Final = "tcprobe.argv"
TYPED: Final = "tcprobe.typed"
HEADINGS: Final = {
    "files": "Arguments",
    "exclude": "What to audit",
    "target_gpu": "What to predict for",
    "select": "What counts",
    "diff": "What to do with it",
    "help": "Help",
}
"""Parameters of the verb, in their order, above which the help has a heading."""
EXAMPLES: Final = (
    ("tcprobe audit-shapes model.py", "Trace the models of a file."),
    ("tcprobe audit-shapes model.py:make --arg units=64", "The model that make(units=64) returns."),
    ("tcprobe audit-shapes --run train.py -- --epochs 1", "A script: the training steps of all its models."),
    ("tcprobe audit-shapes --mode source src/", "A folder, nothing executed."),
    ("tcprobe audit-shapes model.py --dtype float16 --target-gpu h100-sxm", "What float16 would cost there."),
)
Format = Literal["text", "json", "csv", "markdown", "html", "sarif", "github", "junit"]


class Command(Verb):
    """Keeps the words after ``--`` separate if --run is given: they are the script's arguments, not files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = tuple(args)
        mark = args.index("--") if "--" in args else len(args)
        if "--run" in args[:mark]:
            ctx.meta[ARGV] = args[mark + 1 :]
            args = args[:mark]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in groups instead of click's single list."""
        groups: list[tuple[str, list[Any]]] = []
        for param in self.get_params(ctx):
            if param.name in HEADINGS:
                groups.append((HEADINGS[param.name], []))
            groups[-1][1].append(param.get_help_record(ctx))
        for title, records in groups:
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """Write the examples, one per line."""
        with formatter.section("Examples"):
            formatter.write_dl(EXAMPLES)


FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...",
        show_default=False,
        help="Python files, notebooks, folders, model.py:factory, or - for standard input. With --run: one script.",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    Option(metavar="PATTERN", help="Leave out these files and folders in the given folders; may be repeated."),
]
ForceExcludeOption = Annotated[
    bool, Option("--force-exclude", help="Leave them out where they are named, too, as by pre-commit.")
]
StdinFilenameOption = Annotated[
    str | None, Option(metavar="NAME", help="Name of what - reads, for findings and settings.")
]
ModeOption = Annotated[
    Literal["auto", "traced", "source"] | None,
    Option(
        envvar="TCPROBE_MODE",
        help="traced runs the file on the CPU, source only reads it. Default: auto, traced for one file where "
        "TensorFlow is installed, else source.",
    ),
]
RunOption = Annotated[
    bool,
    Option(
        "--run",
        help="Execute the script, though no step of it (--mode source: read it); its arguments stand after --.",
    ),
]
ArgOption = Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="Argument of the factory; may be repeated.")]
BatchSizeOption = Annotated[
    int | None,
    Option(
        min=1,
        metavar="N",
        help="Samples of a step where the model does not say. Default: per 1,024 samples.",
    ),
]
InputShapeOption = Annotated[
    list[str] | None,
    Option(
        metavar="[NAME=]SIZES",
        help="Sizes of one sample (224,224,3) where the code leaves a model's input open; may be repeated.",
    ),
]
FirstStepOption = Annotated[
    bool,
    Option(
        "--first-step",
        help="Stop a traced file at its first training step. Default: go on to its other models, 60 s at most.",
    ),
]
TimeoutOption = Annotated[float, Option(min=1.0, metavar="SECONDS", help="Longest time to trace one file.")]
PythonOption = Annotated[
    str | None,
    Option(metavar="PATH", envvar="TCPROBE_PYTHON", help="Interpreter that traces. Default: tcprobe's own."),
]
TargetGpuOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        autocompletion=o.gpus,
        help="GPU to predict for; `tcprobe explain gpus` lists them. Default: a100-sxm-40.",
    ),
]
DtypeOption = Annotated[
    Literal["float32", "tf32", "float16", "bfloat16", "float8"] | None,
    Option(help="Arithmetic to predict for; float32 is without TF32. Default: the model's."),
]
LibraryOption = Annotated[
    Literal["cublas10", "cublas11", "cublas12"] | None,
    Option(help="cuBLAS on that GPU, with the cuDNN of its time. Default: cublas12."),
]
XlaOption = Annotated[
    bool | None,
    Option(
        "--xla/--no-xla", help="Predict with XLA, or without. Default: as the model is compiled, else as Keras 3 does."
    ),
]
SelectOption = Annotated[
    list[str] | None,
    Option(
        metavar="CODES",
        autocompletion=o.rules,
        help="Only these rules: codes or prefixes (TC1,TC204); may be repeated.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    Option(
        metavar="CODES",
        autocompletion=o.rules,
        help="None of these rules; the longer prefix wins over --select.",
    ),
]
BaselineOption = Annotated[
    str | None,
    Option(metavar="FILE", help="Known findings: counted, but not told again, and none fails."),
]
WriteBaselineOption = Annotated[
    bool, Option("--write-baseline", help="Write what is found now to the file of --baseline; exit code 0.")
]
FailOnOption = Annotated[
    Literal["error", "warning", "note", "never"] | None,
    Option(help="Least severity that makes exit code 1. Default: warning."),
]
FailOverOption = Annotated[
    str | None,
    Option(metavar="PERCENT", help="Exit code 1 too where all suggestions for a model save more of its step (5%)."),
]
ExitZeroOption = Annotated[
    bool, Option("--exit-zero", help="Exit code 0 whatever is found; 2 where a file cannot be audited.")
]
AllowUnjudgedOption = Annotated[
    bool,
    Option(
        "--allow-unjudged",
        help="No exit code 2 for a named file with layers of which none can be judged (PyTorch, unknown sizes).",
    ),
]
DiffOption = Annotated[bool, Option("--diff", help="Show what --fix would change; exit code 1 where it would.")]
FixOption = Annotated[bool, Option("--fix", help="Mend the files; of new sizes, old checkpoints no longer fit.")]
FormatOption = Annotated[
    Format | None,
    Option(envvar="TCPROBE_FORMAT", help="Output format. Default: by the ending of -o, else text."),
]
OutputOption = Annotated[
    str | None,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file (.txt, .json, .csv, .md, .html, .sarif, .xml); - is standard output.",
    ),
]
VerboseOption = Annotated[
    bool, Option("--verbose", "-v", help="List each note, what could not be judged, and what comments silence.")
]


def audit_shapes(
    ctx: typer.Context,
    files: FilesArgument = None,
    exclude: ExcludeOption = None,
    force_exclude: ForceExcludeOption = False,
    stdin_filename: StdinFilenameOption = None,
    mode: ModeOption = None,
    run: RunOption = False,
    arg: ArgOption = None,
    batch_size: BatchSizeOption = None,
    input_shape: InputShapeOption = None,
    first_step: FirstStepOption = False,
    timeout: TimeoutOption = 300.0,
    python: PythonOption = None,
    target_gpu: TargetGpuOption = None,
    dtype: DtypeOption = None,
    library: LibraryOption = None,
    xla: XlaOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = False,
    fail_on: FailOnOption = None,
    fail_over: FailOverOption = None,
    exit_zero: ExitZeroOption = False,
    allow_unjudged: AllowUnjudgedOption = False,
    diff: DiffOption = False,
    fix: FixOption = False,
    format: FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: OutputOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    width: o.WidthOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Find badly sized layers and precision mistakes of a Keras model: the line, the cost on a GPU, and the fix.

    Needs no GPU and trains nothing. Sizes are traced by running the file on the CPU (needs TensorFlow), or read from
    its source alone. Exit code 1 where there is an error or warning, 2 where a file or option cannot be used,
    or a named file holds layers of which none could be judged.
    """
    given = locals()
    with o.document(ctx, "audit", format, output, force, o.render_spec(width, safe_csv)) as out:
        wanted = _options(ctx, given)
        if diff:
            refused = fix or format is not None or output is not None or write_baseline
            _refuse(refused, "--diff stands alone", "leave --fix, --write-baseline, -o, --format out")
            raise typer.Exit(_show_diff(wanted))
        outcome = _outcome(wanted, fix)
        _show(outcome, out, ctx.meta.get(TYPED, ()), verbose, of_fixed_text=fix and wanted.stdin is not None)
        if write_baseline and outcome.choice.known:
            _write_baseline(outcome, outcome.choice.known)
    raise typer.Exit(outcome.exit_code)


def _options(ctx: typer.Context, given: dict[str, Any]) -> AuditOptions:
    """Return what was asked for; most parameters are fields of the same name."""
    from tcprobe.audit.settings import codes
    from tcprobe.flows.audit.options import AuditOptions

    made = {name: given[name] for name in AuditOptions.__struct_fields__ if name in given}
    made |= {name: codes(",".join(given[name] or ())) for name in ("select", "ignore")}
    return AuditOptions(
        **made
        | {
            "files": tuple(given["files"] or ()),
            "argv": tuple(ctx.meta.get(ARGV, ())),
            "args": _arguments(given["arg"] or []),
            "input_shapes": _input_shapes(given["input_shape"] or []),
            "timeout_s": given["timeout"],
            "fail_over": _percentage(given["fail_over"]),
            "exclude": tuple(given["exclude"]) if given["exclude"] else None,
            "stdin": _standard_input(given["files"]),
            "stdin_name": given["stdin_filename"],
        }
    )


def _standard_input(files: list[str] | None) -> bytes | None:
    if files != ["-"]:
        return None
    from tcprobe.foreign import size_text
    from tcprobe.source.imports import MOST_BYTES

    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableInput("standard input", f"cannot be read: {error.strerror}", "is it closed?") from error
    _refuse(
        len(content) > MOST_BYTES, f"standard input holds more than {size_text(MOST_BYTES)}", "is it Python source?"
    )
    return content


def _write_baseline(outcome: AuditOutcome, baseline: Baseline) -> None:
    """Write the baseline and exit as where nothing is new: 0, or 2 where a file could not be audited."""
    from tcprobe.flows.audit.flow import write_baseline

    count = write_baseline(outcome, baseline)
    say(f"wrote {baseline.file}: known findings at {count:,} place{'' if count == 1 else 's'}")
    raise typer.Exit(2 if outcome.report.failed else 0)


def _refuse(refused: bool, message: str, hint: str) -> None:
    if refused:
        raise UsageError(message, hint)


def _arguments(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        _refuse(not (equals and name.isidentifier()), f"--arg {name}{equals}: expected NAME=VALUE", "--arg units=64")
    return {name: value for name, _, value in pairs}


def _input_shapes(given: list[str]) -> tuple[InputShape, ...]:
    from tcprobe.audit.settings import input_shapes

    try:
        return input_shapes(given)
    except ValueError:
        raise UsageError(
            f"--input-shape {' '.join(given)}: expected sizes from 1 with commas", "--input-shape 224,224,3"
        ) from None


def _percentage(text: str | None) -> float | None:
    from tcprobe.audit.settings import percentage

    try:
        return None if text is None else percentage(text)
    except ValueError:
        raise UsageError(f"--fail-over {text}: expected percent from 0 to 100", "--fail-over 5%") from None


def _say_failed(outcome: AuditOutcome) -> None:
    for file, reason in outcome.report.failed:
        say(f"error: {file}: {reason.removeprefix(f'{file}: ')}")


def _outcome(wanted: AuditOptions, fix: bool) -> AuditOutcome:
    if fix and wanted.stdin is not None:
        from tcprobe.flows.audit.fix import fixed_input

        outcome, content = fixed_input(wanted, say)
        hand_over(content)
        return outcome
    if fix:
        from tcprobe.flows.audit.fix import fixed

        return fixed(wanted, say)
    from tcprobe.flows.audit.flow import audit

    return audit(wanted, say)


def _show(outcome: AuditOutcome, out: o.Output, typed: tuple[str, ...], verbose: bool, of_fixed_text: bool) -> None:
    """Write the report; that of text that was fixed, which takes standard output, to standard error."""
    from tcprobe.report import RenderSpec
    from tcprobe.report.audit.document import AuditDocument
    from tcprobe.report.document import ReportSpec

    brief = out.brief(verbose) and not of_fixed_text
    asked = ReportSpec(cwd=str(Path.cwd()), verbose=verbose, typed=typed, brief=brief, width=out.width, web=out.web)
    document = AuditDocument(outcome.report, asked)
    if of_fixed_text:
        out = o.Output(out.to, RenderSpec(out.spec.width, safe_csv=out.spec.safe_csv))
    out.write(document, sys.stderr if of_fixed_text else None)
    if out.to.path is not None or out.to.renderer.name != "text":
        _say_failed(outcome)


def _show_diff(wanted: AuditOptions) -> int:
    """Print what --fix would change; return 1 if anything, 2 if a file could not be audited."""
    from tcprobe.flows.audit.fix import diff_of, fixes_of, say_unfixable
    from tcprobe.flows.audit.flow import audit

    outcome = audit(wanted, say)
    text = diff_of(outcome)
    hand_over(text.encode(errors=UNENCODABLE))
    fixes = fixes_of(outcome)
    edits = {edit for fix in fixes for edit in fix.edits}
    remark = "" if all(fix.safe for fix in fixes) else " (changes the model: checkpoints no longer fit)"
    say(f"--fix would make {len(edits):,} edit{'' if len(edits) == 1 else 's'}{remark}" if text else "nothing to fix")
    say_unfixable(outcome, say)
    _say_failed(outcome)
    return 2 if outcome.report.failed else int(bool(text) and not wanted.exit_zero)
