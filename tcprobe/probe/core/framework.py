"""What the probe asks of a framework. The core knows no framework; `way_in` chooses one and hands it to the probe.

To add one, write a class with these attributes and methods in a folder of its own and let `way_in` choose
it. It is made with a `Core`, hooks its own package in the functions that `install` returns, and tells
`Core.training` of what it sees.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Protocol, Sequence, Tuple

from ..config import Config
from .gaps import Gaps
from .ranges import Ranges
from .training import TrainingCalls

Hook = Callable[[Any], None]


class Core(NamedTuple):
    """What a framework is given.

    Attributes:
        config: the probe's orders.
        gaps: takes what this version of the framework lacks.
        ranges: marks steps and phases; the framework sets `ranges.annotations` to its profiler's own marks.
        training: is told of every training call.
    """

    config: Config
    gaps: Gaps
    ranges: Ranges
    training: TrainingCalls


class Devices(NamedTuple):
    """The GPUs that a framework sees.

    Attributes:
        gpus: ``{"name", "compute_capability"}`` of each.
        peak_bytes: most memory that it held on one of them; None where it does not say.
    """

    gpus: List[Dict[str, Any]]
    peak_bytes: Optional[int]


class Profiler(Protocol):
    """The framework's own profiler: one session at a time, beside whatever the script itself profiles.

    Attributes:
        available: it can profile this process.
        is_open: the probe's session runs.
        preempted: to be called before the script opens a session of its own; closes the probe's.
        script_began, script_ends: to be called once such a session runs, and before it ends.
        script_ended: to be called after it, with the paths of the profiles that it left.
    """

    available: bool
    is_open: bool
    preempted: Callable[[], None]
    script_began: Callable[[], None]
    script_ends: Callable[[], None]
    script_ended: Callable[[List[str]], None]

    def start(self) -> bool:
        """Open the session; return False where it cannot be opened now."""

    def stop(self) -> None:
        """Close the session and write the profile."""

    def drop(self) -> None:
        """Close the session without a profile; one that an earlier session wrote stays."""

    def discard(self) -> None:
        """Close the session, and remove every profile that the probe's sessions wrote."""

    def size(self) -> int:
        """Return the bytes of the profile that the latest session wrote."""

    def adopt(self, paths: Sequence[str]) -> None:
        """Take copies of the script's own profiles, and remove the probe's."""


class Framework(Protocol):
    """One framework in one process.

    It records which layers and products a step consists of, from its import on until `stop_recording`.

    Attributes:
        name: as messages call it.
        imported: the script has imported it.
        profiler: its profiler.
    """

    @property
    def name(self) -> str: ...

    @property
    def imported(self) -> bool: ...

    @property
    def profiler(self) -> Profiler: ...

    def install(self) -> Dict[str, Hook]:
        """Set the environment; return what to call with each module, by its name, right after its import."""

    def training_calls(self, deferred: bool) -> None:
        """Count training calls as they come, or only note them, which is cheaper, once the window is over."""

    def window_opens(self) -> None:
        """Mark eager layers as phases, and record again after a `stop_recording`."""

    def window_begins(self) -> None:
        """Count from here what is counted of the window: its first step, maybe some after `window_opens`."""

    def window_closes(self, how: str) -> None:
        """Mark no layers any more.

        Args:
            how: `CLOSE`, `DROP` or `DISCARD` of `core.window`: what was counted is kept, that of an earlier window
                stays, or neither counts.
        """

    def stop_recording(self) -> None:
        """Take out every hook that records, and write what is known by now: the run may be killed.

        Called between two steps, in their thread, again and again once the window is over.
        """

    def finish(self) -> None:
        """End what is still being recorded; the run is at its end."""

    def write(self) -> None:
        """Write graph.json."""

    def basis(self) -> Optional[str]:
        """Return what tells where a step begins, as in probe.json; None where only the pattern of the calls does."""

    def versions(self) -> Dict[str, Optional[str]]:
        """Return the versions for probe.json, by package; None for one that was not imported."""

    def policy(self) -> Dict[str, Any]:
        """Return in which precision the workload computes, as probe.json has it; asked once, after the last step."""

    def losses(self, since: float) -> List[Tuple[float, str, float]]:
        """Return what the workload wrote to files of its own since a time: seconds since the epoch, name, value."""

    def devices(self) -> Devices:
        """Return the GPUs and their memory; asked once, after the last step."""
