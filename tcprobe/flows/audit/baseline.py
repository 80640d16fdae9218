"""The baseline: a file of findings that are known and are not told again.

It says how often a finding occurs in a file, not on which lines, so it holds when lines above come or go. One entry
stands on a line, in a fixed order, so that branches merge.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from tcprobe.errors import InputError, MissingInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import read
from tcprobe.jsonfile import MOST_BYTES, parse
from tcprobe.schema.finding import AuditReport, Finding, Identity
from tcprobe.schema.place import Place

VERSION: Final = 1
HINT: Final = "--write-baseline writes a new one where there is none"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Known findings.

    Attributes:
        file: absolute path; its folder is what the files of entries are relative to.
        counts: how many places of a file have such a finding.
    """

    file: Path
    counts: Mapping[Identity, int] = field(default_factory=dict)

    def identity(self, finding: Finding, file: str) -> Identity:
        """Return how the baseline names a finding; `file` is used where the finding has no place."""
        path = finding.place.file if finding.place else file
        return finding.identity(Path(os.path.relpath(path, self.file.parent)).as_posix())

    def path_of(self, entry: Identity) -> str:
        """Return the absolute path of an entry's file."""
        return os.path.normpath(self.file.parent / entry.file)


class KnownFindings:
    """Tells which findings are known: of equal ones as many places as the baseline counts, the first of each file."""

    def __init__(self, baseline: Baseline | None) -> None:
        self._baseline = baseline
        self._places: dict[Identity, set[Place | None]] = {}

    def among(self, findings: Iterable[Finding], file: str) -> frozenset[Finding]:
        """Return the known ones of the findings of a model in `file`; the places of earlier calls count."""
        if self._baseline is None:
            return frozenset()
        ordered, baseline = sorted(findings, key=_by_place), self._baseline
        return frozenset(f for f in ordered if self._is_known(f, baseline.identity(f, file), baseline.counts))

    def _is_known(self, finding: Finding, entry: Identity, counts: Mapping[Identity, int]) -> bool:
        places = self._places.setdefault(entry, set())
        if finding.place not in places and len(places) < counts.get(entry, 0):
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
        entry, count = _entry(file, number, item)
        found[entry] += count
    return dict(found)


def _entry(file: Path, number: int, item: Any) -> tuple[Identity, int]:
    given = dict(item) if isinstance(item, dict) else {}
    count = given.pop("count", 1)
    texts = ("code", "file", "layer_class", "dimension")
    whole = all(isinstance(given.get(k), str) for k in texts[:2]) and given.keys() <= {*texts, "size"}
    plain = all(isinstance(given.get(k), str | None) for k in texts[2:]) and isinstance(given.get("size"), int | None)
    if not (whole and plain and isinstance(count, int) and count > 0):
        raise _damaged(file, number)
    return Identity(*(given.get(k) for k in (*texts, "size"))), count  # type: ignore[arg-type]


def _damaged(file: Path, number: int) -> InputError:
    return WrongFormat(file, f"is damaged: its finding {number} is none", HINT)


def write_entries(counts: Mapping[Identity, int], out: TextIO) -> None:
    """Write a baseline, one entry a line, in the order of files."""
    lines = [json.dumps(_plain(entry, counts[entry]), ensure_ascii=False) for entry in sorted(counts, key=_order)]
    listed = "".join(f"\n  {line}{',' if n < len(lines) else ''}" for n, line in enumerate(lines, 1))
    out.write(f'{{\n "version": {VERSION},\n "findings": [{listed}\n ]\n}}\n')


def _plain(entry: Identity, count: int) -> dict[str, str | int]:
    known = {"file": entry.file, **asdict(entry), "count": count}
    return {key: value for key, value in known.items() if value is not None and (key, value) != ("count", 1)}


def _order(entry: Identity) -> tuple[str, str, str, str, int]:
    return entry.file, entry.code, entry.layer_class or "", entry.dimension or "", entry.size or 0
