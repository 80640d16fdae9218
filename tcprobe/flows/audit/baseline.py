"""The baseline: a file of findings that are known and are not told again.

It says how often a finding occurs in a file, not on which lines, so it holds when lines above come or go. One entry
stands on a line, in a fixed order, so that branches merge.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

from msgspec import Meta, Struct, convert, field

from tcprobe.errors import MissingInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import read
from tcprobe.jsonfile import MOST_BYTES, parse
from tcprobe.schema.finding import AuditReport, Finding, Identity
from tcprobe.schema.model import Place
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
