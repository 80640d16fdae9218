"""What `redact` did, a line for each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tcprobe import formatting as f
from tcprobe.schema.statement import Reason, Redaction

WHY: Final[Mapping[Reason, str]] = {
    "environment": "holds the environment, and cannot be cleaned; --delete deletes it, as its export is beside it",
    "only_recording": "holds the environment, and cannot be cleaned; no cleaned export lies beside it, so that it was "
    "not deleted: nsys export --type=sqlite makes one",
    "being_written": "not cleaned: another program writes it",
    "refused": "not cleaned: {}",
}


def lines_of(done: Redaction) -> Iterator[str]:
    """Yield a line for each file, and one that says whether anything is left."""
    for one in done.cleaned:
        what = f.many(one.variables, "variable") + (
            f" and {f.many(one.printed, 'text')} that it printed" if one.printed else ""
        )
        stays = f"; {f.many(one.arguments, 'argument')} of command lines left" if one.arguments else ""
        yield f"{one.path}: {what} blanked{stays}"
    for path in done.deleted:
        yield f"{path}: deleted"
    for left in done.left:
        yield f"{left.path}: {WHY[left.reason].format(left.text.removeprefix(f'{left.path}: '))}"
    yield (
        f"{f.many(len(done.left), 'file')} left with private data"
        if done.left
        else "no environment is left in these files"
    )
