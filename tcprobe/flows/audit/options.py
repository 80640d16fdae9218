"""The options of an audit, completed from pyproject.toml and by defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path

from msgspec import Struct, field

from tcprobe.audit.settings import Settings
from tcprobe.errors import UsageError
from tcprobe.flows.audit.baseline import Baseline
from tcprobe.flows.audit.files import NOTHING, Exclusion
from tcprobe.foreign import input_path, output_path, real_path
from tcprobe.hardware import DEFAULT_TARGET
from tcprobe.schema.finding import SEVERITIES, Finding
from tcprobe.schema.model import InputShape
from tcprobe.schema.op import LARGEST_SIZE, known_size


class AuditOptions(Struct, frozen=True):
    """What the user asked of an audit; None and empty if the user said nothing."""

    files: tuple[str, ...] = ()  # files, folders, or ``model.py:factory``
    mode: str | None = None  # auto, traced or source
    run: bool = False  # execute the script with `argv`
    argv: tuple[str, ...] = ()
    args: Mapping[str, str] = field(default_factory=dict)  # arguments of the factory
    batch_size: int | None = None  # replaces an unknown batch
    input_shapes: tuple[InputShape, ...] = ()  # of models' inputs that the code leaves open
    dtype: str | None = None  # float32 (without TF32), tf32, float16, bfloat16, float8; replaces the model's own
    target_gpu: str | None = None  # GPU to predict for
    library: str | None = None  # cublas10, cublas11, cublas12
    xla: bool | None = None  # whether XLA compiles the step; None if each model decides
    timeout_s: float = 300.0  # maximum time to trace one file, in seconds
    python: str | None = None  # interpreter for tracing
    # select, ignore: codes or prefixes of codes.
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None  # the lowest severity that fails: error, warning, note, or never
    # fail if all suggestions together may save more than this percentage of the step; 0-100
    fail_over: float | None = None
    # patterns of files in folders to leave out, relative to the working directory; None for the settings'
    exclude: tuple[str, ...] | None = None
    force_exclude: bool = False  # leave out files that were named, too
    stdin: bytes | None = None  # what standard input held, where `files` is ``-``
    stdin_name: str | None = None  # the name that it shall have
    exit_zero: bool = False  # findings never fail
    baseline: str | None = None  # file of known findings; None for that of the settings
    write_baseline: bool = False  # the baseline may be missing, since it is about to be written
    first_step: bool = False  # stop a traced file at its first training step
    allow_unjudged: bool = False  # whether a named file may hold layers of which none can be judged


class Choice(AuditOptions, frozen=True):
    """The options in effect: what the user said, else the settings, else these defaults."""

    mode: str = "auto"
    target_gpu: str = DEFAULT_TARGET
    library: str = "cublas12"
    python: str = sys.executable
    fail_on: str = "warning"
    settings: Settings = Settings()  # from pyproject.toml; its ignores by file apply
    exclusion: Exclusion = NOTHING  # which files are left out
    known: Baseline | None = None  # the known findings, which `choose_options` leaves to be read; None without baseline

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
        options: from the command line, the environment or a Python program.
        settings: from pyproject.toml.
        codes: codes of all rules, to check those that were named.

    Raises:
        UsageError: options contradict each other, or no rule has a named code.
    """
    if options.args and options.run:
        raise UsageError("--arg is for a factory, --run is for a script", "arguments of the script stand after --")
    if options.batch_size is not None and known_size(options.batch_size) is None:
        raise UsageError(f"--batch-size: at least 1 and at most {LARGEST_SIZE:,}")
    _check_codes(options, settings, sorted(codes))
    file = settings.baseline if options.baseline is None else _baseline(options.baseline, options.write_baseline)
    if options.write_baseline and file is None:
        raise UsageError("--write-baseline needs a file", "--baseline tcprobe-baseline.json --write-baseline")
    if options.exclude is None and settings.file is not None:
        exclusion = Exclusion(settings.file.parent, settings.exclude, options.force_exclude)
    else:
        exclusion = Exclusion(Path.cwd(), options.exclude or (), options.force_exclude)
    given = {
        name: value
        for source in (settings, options)
        for name in AuditOptions.__struct_fields__
        if (value := getattr(source, name, None)) not in (None, (), "")
    }
    if options.run and options.mode is None and given.get("mode") == "source":
        given["mode"] = "auto"
    known = None if file is None else Baseline(file)
    return Choice(**given, settings=settings, exclusion=exclusion, known=known)


def _baseline(name: str, written: bool) -> Path:
    """Return the absolute path of a file, links of its folder resolved as those of audited files are."""
    file = output_path(name) if written else input_path(name)
    return real_path(file.parent) / file.name


def _check_codes(options: AuditOptions, settings: Settings, known: list[str]) -> None:
    by_file = (code for codes in settings.per_file_ignores.values() for code in codes)
    file = str(settings.file)
    for where, selected, ignored in (
        ("--select", options.select, ()),
        ("--ignore", (), options.ignore),
        (file, settings.select, (*settings.ignore, *by_file)),
    ):
        for code in selected:
            _check_code(code, known, where)
        for code in ignored:
            _check_code(code, known, where, silences=True)


def _check_code(code: str, known: list[str], where: str, *, silences: bool = False) -> None:
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
