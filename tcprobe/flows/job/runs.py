"""The runs of the ranks that a launcher started: each in a run folder of its own, `ranks/rank-N` of the whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.capture import folder, run_record
from tcprobe.capture.base import Capture, CaptureRequest, Collected, Launch
from tcprobe.capture.probed import read_probe
from tcprobe.capture.process import Ended
from tcprobe.errors import UsageError
from tcprobe.probe.constants import RANKS
from tcprobe.schema.profile import Note

_BOUNDS: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)


def parse_ranks(text: str | None) -> tuple[int, ...] | None:
    """Return the ranks that `--ranks 0,7` or `0-3` names; None where all are meant.

    Raises:
        UsageError: it names none.
    """
    if text is None:
        return None
    found: set[int] = set()
    for word in text.split(","):
        bounds = _BOUNDS.fullmatch(word.strip())
        low, high = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if low > high:
            raise UsageError(f"--ranks {text!r}: {word!r} is no rank and no range of ranks", "as in --ranks 0,7 or 0-3")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def finish_ranks(
    capture: Capture,
    request: CaptureRequest,
    launch: Launch,
    ended: Ended,
    record: Mapping[str, Any],
    masked: Callable[[dict[str, Any]], dict[str, Any]],
) -> Collected:
    """Complete the run folder of each rank, and return what there is to say of all together.

    Args:
        capture: that recorded them.
        request: of the whole run.
        launch, ended: how it was started, and how it ended.
        record: run.json of the whole, as far as it is known.
        masked: masks the secrets of a record.
    """
    places = sorted((request.folder / RANKS).glob("rank-*"))
    notes: list[Note] = []
    if request.ranks is not None:
        there = {_number(place) for place in places}
        if lacking := [str(rank) for rank in request.ranks if rank not in there]:
            notes.append(Note("ranks-not-run", f"--ranks: no rank {', '.join(lacking)} ran", "name ranks of the job"))
    if not places:
        what = "no process that the launcher started told its rank, and none was recorded"
        notes.append(Note("no-ranks", what, "see what it printed; --launcher must start what follows it", "error"))
    for place in places:
        own, probe = replace(request, folder=place), read_probe(place)
        code = probe.get("exit_code")
        mine = replace(ended, gpus=None)  # which GPU is whose, launcher and script settle
        mine = replace(mine, exit_code=code) if isinstance(code, int) else mine
        collected = capture.collect(own, mine.exit_code, ended.died_of)
        finished = run_record.finish({**record, "rank": _number(place)}, mine, collected, probe, launch.wraps)
        folder.write_record(place, masked(finished))
    code = ended.exit_code if launch.wraps else None
    return Collected(notes=tuple(notes), workload_code=code)


def _number(place: Path) -> int:
    return int(place.name.split("-")[1])
