"""Read ``--dlprof-args``: further words for DLProf, in place of tcprobe's own where both set an option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tcprobe.errors import UsageError

OPTION: Final = "--dlprof-args"
SHORT: Final = {
    "-f": "--force",
    "-v": "--verbosity",
    "-m": "--mode",
    "-y": "--delay",
    "-d": "--duration",
    "-b": "--suppress_tb_files",
}
OURS: Final = {
    "--output_path": "its reports must lie in the run folder",
    "--profile_name": "its reports are found by their names",
    "--nsys_base_name": "its recording is found by its name",
    "--nsys_database": "tcprobe profile runs a workload",
    "--database": "tcprobe profile runs a workload",
    "--help": "run dlprof by hand",
    "--version": "run dlprof by hand",
}


class Further(NamedTuple):
    """Words of the user's for DLProf.

    Attributes:
        words: as given.
        flags: the long names of the options in them.
    """

    words: tuple[str, ...]
    flags: frozenset[str]


def further(words: Sequence[str]) -> Further:
    """Return the user's words, and which options they set.

    Raises:
        UsageError: a word stands where an option should, or an option is tcprobe's to set.
    """
    found = frozenset(_flags(words))
    if refused := sorted(found & set(OURS)):
        raise UsageError(f"{OPTION}: {refused[0]} is tcprobe's to set: {OURS[refused[0]]}", "leave it out")
    return Further(tuple(words), found)


def _flags(words: Sequence[str]) -> Iterator[str]:
    """Yield the options: ``--x=v`` is one word, ``--x v`` are two."""
    value_may_follow = False
    for word in words:
        if word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            value_may_follow = not equals
            yield SHORT.get(name, name)
        elif value_may_follow:
            value_may_follow = False
        else:
            raise UsageError(
                f"{OPTION}: {word!r} is no option of DLProf and the value of none", "as in --verbosity=quiet"
            )
