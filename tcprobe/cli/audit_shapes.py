"""`tcprobe audit-shapes`: find badly sized layers and precision mistakes, without a GPU and without training."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import typer
from typer.core import TyperCommand

from tcprobe.cli import options as o
from tcprobe.cli.options import audit_shapes as a
from tcprobe.errors import UnreadableInput, UsageError
from tcprobe.visible import UNENCODABLE, hand_over, say

if TYPE_CHECKING:
    from tcprobe.flows.audit.baseline import Baseline
    from tcprobe.flows.audit.flow import AuditOutcome
    from tcprobe.flows.audit.options import AuditOptions
    from tcprobe.flows.write.destination import Destination
    from tcprobe.report.audit.spec import AuditSpec
    from tcprobe.report.base import RenderSpec
    from tcprobe.schema.model import InputShape

ARGV: Final = "tcprobe.argv"
TYPED: Final = "tcprobe.typed"


class _Command(TyperCommand):
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
        records = {p.name: r for p in self.get_params(ctx) if (r := p.get_help_record(ctx)) is not None}
        grouped = {name for _, names in a.GROUPS for name in names}
        rest = tuple(name for name in records if name not in grouped and name != "files")
        for title, names in (("Arguments", ("files",)), *a.GROUPS, ("Help", rest)):
            with formatter.section(title):
                formatter.write_dl([records[name] for name in names])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """Write the examples, one per line."""
        with formatter.section("Examples"):
            formatter.write_dl(a.EXAMPLES)


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("audit-shapes", cls=_Command)(audit_shapes)


def audit_shapes(
    ctx: typer.Context,
    files: a.FilesArgument = None,
    exclude: a.ExcludeOption = None,
    force_exclude: a.ForceExcludeOption = False,
    stdin_filename: a.StdinNameOption = None,
    mode: a.ModeOption = None,
    run: a.RunOption = False,
    arg: a.ArgOption = None,
    batch_size: a.BatchOption = None,
    input_shape: a.ShapeOption = None,
    dtype: a.DtypeOption = None,
    target_gpu: a.TargetOption = None,
    library: a.LibraryOption = None,
    xla: a.XlaOption = None,
    timeout: a.TimeoutOption = 300.0,
    first_step: a.FirstStepOption = False,
    python: a.PythonOption = None,
    select: a.SelectOption = None,
    ignore: a.IgnoreOption = None,
    baseline: a.BaselineOption = None,
    write_baseline: a.WriteBaselineOption = False,
    fail_on: a.FailOnOption = None,
    fail_over: a.FailOverOption = None,
    exit_zero: a.ExitZeroOption = False,
    allow_unjudged: a.AllowOption = False,
    format: a.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: a.OutputOption = None,
    force: o.ForceOption = False,
    fix: a.FixOption = False,
    diff: a.DiffOption = False,
    safe_csv: o.SafeCsvOption = False,
    width: o.WidthOption = None,
    verbose: a.VerboseOption = False,
) -> None:
    """Find badly sized layers and precision mistakes of a Keras model: the line, the cost on a GPU, and the fix.

    Needs no GPU and trains nothing. Sizes are traced by running the file on the CPU (needs TensorFlow), or read from
    its source alone. Exit code 1 where there is an error or warning, 2 where a file or option cannot be used,
    or a named file holds layers of which none could be judged.
    """
    chosen = _chosen(ctx, format, output)
    with o.errors_as_json(chosen == "json" and output in (None, "-")):
        from tcprobe.flows.audit.options import AuditOptions
        from tcprobe.flows.write.destination import destination

        to = destination("audit", chosen, output, force)
        wanted = AuditOptions(
            tuple(files or ()), mode, run, tuple(ctx.meta.get(ARGV, ())), _arguments(arg or []), batch_size,
            _input_shapes(input_shape or []), dtype, target_gpu, library, xla, timeout, python, _codes(select),
            _codes(ignore), fail_on, _percentage(fail_over), tuple(exclude) if exclude else None, force_exclude,
            _standard_input(files), stdin_filename, exit_zero, baseline, write_baseline, first_step, allow_unjudged,
        )  # fmt: skip
        if diff:
            raise typer.Exit(_show_diff(wanted, fix or format is not None or output is not None))
        outcome = _outcome(wanted, fix)
        _show(outcome, to, _spec(ctx, verbose), o.render_spec(width, safe_csv), _beside(wanted, fix))
        if write_baseline and outcome.choice.baseline:
            _write_baseline(outcome, outcome.choice.baseline)
    raise typer.Exit(outcome.exit_code)


def _chosen(ctx: typer.Context, format: str | None, output: str | None) -> str | None:  # noqa: A002
    """Return the format asked for; TCPROBE_FORMAT applies to standard output, which has no file ending."""
    source = ctx.get_parameter_source("format")
    typed = source is not None and source.name == "COMMANDLINE"
    return format if format and (typed or output in (None, "-")) else None


def _spec(ctx: typer.Context, verbose: bool) -> AuditSpec:
    from tcprobe.flows.explain import audit_docs
    from tcprobe.report.audit.spec import AuditSpec

    return AuditSpec(str(Path.cwd()), audit_docs(), verbose, ctx.meta.get(TYPED, ()))


def _beside(wanted: AuditOptions, fix: bool) -> TextIO | None:
    """Return where the report goes that has no file: standard error where the fixed text takes standard output."""
    return sys.stderr if fix and wanted.stdin is not None else None


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


def _codes(given: list[str] | None) -> tuple[str, ...]:
    from tcprobe.audit.settings import codes

    return codes(",".join(given or ()))


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


def _show(outcome: AuditOutcome, to: Destination, spec: AuditSpec, rendered: RenderSpec, out: TextIO | None) -> None:
    from tcprobe.flows.write.document import write_document
    from tcprobe.report.audit.document import AuditDocument

    shown = replace(rendered, color=rendered.color and out is None)
    for path in write_document(AuditDocument(outcome.report, spec), shown, to, out):
        say(f"wrote {path}")
    if to.path is not None or to.renderer.name != "text":
        _say_failed(outcome)


def _show_diff(wanted: AuditOptions, beside: bool) -> int:
    """Print what --fix would change; return 1 if anything, 2 if a file could not be audited."""
    refused = beside or wanted.write_baseline
    _refuse(refused, "--diff stands alone", "leave --fix, --write-baseline, -o, --format out")
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
