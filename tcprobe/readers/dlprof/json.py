"""Read DLProf's JSON reports, where a profile has no CSV ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.readers.dlprof.files import ReportFile, look, scan
from tcprobe.schema.profile import Profile

FORMAT: Final = "dlprof_json"
WHAT: Final = "the CSV or JSON reports of DLProf"


def finds(path: Path) -> list[Path]:
    """Return the JSON reports at `path` whose profiles have no CSV reports, which are read with those."""
    found = scan(path)
    homes = {one.home for one in found if one.dialect == "csv"}
    return [one.path for one in found if one.dialect == "json" and one.home not in homes]


def read(files: list[Path]) -> Profile:
    """Read the reports of one profile; see `read_profile`.

    Raises:
        UsageError: the files belong to several profiles.
        InputError: a file is empty, damaged or no report of DLProf's.
    """
    from tcprobe.readers.dlprof.profile import read_profile

    return read_profile(FORMAT, [look(path) or ReportFile(path, "json", "unknown") for path in files])
