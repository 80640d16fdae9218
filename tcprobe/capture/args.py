"""Read ``--dlprof-args`` and ``--nsys-args``: further words for a profiler, in place of tcprobe's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """What a profiler's own options are, as far as tcprobe must know them.

    Attributes:
        given_with: the option of tcprobe that passes them on.
        title: the profiler.
        example: one of its options, for messages.
        short: the long names of its short ones.
        ours: those that tcprobe alone sets, each with the reason.
    """

    given_with: str
    title: str
    example: str
    short: Mapping[str, str]
    ours: Mapping[str, str]


class Further(NamedTuple):
    """Words of the user's for a profiler.

    Attributes:
        words: as given.
        flags: the long names of the options in them.
    """

    words: tuple[str, ...]
    flags: frozenset[str]


def further(words: Sequence[str], options: Options) -> Further:
    """Return the user's words, and which options they set.

    Raises:
        UsageError: a word stands where an option should, or an option is tcprobe's to set.
    """
    found = frozenset(_flags(words, options))
    if refused := sorted(found & set(options.ours)):
        raise UsageError(
            f"{options.given_with}: {refused[0]} is tcprobe's to set: {options.ours[refused[0]]}", "leave it out"
        )
    return Further(tuple(words), found)


def _flags(words: Sequence[str], options: Options) -> Iterator[str]:
    """Yield the options: ``--x=v`` is one word, ``--x v`` are two."""
    value_may_follow = False
    for word in words:
        if word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            value_may_follow = not equals
            yield options.short.get(name, name)
        elif value_may_follow:
            value_may_follow = False
        else:
            raise UsageError(
                f"{options.given_with}: {word!r} is no option of {options.title} and the value of none",
                f"as in {options.example}",
            )
