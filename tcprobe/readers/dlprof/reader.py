"""The readers of DLProf's reports, versions 0.13 to 1.8: of profiles with CSV reports, and of those with JSON alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.readers.dlprof.layout import Dialect, ReportFile, look, scan
from tcprobe.schema.profile import Profile


class Reports(Struct):
    """The reader of the profiles that have reports of one dialect: CSV with the JSON beside it, or JSON alone."""

    FORMAT: str
    dialect: Dialect
    WHAT: str = "the CSV or JSON reports of DLProf"

    def finds(self, path: Path) -> list[Path]:
        """Return the reports at `path` of the profiles that have CSV ones, or of those that have none."""
        found = scan(path)
        homes = {one.home for one in found if one.dialect == "csv"}
        return [one.path for one in found if (one.home in homes) is (self.dialect == "csv")]

    def read(self, files: list[Path]) -> Profile:
        """Read the reports of one profile; see `read_profile`.

        Raises:
            UsageError: the files belong to several profiles.
            InputError: a file is empty, damaged or no report of DLProf's.
        """
        from tcprobe.readers.dlprof.profile import read_profile

        return read_profile(self.FORMAT, [look(path) or ReportFile(path, self.dialect, "unknown") for path in files])


CSV: Final = Reports("dlprof_csv", "csv")
JSON: Final = Reports("dlprof_json", "json")
