"""`tcprobe audit-shapes`: find badly sized layers and precision mistakes, without a GPU and without training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from tcprobe.cli import audit_shapes_options as a
from tcprobe.cli import options as o
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.flows.audit.flow import AuditOutcome
    from tcprobe.flows.audit.options import AuditOptions
    from tcprobe.flows.write.destination import Destination
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
    python: a.PythonOption = None,
    select: a.SelectOption = None,
    ignore: a.IgnoreOption = None,
    fail_on: a.FailOnOption = None,
    fail_over: a.FailOverOption = None,
    allow_unjudged: a.AllowOption = False,
    format: a.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: a.OutputOption = None,
    force: o.ForceOption = False,
    fix: a.FixOption = False,
    diff: a.DiffOption = False,
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
            _codes(ignore), fail_on, _percentage(fail_over), allow_unjudged,
        )  # fmt: skip
        if diff:
            _refuse(
                fix or format is not None or output is not None, "--diff stands alone", "leave --fix, -o, --format out"
            )
            raise typer.Exit(_show_diff(wanted))
        outcome = _outcome(wanted, fix)
        _show(outcome, to, verbose, width, ctx.meta.get(TYPED, ()))
    raise typer.Exit(outcome.exit_code)


def _chosen(ctx: typer.Context, format: str | None, output: str | None) -> str | None:  # noqa: A002
    """Return the format asked for; TCPROBE_FORMAT applies to standard output, which has no file ending."""
    source = ctx.get_parameter_source("format")
    typed = source is not None and source.name == "COMMANDLINE"
    return format if format and (typed or output in (None, "-")) else None


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


def _say(text: str) -> None:
    print(f"tcprobe: {text}", file=sys.stderr, flush=True)


def _say_failed(outcome: AuditOutcome) -> None:
    for file, reason in outcome.report.failed:
        _say(f"error: {file}: {reason.removeprefix(f'{file}: ')}")


def _outcome(wanted: AuditOptions, fix: bool) -> AuditOutcome:
    if fix:
        from tcprobe.flows.audit.fix import fixed

        return fixed(wanted, _say)
    from tcprobe.flows.audit.flow import audit

    return audit(wanted, _say)


def _show(outcome: AuditOutcome, to: Destination, verbose: bool, width: int | None, typed: tuple[str, ...]) -> None:
    from tcprobe.flows.explain import audit_docs
    from tcprobe.flows.write.document import write_document
    from tcprobe.report.audit.document import AuditDocument
    from tcprobe.report.audit.spec import AuditSpec
    from tcprobe.report.base import RenderSpec

    spec = AuditSpec(str(Path.cwd()), audit_docs(), verbose, typed)
    for path in write_document(
        AuditDocument(outcome.report, spec), RenderSpec(o.text_width(width), o.wants_color()), to
    ):
        _say(f"wrote {path}")
    if to.path is not None or to.renderer.name != "text":
        _say_failed(outcome)


def _show_diff(wanted: AuditOptions) -> int:
    """Print what --fix would change; return 1 if anything, 2 if a file could not be audited."""
    from tcprobe.flows.audit.fix import diff_of, fixes_of
    from tcprobe.flows.audit.flow import audit

    outcome = audit(wanted, _say)
    text = diff_of(outcome)
    sys.stdout.write(text)
    fixes = fixes_of(outcome)
    edits = {edit for fix in fixes for edit in fix.edits}
    remark = "" if all(fix.safe for fix in fixes) else " (changes the model: checkpoints no longer fit)"
    _say(f"--fix would make {len(edits):,} edit{'' if len(edits) == 1 else 's'}{remark}" if text else "nothing to fix")
    _say_failed(outcome)
    return 2 if outcome.report.failed else int(bool(text))
