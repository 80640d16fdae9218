"""What a reader is: a module of this package with these three names, listed in `tcprobe.readers.READERS`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tcprobe.schema.profile import Profile


class Reader(Protocol):
    """One profile format.

    Attributes:
        FORMAT: name of the format, as in `Metadata.format`.
    """

    FORMAT: str

    def finds(self, path: Path) -> list[Path]:
        """Return the files of this format that `path` holds (a file, or a directory searched below it).

        Decides by content as far as a quick look allows, never by the name alone; an unreadable or foreign
        file is no match and no error. Sorted, so that the same directory gives the same answer.
        """
        ...

    def read(self, files: list[Path]) -> Profile:
        """Read what `finds` returned into one Profile of recorded tables.

        Raises:
            InputError: a file is empty, damaged or of an unknown version; names it, what was found and
                what was expected.
        """
        ...
