"""The options of `tcprobe audit-shapes`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

ModeName = Literal["auto", "traced", "source"]
Dtype = Literal["float32", "tf32", "float16", "bfloat16", "float8"]
LibraryName = Literal["cublas10", "cublas11", "cublas12"]
FailOn = Literal["error", "warning", "note", "never"]
AuditFormat = Literal["text", "json", "csv", "markdown", "sarif", "github"]
GROUPS: Final = (
    (
        "What to audit",
        (
            *("exclude", "force_exclude", "stdin_filename"),
            *("mode", "run", "arg", "batch_size", "input_shape", "first_step", "timeout", "python"),
        ),
    ),
    ("What to predict for", ("target_gpu", "dtype", "library", "xla")),
    (
        "What counts",
        ("select", "ignore", "baseline", "write_baseline", "fail_on", "fail_over", "exit_zero", "allow_unjudged"),
    ),
    ("What to do with it", ("diff", "fix", "format", "output", "force", "safe_csv", "width", "verbose")),
)
"""Headings of the help, and the parameters under each."""
EXAMPLES: Final = (
    ("tcprobe audit-shapes model.py", "Trace the models of a file."),
    ("tcprobe audit-shapes model.py:make --arg units=64", "The model that make(units=64) returns."),
    ("tcprobe audit-shapes --run train.py -- --epochs 1", "A script: the training steps of all its models."),
    ("tcprobe audit-shapes --mode source src/", "A folder, nothing executed."),
    ("tcprobe audit-shapes model.py --dtype float16 --target-gpu h100-sxm", "What float16 would cost there."),
)

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
    typer.Option(
        "--exclude", metavar="PATTERN", help="Leave out these files and folders in the given folders; may be repeated."
    ),
]
ForceExcludeOption = Annotated[
    bool, typer.Option("--force-exclude", help="Leave them out where they are named, too, as by pre-commit.")
]
StdinNameOption = Annotated[
    str | None,
    typer.Option("--stdin-filename", metavar="NAME", help="Name of what - reads, for findings and settings."),
]
ModeOption = Annotated[
    ModeName | None,
    typer.Option(
        envvar="TCPROBE_MODE",
        show_default=False,
        help="traced runs the file on the CPU, source only reads it. Default: auto, traced for one file where "
        "TensorFlow is installed, else source.",
    ),
]
RunOption = Annotated[
    bool, typer.Option("--run", help="Execute the script, though no training step of it; its arguments stand after --.")
]
ArgOption = Annotated[
    list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="Argument of the factory; may be repeated.")
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        min=1,
        metavar="N",
        help="Samples of a step where the model does not say. Default: per 1,024 samples.",
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        metavar="[NAME=]SIZES",
        help="Sizes of one sample (224,224,3) where the code leaves a model's input open; may be repeated.",
    ),
]
DtypeOption = Annotated[
    Dtype | None,
    typer.Option(show_default=False, help="Arithmetic to predict for; float32 is without TF32. Default: the model's."),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target-gpu",
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        help="GPU to predict for; `tcprobe explain gpus` lists them. Default: a100-sxm-40.",
    ),
]
LibraryOption = Annotated[
    LibraryName | None,
    typer.Option(show_default=False, help="cuBLAS on that GPU, with the cuDNN of its time. Default: cublas12."),
]
XlaOption = Annotated[
    bool | None,
    typer.Option(
        "--xla/--no-xla", help="Predict with XLA, or without. Default: as the model is compiled; unknown: without."
    ),
]
FirstStepOption = Annotated[
    bool,
    typer.Option(
        "--first-step",
        help="Stop a traced file at its first training step. Default: go on to its other models, 60 s at most.",
    ),
]
TimeoutOption = Annotated[float, typer.Option(min=1.0, metavar="SECONDS", help="Longest time to trace one file.")]
PythonOption = Annotated[
    str | None,
    typer.Option(metavar="PATH", envvar="TCPROBE_PYTHON", help="Interpreter that traces. Default: tcprobe's own."),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CODES", help="Only these rules: codes or prefixes (TC1,TC204); may be repeated."),
]
IgnoreOption = Annotated[
    list[str] | None, typer.Option(metavar="CODES", help="None of these rules; the longer prefix wins over --select.")
]
BaselineOption = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FILE", help="Known findings: counted, but not told again, and none fails."),
]
WriteBaselineOption = Annotated[
    bool, typer.Option("--write-baseline", help="Write what is found now to the file of --baseline; exit code 0.")
]
ExitZeroOption = Annotated[
    bool, typer.Option("--exit-zero", help="Exit code 0 whatever is found; 2 where a file cannot be audited.")
]
FailOnOption = Annotated[
    FailOn | None,
    typer.Option("--fail-on", show_default=False, help="Least severity that makes exit code 1. Default: warning."),
]
FailOverOption = Annotated[
    str | None,
    typer.Option(
        "--fail-over",
        metavar="PERCENT",
        help="Exit code 1 too where all suggestions for a model save more of its step (5%).",
    ),
]
AllowOption = Annotated[
    bool,
    typer.Option(
        "--allow-unjudged",
        help="No exit code 2 for a named file with layers of which none can be judged (PyTorch, unknown sizes).",
    ),
]
FormatOption = Annotated[
    AuditFormat | None,
    typer.Option(
        "--format",
        envvar="TCPROBE_FORMAT",
        show_default=False,
        help="Output format. Default: by the ending of -o, else text.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file (.txt, .json, .csv, .md, .sarif); - is standard output.",
    ),
]
FixOption = Annotated[bool, typer.Option("--fix", help="Mend the files; of new sizes, old checkpoints no longer fit.")]
DiffOption = Annotated[bool, typer.Option("--diff", help="Show what --fix would change; exit code 1 where it would.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="List each note, what could not be judged, and what comments silence.")
]
