"""The protocol of a reader, a module with these names that `tcprobe.readers.READERS` lists; and what all agree on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from tcprobe.errors import InputError, UsageError
from tcprobe.schema.profile import Profile

Refusal: TypeAlias = InputError | UsageError
"""Why a source cannot be read."""


class Reader(Protocol):
    """One profile format."""

    FORMAT: str  # name of the format, as in `Metadata.format`
    WHAT: str  # what a user may give, in words (``*.xplane.pb of TensorFlow or JAX``)

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


@runtime_checkable
class Holder(Reader, Protocol):
    """A format whose folder also holds what profilers recorded, each in a format of its own: a run folder."""

    def holds(self, files: list[Path]) -> Path:
        """Return the folder in which the profilers' files lie; all of them are of this one run."""
        ...

    def passes_over(self, path: Path, files: list[Path]) -> list[Path]:
        """Return the folders of runs below `path` that never ended, where `finds` returned others, `files`, alone."""
        ...

    def around(self, files: list[Path], inside: Sequence[Profile], refused: Sequence[Refusal]) -> Profile:
        """Read `files` and join them with what the profilers recorded.

        Args:
            files: as for `read`.
            inside: what other readers made of that folder, richest first.
            refused: why others found files in it and could not read them.
        """
        ...


MOST_DEVICES: Final = 1024  # of a host; the largest has 16
