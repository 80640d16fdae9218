"""`tcprobe report`: read any profile and report on it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from tcprobe.cli import options as o
from tcprobe.errors import UsageError
from tcprobe.schema.records import as_dict
from tcprobe.visible import put, tell

By = StrEnum(
    "By",
    "rank kernel op range range-time layer iteration unit device phase wait gap copy cause kind advice step-range "
    "stretch chain message gradient",
)
"""A table to show; the names are those of `tcprobe.report.run.views.BY`."""


Format = Literal["text", "csv", "json", "markdown", "html", "perfetto"]
FormatOption = Annotated[
    Format | None, typer.Option(envvar="TCPROBE_FORMAT", help="Output format. Default: by the ending of -o, else text.")
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Write to a file (.txt, .csv, .json, .md, .html; .pftrace for ui.perfetto.dev) or, as one CSV per table, "
        "to a folder; - is standard output.",
    ),
]
PathArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Run folder, profile file, directory with one, a sweep, or a job's ranks; lists runs. Default: the last.",
    ),
]
LastOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Read the N-th last run in tcprobe-runs, 1 being the last."),
]
ByOption = Annotated[
    list[By] | None, typer.Option(help="Show only this table below the first screen; may be given several times.")
]
CountersOption = Annotated[
    list[Path] | None,  # not of texts: a variable's value would be taken apart at its spaces
    typer.Option(
        metavar="FILE",
        help="Hardware counters of the same kernels (ncu --csv --page raw): they decide of classes, not names.",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Read a job's ranks by the workers of this Dask scheduler (tcp://host:8786)."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="OTHER",
        help="Also say what changed from this run or profile; --fail-if step_time>+5% then is of that change.",
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Follow a run in progress until it ends, then report it; Ctrl-C ends that.")
]


def report(
    ctx: typer.Context,
    path: PathArgument = None,
    last: LastOption = None,
    format: FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: OutputOption = None,
    top: o.TopOption = None,
    by: ByOption = None,
    all: o.AllOption = False,  # noqa: A002 - likewise
    iter_start: o.IterStartOption = None,
    iter_stop: o.IterStopOption = None,
    step_range: o.StepRangeOption = None,
    target_gpu: o.TargetOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    counters: CountersOption = None,
    against: AgainstOption = None,
    scheduler: SchedulerOption = None,
    fail_if: o.FailIfOption = None,
    allow_unknown: o.AllowUnknownOption = False,
    watch: WatchOption = False,
) -> None:
    """Read a profile and report its Tensor Core use: how good, why not better, what first.

    Reads a run folder of tcprobe, *.xplane.pb of TensorFlow or JAX, DLProf's database (dlprof_dldb*.sqlite), Nsight
    Systems' report (*.nsys-rep) or its SQLite export (nsys export --type=sqlite), a trace of torch.profiler
    (*.pt.trace.json, also as .gz or .zip), the CSV or JSON reports of DLProf, the CSV of Nsight Systems (nsys stats
    --format csv) and the CSV of Nsight Compute (ncu --csv --page raw). Needs neither a GPU nor a framework. Exits with
    1 where a --fail-if holds, with 2 where it cannot be told.
    """
    with o.document(ctx, "run", format, output, force, o.render_spec(width, safe_csv)) as out:
        from tcprobe.analysis import Options
        from tcprobe.flows.compare import make_judged_report
        from tcprobe.flows.runs import is_sweep
        from tcprobe.foreign import input_path
        from tcprobe.report.document import ReportSpec
        from tcprobe.report.run.document import RunDocument

        named, counted = _one("report", path), _one("--counters", counters)
        read = _watched(named, last, out) if watch else read_path(named, last)
        wanted = out.web or out.to.renderer.name == "perfetto"
        options = Options(iter_start, iter_stop, target_gpu, step_range, timeline=wanted)
        brief = out.brief(all) or (watch and not all and out.to.path is None)
        asked = ReportSpec(top, tuple(by or ()), brief, out.width, out.web)
        if is_sweep(read):
            from tcprobe.cli.sweep import show_sweep

            show_sweep(read, out, options, asked, (by, against, fail_if))
            return
        if _listed(
            read, format, unless=(output, by, against, fail_if, format in ("csv", "markdown", "html", "perfetto"))
        ):
            return
        other = None if against is None else input_path(against)
        laid = None if counted is None else input_path(counted)
        made = make_judged_report(read, options, other, fail_if or (), top, laid, scheduler)
        with o.judged(made.verdicts, made.names, allow_unknown):
            out.write(RunDocument(made.profile, asked, made.added))


def _one(reader: str, paths: Sequence[str | Path] | None) -> str | None:
    """Return the one path that is named, if any.

    Raises:
        UsageError: several are, as a shell makes of ``rank*.json``; their folder is what is read as one.
    """
    if paths and len(paths) > 1:
        folders = {str(Path(path).parent) for path in paths}
        folder = shlex.quote(folders.pop()) if len(folders) == 1 else "FOLDER"
        command = f"tcprobe report {folder}" if reader == "report" else f"{reader} {folder}"
        raise UsageError(
            f"{reader} reads one path, and {len(paths)} are named",
            f"pages of one report and ranks of one job are read as one from their folder: {command}",
        )
    return os.fspath(paths[0]) if paths else None


def read_path(path: str | None, last: int | None) -> Path:
    """Return what is to be read: what is named, else the last run, or the N-th last."""
    from tcprobe.flows.runs import last_run
    from tcprobe.foreign import input_path

    if path is not None and last is not None:
        raise UsageError("--last says which run to read, and so does PATH", "leave one of them out")
    if path is not None:
        return input_path(path)
    read = last_run(last or 1)
    tell(f"Reading {read}")
    return read


def _watched(path: str | None, last: int | None, out: o.Output) -> Path:
    """Follow the run that is named, else the one that goes on here, and return its folder once it has ended."""
    from tcprobe.cli.progress import watch
    from tcprobe.foreign import input_path

    if last is not None:
        raise UsageError("--last names a run that has ended, and --watch follows one that goes on", "leave one out")
    return watch(None if path is None else input_path(path), out.to.path is None and out.to.renderer.name == "text")


def _listed(folder: Path, format_: str | None, unless: Sequence[object]) -> bool:
    """List the runs of a folder that has several, unless something is asked of one or they are ranks of one job.

    Returns whether that was done.
    """
    from tcprobe.flows.runs import is_sweep, runs_in
    from tcprobe.readers.open import find_job

    runs = [] if any(unless) else runs_in(folder)
    several = len(runs) > 1 or any(is_sweep(run.path) for run in runs)
    if not several or find_job(folder) is not None:
        return False
    if format_ == "json":
        o.put_json(runs=[{**as_dict(run), "path": str(run.path)} for run in runs])
        return True
    from tcprobe.report.fields import field_of
    from tcprobe.report.grid import table_lines

    shown = (
        field_of("run", lambda run: str(run.path)),
        field_of("started", lambda run: (run.started or "")[:19].replace("T", " ")),
        field_of("what ran", lambda run: run.command, least=24),
        field_of("profiler", lambda run: run.profiler, 1),
        field_of("precision", lambda run: run.precision, 1),
        field_of("exit code", lambda run: run.exit_code),
    )
    put(*table_lines(shown, runs, o.text_width(None)))
    tell(f"Next: tcprobe report {shlex.quote(str(runs[0].path))}")
    return True


RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", show_default=False, help="Run folder or profile. Default: the last run."),
]
OpOption = Annotated[
    str, typer.Option("--op", metavar="NAME", show_default=False, help="The op: its name, or a part that no other has.")
]
ScriptOption = Annotated[
    str | None, typer.Option("-o", metavar="FILE", show_default=False, help="Write to FILE. Default: standard output.")
]
ScriptForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace FILE.")]


def reproduce(
    op: OpOption, run: RunArgument = None, file: ScriptOption = None, force: ScriptForceOption = False
) -> None:
    """Write a script that times one op of a run alone, beside a twin with padded sizes, for a bug report.

    It needs TensorFlow or PyTorch alone, and prints what the report says of the op first. Nothing is run.
    """
    with o.errors_as_json(o.chosen["json"]):
        from functools import partial

        from tcprobe.flows.report import make_report
        from tcprobe.flows.reproduce import script_of
        from tcprobe.flows.write import refuse_existing, write_files
        from tcprobe.foreign import output_path

        path = None if file is None else output_path(file)
        if path is not None:
            refuse_existing([path], force, "--force replaces it, or choose another name")
        text = script_of(make_report(read_path(run, None)), op)
        if path is not None:
            write_files([(path, partial(_write, text))], force)
            tell(f"Wrote {path}", f"Next: python {path}")
        if o.chosen["json"]:
            o.put_json(script=text)
        elif path is None:
            put(*text.splitlines())


def _write(text: str, out: TextIO) -> None:
    out.write(text)
