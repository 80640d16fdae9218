"""What would tell whose machine it is, and texts and XSpaces without it."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcprobe.readers.protobuf import BYTES, fields

COMMON: Final = frozenset({"", "root", "user", "ubuntu", "runner", "admin", "jovyan", "localhost", "docker"})
"""Names that tell nobody."""
PATH: Final = re.compile(r"(?<![\w.+@~/-])/(?:[\w.+@~-]+/)+([\w.+@~-]*)")
"""An absolute path; of op names, devices and URLs none looks so."""
LEAST_BYTES: Final = 6  # a shorter name may stand in a raw trace by chance
HOSTNAMES: Final = 4  # field of XSpace


def own_names() -> frozenset[str]:
    """Return the machine's name, with and without domain, and the user's; without names that many have."""
    host = platform.node()
    names = {host, host.partition(".")[0]}
    with suppress(KeyError, OSError):  # a container's user may have no name
        names.add(getpass.getuser())
    return frozenset(names - COMMON)


def without_paths(text: str) -> str:
    """Return a text with only the last names of absolute paths, and ``~`` for the user's folder."""
    home = str(Path.home())
    return PATH.sub(r"\1", text.replace(home, "~") if len(home) > 1 else text)


def cleaned_trace(raw: bytes, *places: Path) -> bytes:
    """Return an XSpace without its list of host names, and with paths, machine and user written over.

    What is written over keeps its length, so that the file stays whole.

    Raises:
        ValueError: it is no XSpace, or cut off.
    """
    raw = b"".join(_fields(raw, HOSTNAMES))
    for name in sorted({*map(str, (*places, Path.home())), *own_names()}, key=len, reverse=True):
        if len(name) >= LEAST_BYTES:
            raw = raw.replace(name.encode(), b"x" * len(name.encode()))
    return raw


def _fields(raw: bytes, dropped: int) -> Iterator[bytes]:
    """Yield the top-level fields of a message, all length-delimited as an XSpace's are, without one of them."""
    begin = 0
    for number, wire, _, last in fields(raw, (0, len(raw))):
        if wire != BYTES:
            raise ValueError(f"no XSpace: field {number} at byte {begin}")
        if number != dropped:
            yield raw[begin:last]
        begin = last
