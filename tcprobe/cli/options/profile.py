"""The options of `tcprobe profile`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

ProfilerName = Literal["auto", "tensorflow", "dlprof", "nsys"]
Precision = Literal["float32", "tf32", "mixed_float16", "mixed_bfloat16"]

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORKLOAD",
        show_default=False,
        help="A packaged workload (see `tcprobe workloads`), a script, or -m MODULE; then its own arguments.",
    ),
]
ProfileOrWorkload = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROFILE|WORKLOAD",
        show_default=False,
        help="A profile or run folder as `tcprobe report` takes it; or a workload, then its own arguments.",
    ),
]
ProfilerOption = Annotated[
    ProfilerName,
    typer.Option(
        envvar="TCPROBE_PROFILER",
        help="auto takes DLProf or nsys (Nsight Systems) with options of theirs, else TensorFlow's own.",
    ),
]
SearchProfilerOption = Annotated[
    ProfilerName,
    typer.Option(
        envvar="TCPROBE_PROFILER",
        help="How a workload is run: auto takes DLProf where there is one, else TensorFlow's own.",
    ),
]
SearchOutputOption = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to a file (.txt, .csv, .json, .md); - is standard output."
    ),
]
PrecisionOption = Annotated[
    Precision | None, typer.Option(help="Arithmetic of the workload. Default: unchanged.", show_default=False)
]
XlaOption = Annotated[bool | None, typer.Option("--xla/--no-xla", help="Compile with XLA, or not. Default: unchanged.")]
IterStartOption = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="First step to profile, from 0. Default: after the warm-up.")
]
IterStopOption = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Last step to profile. Default: 20 steps in all.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="ID", envvar="TCPROBE_DEVICE", help="GPU to run on (CUDA_VISIBLE_DEVICES). Default: the first."
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", envvar="TCPROBE_PYTHON", help="Interpreter that runs the workload. Default: tcprobe's own."
    ),
]
LauncherOption = Annotated[
    str,
    typer.Option(
        metavar="WORDS",
        envvar="TCPROBE_LAUNCHER",
        show_default=False,
        help="What stands before the command, as in 'singularity exec --nv image.simg'.",
    ),
]
FolderOption = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="Run folder to write. Default: tcprobe-runs/WORKLOAD-TIME."),
]
ShareOption = Annotated[bool, typer.Option("--share", help="Let others read the run folder. Default: its owner alone.")]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace an earlier run folder, and the file of -o.")]
TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        help="GPU to judge a run without a GPU for. Default: a100-sxm-40.",
    ),
]
PatternOption = Annotated[
    list[str] | None,
    typer.Option(metavar="REGEX", help="Further figures in what the workload logs; named groups name them."),
]
StepFunctionOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", envvar="TCPROBE_STEP_FUNCTION", help="Function whose calls are the steps."),
]
KeyNodeOption = Annotated[
    str | None,
    typer.Option(metavar="NAME|auto", help="DLProf: op that runs once in each step; auto finds one in a short run."),
]
ModeOption = Annotated[
    str | None, typer.Option(metavar="MODE", help="DLProf: auto, simple, tensorflow1 or tensorflow2.")
]
DelayOption = Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="DLProf: begin to record that late.")]
DurationOption = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="DLProf: record that long and no longer.")
]
DlprofArgsOption = Annotated[
    str, typer.Option("--dlprof-args", metavar="WORDS", help='DLProf: further options of its own, "--verbosity=quiet".')
]
NsysArgsOption = Annotated[
    str,
    typer.Option(
        "--nsys-args", metavar="WORDS", help='Nsight Systems: further options of its own, "--cuda-memory-usage=true".'
    ),
]
WithXspaceOption = Annotated[
    bool,
    typer.Option(
        "--with-xspace", help="Nsight Systems: run a second time under TensorFlow's profiler, for ops and layers."
    ),
]
StepRangeOption = Annotated[
    str | None,
    typer.Option("--step-range", metavar="REGEX", help="Names of the NVTX ranges that are steps, as in 'iteration.*'."),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Report as JSON; on standard output the workload's moves to standard error."),
]
FileOption = Annotated[
    str | None,
    typer.Option("-o", metavar="FILE", help="Also write the report to FILE (.json, .txt, .md)."),
]
