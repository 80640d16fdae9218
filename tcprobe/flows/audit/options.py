"""What an audit goes by: the options in effect, and the baseline, a file of findings that are known.

A baseline says how often a finding occurs in a file, not on which lines, so it holds when lines above come or go. One
entry stands on a line, in a fixed order, so that branches merge.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

from msgspec import Meta, Struct, convert, field

from tcprobe.audit.settings import Settings
from tcprobe.errors import MissingInput, UnsupportedVersion, UsageError, WrongFormat
from tcprobe.flows.audit.files import NOTHING, Exclusion
from tcprobe.foreign import input_path, output_path, read, real_path
from tcprobe.hardware import DEFAULT_TARGET
from tcprobe.jsonfile import MOST_BYTES, parse
from tcprobe.schema.finding import SEVERITIES, AuditReport, Finding, Identity
from tcprobe.schema.model import InputShape, Place
from tcprobe.schema.op import LARGEST_SIZE, known_size
from tcprobe.schema.records import as_dict

VERSION: Final = 1
HINT: Final = "--write-baseline writes a new one where there is none"


class Baseline(Struct, frozen=True):
    """Known findings."""

    file: Path  # absolute path; its folder is what the files of entries are relative to
    counts: Mapping[Identity, int] = field(default_factory=dict)  # how many places of a file have such a finding

    def identity(self, finding: Finding, file: str) -> Identity:
        """Return how the baseline names a finding; `file` is used where the finding has no place."""
        path = finding.place.file if finding.place else file
        return finding.identity(Path(os.path.relpath(path, self.file.parent)).as_posix())

    def path_of(self, entry: Identity) -> str:
        """Return the absolute path of an entry's file."""
        return os.path.normpath(self.file.parent / entry.file)


class _Entry(Identity, frozen=True, forbid_unknown_fields=True):
    """One entry of the file: in how many places a finding stands."""

    count: Annotated[int, Meta(gt=0)] = 1


class KnownFindings:
    """Tells which findings are known: of equal ones as many places as the baseline counts, the first of each file."""

    def __init__(self, baseline: Baseline | None) -> None:
        self._baseline = baseline
        self._places: dict[Identity, set[Place | None]] = {}

    def among(self, findings: Iterable[Finding], file: str) -> frozenset[Finding]:
        """Return the known ones of the findings of a model in `file`; the places of earlier calls count."""
        if self._baseline is None:
            return frozenset()
        return frozenset(f for f in sorted(findings, key=_by_place) if self._is_known(f, file, self._baseline))

    def _is_known(self, finding: Finding, file: str, baseline: Baseline) -> bool:
        entry = baseline.identity(finding, file)
        places = self._places.setdefault(entry, set())
        if finding.place not in places and len(places) < baseline.counts.get(entry, 0):
            places.add(finding.place)
        return finding.place in places


def _by_place(finding: Finding) -> tuple[str, int, int]:
    place = finding.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def counted(baseline: Baseline, report: AuditReport, known_only: bool = False) -> Counter[Identity]:
    """Return in how many places each finding of a report stands, or each known one."""
    places = {
        (baseline.identity(finding, audited.file), finding.place)
        for audited in report.audited
        for finding in (*audited.known, *(() if known_only else audited.findings))
    }
    return Counter(entry for entry, _ in places)


def read_baseline(file: Path, may_be_missing: bool = False) -> Baseline:
    """Read a baseline.

    Raises:
        MissingInput: there is none, and it may not be missing.
        UnreadableInput: the system refused to read it.
        WrongFormat, UnsupportedVersion: it is damaged, no regular file, no baseline, or of a later version.
    """
    try:
        whole = parse(read(file, MOST_BYTES).decode())
    except MissingInput:
        if may_be_missing:
            return Baseline(file)
        raise MissingInput(file, "no such baseline", "--write-baseline writes it") from None
    except ValueError as error:
        raise WrongFormat(file, f"is no baseline: {error}", HINT) from None
    return Baseline(file, _counts(file, whole))


def _counts(file: Path, whole: Any) -> dict[Identity, int]:
    if not isinstance(whole, dict) or "version" not in whole or not isinstance(whole.get("findings"), list):
        raise WrongFormat(file, "is no baseline: it has no version or no findings", HINT)
    if whole["version"] != VERSION:
        raise UnsupportedVersion(file, f"is a baseline of version {whole['version']}; {VERSION} is read", HINT)
    found: Counter[Identity] = Counter()
    for number, item in enumerate(whole["findings"], 1):
        try:
            entry = convert(item, _Entry)
        except ValueError:  # half a character too
            raise WrongFormat(file, f"is damaged: its finding {number} is none", HINT) from None
        found[Identity(entry.code, entry.file, entry.layer_class, entry.dimension, entry.size)] += entry.count
    return dict(found)


def write_entries(counts: Mapping[Identity, int], out: TextIO) -> None:
    """Write a baseline, one entry a line, in the order of files."""
    lines = [json.dumps(_plain(entry, counts[entry]), ensure_ascii=False) for entry in sorted(counts, key=_order)]
    listed = "".join(f"\n  {line}{',' if n < len(lines) else ''}" for n, line in enumerate(lines, 1))
    out.write(f'{{\n "version": {VERSION},\n "findings": [{listed}\n ]\n}}\n')


def _plain(entry: Identity, count: int) -> dict[str, str | int]:
    given = {"file": entry.file, **as_dict(entry), "count": count if count > 1 else None}
    return {key: value for key, value in given.items() if value is not None}


def _order(entry: Identity) -> tuple[str, str, str, str, int]:
    return entry.file, entry.code, entry.layer_class or "", entry.dimension or "", entry.size or 0


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
