"""Further runs of one `profile`: of each rank that a launcher started, and a second one under TensorFlow's profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.capture import folder, process, run_record, tensorflow
from tcprobe.capture.base import Capture, CaptureRequest, Collected, Launch
from tcprobe.capture.probed import read_probe, run
from tcprobe.capture.process import Ended
from tcprobe.errors import TcprobeError, UsageError, writing
from tcprobe.probe.constants import RANKS, WITH_XSPACE
from tcprobe.schema.profile import Note
from tcprobe.schema.records import as_dict

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


CODE: Final = "with-xspace"
LACKS: Final = "the kernels of this run are not joined with ops"


class SecondRun(Struct, frozen=True):
    """What a second run is made of."""

    first: CaptureRequest  # the request of the first run
    asked: Mapping[str, Any]  # as of `run_record.begin`
    masked: Callable[[dict[str, Any]], dict[str, Any]]  # masks the secrets of a record
    stdout_to_stderr: bool  # move the workload's standard output to standard error
    say: Callable[[str], None]  # called with one line for each thing that happens

    def follow(
        self, record: dict[str, Any], ended: process.Ended, code: int | None, came: list[int]
    ) -> tuple[dict[str, Any], process.Ended, int | None]:
        """Run the workload again unless that would show nothing; what fails costs the second run alone.

        Args:
            record: of the first run.
            ended: how that ended.
            code: exit code of its workload; None where nobody knows it.
            came: signals that came since.

        Returns:
            The record with ``with_xspace``, whether the second run left a profile, and a note where it did not; how all
            ended, and with which code: the second run's where a signal came in it, else the first one's.
        """
        left = False
        note = _why_not(ended.cut or bool(came), code, read_probe(self.first.folder))
        if note is None:
            self.say(f"running {self.first.target.label} again under TensorFlow's profiler")
            try:
                again, left, note = self._run(came)
                ended, code = (again, again.exit_code) if again.cut else (ended, code)
            except TcprobeError as error:
                note = Note(CODE, f"the second run came to nothing: {error.message}: {LACKS}", error.hint)
        said = [] if note is None else [as_dict(note)]
        return {**record, "with_xspace": left, "notes": [*record["notes"], *said]}, ended, code

    def _run(self, came: list[int]) -> tuple[process.Ended, bool, Note | None]:
        request = replace(self.first, folder=self.first.folder / WITH_XSPACE)
        with writing(request.folder):
            for name in ("raw", "probe"):
                (request.folder / name).mkdir(parents=True, exist_ok=True)
        launch = tensorflow.prepare(request)
        record = run_record.begin(request, launch, {**self.asked, "profiler": tensorflow.NAME})
        folder.write_record(request.folder, self.masked(record))
        watch = process.progress_watcher(request.folder)
        ended = run(request, launch, self.stdout_to_stderr, watch, came)
        collected = tensorflow.collect(request, ended.exit_code)
        whole = self.masked(run_record.finish(record, ended, collected, read_probe(request.folder), launch.wraps))
        folder.write_last_record(request.folder, whole, whole)
        if collected.files:
            return ended, True, None
        how = "it was interrupted" if ended.interrupted else f"it ended with exit code {ended.exit_code}"
        why = next((note for note in collected.notes if note.level == "error"), Note("", how, None))
        return ended, False, Note(CODE, f"the second run left no profile: {why.message}: {LACKS}", why.remedy)


def _why_not(cut: bool, code: int | None, probe: Mapping[str, object]) -> Note | None:
    """Return why a second run would show nothing, judging by the first; None if it is worth one."""
    if cut or code != 0:
        ending = (
            "nobody knows how the first one ended" if code is None else f"the first one ended with exit code {code}"
        )
        why = "the first one was interrupted" if cut else ending
        return Note(CODE, f"there was no second run, as {why}: {LACKS}", None)
    if probe and not probe.get("tensorflow"):
        return Note(CODE, f"there was no second run, as the workload does not use TensorFlow: {LACKS}", None, "note")
    return None
