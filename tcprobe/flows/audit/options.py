"""The options of an audit, completed from pyproject.toml and by defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tcprobe.audit.settings import Settings
from tcprobe.errors import UsageError
from tcprobe.flows.audit.baseline import Baseline
from tcprobe.flows.audit.exclude import Exclusion
from tcprobe.foreign import input_path, output_path, real_path
from tcprobe.hardware import DEFAULT_TARGET
from tcprobe.schema.finding import SEVERITIES, Finding
from tcprobe.schema.model import InputShape
from tcprobe.schema.op import LARGEST_SIZE, known_size

TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the user asked of an audit; None if the user said nothing.

    Attributes:
        files: files, folders, or ``model.py:factory``.
        mode: auto, traced or source.
        run: execute the script with `argv`.
        args: arguments of the factory.
        batch_size: replaces an unknown batch.
        input_shapes: of models' inputs that the code leaves open.
        dtype: float32 (without TF32), tf32, float16, bfloat16, float8; replaces the model's own.
        target_gpu: GPU to predict for.
        library: cublas10, cublas11, cublas12.
        xla: whether XLA compiles the step.
        timeout_s: maximum time to trace one file, in seconds.
        python: interpreter for tracing.
        select, ignore: codes or prefixes of codes.
        fail_on: the lowest severity that fails: error, warning, note, or never.
        fail_over: fail if all suggestions together may save more than this percentage of the step; 0-100.
        exclude: patterns of files in folders to leave out, relative to the working directory; None for the settings'.
        force_exclude: leave out files that were named, too.
        stdin: what standard input held, where `files` is ``-``.
        stdin_name: the name that it shall have.
        exit_zero: findings never fail.
        baseline: file of known findings; None for that of the settings.
        write_baseline: the baseline may be missing, since it is about to be written.
        first_step: stop a traced file at its first training step.
        allow_unjudged: whether a named file may hold layers of which none can be judged.
    """

    files: tuple[str, ...]
    mode: str | None = None
    run: bool = False
    argv: tuple[str, ...] = ()
    args: Mapping[str, str] = field(default_factory=dict)
    batch_size: int | None = None
    input_shapes: tuple[InputShape, ...] = ()
    dtype: str | None = None
    target_gpu: str | None = None
    library: str | None = None
    xla: bool | None = None
    timeout_s: float = TIMEOUT_S
    python: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    fail_over: float | None = None
    exclude: tuple[str, ...] | None = None
    force_exclude: bool = False
    stdin: bytes | None = None
    stdin_name: str | None = None
    exit_zero: bool = False
    baseline: str | None = None
    write_baseline: bool = False
    first_step: bool = False
    allow_unjudged: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The options in effect: what the user said, else the settings, else the default.

    Attributes:
        settings: from pyproject.toml; its ignores by file apply.
        exclusion: which files are left out.
        baseline: the known findings; None where there is no baseline. `choose_options` leaves it to be read.
        Others as in `AuditOptions`; None if each model decides.
    """

    settings: Settings
    mode: str
    target_gpu: str
    library: str
    dtype: str | None
    xla: bool | None
    batch_size: int | None
    input_shapes: tuple[InputShape, ...]
    python: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    fail_on: str
    fail_over: float | None
    exclusion: Exclusion
    exit_zero: bool
    baseline: Baseline | None

    def wants(self, finding: Finding, file: str) -> bool:
        """Say whether a finding in `file`, or in the file of its own place, is selected."""
        return self.wants_rule(finding.code, finding.place.file if finding.place else file)

    def wants_rule(self, code: str, file: str) -> bool:
        """Say whether a rule is selected in `file`: the longest prefix decides; on a draw it is ignored."""
        chosen = max((len(s) for s in self.select if code.startswith(s)), default=-1 if self.select else 0)
        ignored = (*self.ignore, *self._by_file(file))
        return chosen > max((len(i) for i in ignored if code.startswith(i)), default=-1)

    def _by_file(self, file: str) -> Iterable[str]:
        root = self.settings.file.parent if self.settings.file else Path()
        path = Path(file)
        inside = path.relative_to(root).as_posix() if path.is_relative_to(root) else file
        for pattern, listed in self.settings.per_file_ignores.items():
            if fnmatch(inside, pattern) or fnmatch(path.name, pattern):
                yield from listed

    def fails(self, findings: Iterable[Finding], share_pct: float) -> bool:
        """Say whether an audit fails: by a severity at or above the threshold, or by what all suggestions save."""
        if self.exit_zero:
            return False
        if self.fail_over is not None and share_pct > self.fail_over:
            return True
        failing = () if self.fail_on == "never" else SEVERITIES[: SEVERITIES.index(self.fail_on) + 1]
        return any(finding.severity in failing for finding in findings)


def choose_options(options: AuditOptions, settings: Settings, codes: Iterable[str]) -> Choice:
    """Return the options in effect.

    Args:
        options: from the command line and the environment.
        settings: from pyproject.toml.
        codes: codes of all rules, to check those that were named.

    Raises:
        UsageError: options contradict each other, or no rule has a named code.
    """
    mode = options.mode or settings.mode or "auto"
    if options.run and mode == "source":
        if options.mode:
            raise UsageError("--run executes the script, --mode source never does", "leave one of them out")
        mode = "auto"
    if options.args and options.run:
        raise UsageError("--arg is for a factory, --run executes the script", "arguments of the script stand after --")
    if options.batch_size is not None and known_size(options.batch_size) is None:
        raise UsageError(f"--batch-size: at least 1 and at most {LARGEST_SIZE:,}")
    known = sorted(codes)
    by_file = (code for codes in settings.per_file_ignores.values() for code in codes)
    for code in options.select:
        check_code(code, known, "--select")
    for code in options.ignore:
        check_code(code, known, "--ignore", silences=True)
    for code in settings.select:
        check_code(code, known, str(settings.file))
    for code in (*settings.ignore, *by_file):
        check_code(code, known, str(settings.file), silences=True)
    baseline = settings.baseline if options.baseline is None else _baseline(options.baseline, options.write_baseline)
    if options.write_baseline and baseline is None:
        raise UsageError("--write-baseline needs a file", "--baseline tcprobe-baseline.json --write-baseline")
    return Choice(
        settings=settings,
        mode=mode,
        target_gpu=options.target_gpu or settings.target_gpu or DEFAULT_TARGET,
        library=options.library or settings.library or "cublas12",
        dtype=options.dtype or settings.dtype,
        xla=settings.xla if options.xla is None else options.xla,
        batch_size=options.batch_size or settings.batch_size,
        input_shapes=options.input_shapes or settings.input_shapes,
        python=options.python or sys.executable,
        select=options.select or settings.select,
        ignore=options.ignore or settings.ignore,
        fail_on=options.fail_on or settings.fail_on or "warning",
        fail_over=settings.fail_over if options.fail_over is None else options.fail_over,
        exclusion=_exclusion(options, settings),
        exit_zero=options.exit_zero,
        baseline=None if baseline is None else Baseline(baseline),
    )


def _baseline(name: str, written: bool) -> Path:
    """Return the absolute path of a file, links of its folder resolved as those of audited files are."""
    file = output_path(name) if written else input_path(name)
    return real_path(file.parent) / file.name


def _exclusion(options: AuditOptions, settings: Settings) -> Exclusion:
    if options.exclude is not None or settings.file is None:
        return Exclusion(Path.cwd(), options.exclude or (), options.force_exclude)
    return Exclusion(settings.file.parent, settings.exclude, options.force_exclude)


def check_code(code: str, known: list[str], where: str, *, silences: bool = False) -> None:
    """Check that a code or prefix belongs to a rule, or where it silences, to one that was.

    Raises:
        UsageError: it does not; the message names the nearest codes.
    """
    if any(k.startswith(code) for k in known):
        return
    from difflib import get_close_matches

    from tcprobe.rules.registry import RETIRED

    if code in RETIRED:
        if silences:
            return
        raise UsageError(f"{where}: the rule {code} is retired", f"tcprobe explain {code} says why")
    near = get_close_matches(code, known, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "tcprobe explain lists the rules"
    raise UsageError(f"{where}: no rule has the code {code}", hint)
