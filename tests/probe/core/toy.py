"""A framework of a few lines under the probe's core; prints what it was told.

`python toy.py FOLDER SCRIPT [START STOP]` runs a script with a window from step START to STOP; `none` stands for none.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any

from tcprobe.probe.config import Config
from tcprobe.probe.core.framework import Core, Devices, Hook
from tcprobe.probe.core.training import Callee
from tcprobe.probe.probe import Probe


class ToyProfiler:
    """Notes what it is told to do."""

    def __init__(self) -> None:
        self.available = True
        self.is_open = False
        self.preempted: Callable[[], None] = lambda: None
        self.script_began: Callable[[], None] = lambda: None
        self.script_ends: Callable[[], None] = lambda: None
        self.script_ended: Callable[[list[str]], None] = lambda _: None
        self.told: list[str] = []

    def start(self) -> bool:
        self.is_open = True
        self.told.append("start")
        return True

    def stop(self) -> None:
        self.is_open = False
        self.told.append("stop")

    def drop(self) -> None:
        self.is_open = False
        self.told.append("drop")

    def discard(self) -> None:
        self.is_open = False
        self.told.append("discard")

    def size(self) -> int:
        return 0

    def adopt(self, paths: Sequence[str]) -> None:
        self.told.append("adopt " + " ".join(paths))


class Toy:
    """Hooks module ``toyflow``, whose one function `train` calls layers and is always a training call."""

    name = "ToyFlow"

    def __init__(self, core: Core) -> None:
        self.training = core.training
        self.ranges = core.ranges
        self.profiler = ToyProfiler()
        self.path = Path(core.config.out) / "graph.json"
        self.recording = True
        self.layers: list[str] = []
        self.told: list[str] = []
        self.began: list[int] = []  # after so many calls
        self.closed: list[str] = []
        self.imported = False
        self.callees: dict[str, Callee] = {}
        self.calls = 0
        self.paces: list[tuple[int, bool]] = []

    def install(self) -> dict[str, Hook]:
        return {"toyflow": self._hook}

    def _hook(self, toyflow: Any) -> None:
        train, self.imported = toyflow.train, True
        toyflow.on_layer = self._called
        toyflow.profile = self._script_profiles
        self.ranges.find_tool()

        def training_call(part: str, layers: list[str]) -> None:
            callee = self.callees.get(part)
            if callee is None:
                callee = self.callees[part] = self.training.add("toyflow." + part, eager=False)
                callee.training, self.training.owner = True, get_ident()
            self.calls += 1
            self.training.begin(callee)
            try:
                train(part, layers)
            except IndexError:
                self.training.fail(out_of_data=True)
                raise
            finally:
                self.training.end()

        toyflow.train = training_call

    def _called(self, layer: str) -> None:
        if self.recording and layer not in self.layers:
            self.layers.append(layer)

    def _script_profiles(self, on: bool, *paths: str) -> None:
        if on:
            self.profiler.script_began()
        else:
            self.profiler.script_ends()
            self.profiler.script_ended(list(paths))

    def training_calls(self, deferred: bool) -> None:
        self.training.deferred = deferred
        self.paces.append((self.calls, deferred))

    def window_opens(self) -> None:
        self.recording = True
        self.told.append("open")

    def window_begins(self) -> None:
        self.began.append(self.calls)

    def window_closes(self, how: str) -> None:
        self.told.append("close")
        self.closed.append(how)

    def stop_recording(self) -> None:
        if self.recording:
            self.told.append("stop")
            self.write()
        self.recording = False

    def finish(self) -> None:
        pass

    def write(self) -> None:
        self.path.write_text(json.dumps({"layers": self.layers}))

    def basis(self) -> str | None:
        return None

    def versions(self) -> dict[str, str | None]:
        return {"toyflow": "1.0"}

    def policy(self) -> dict[str, Any]:
        return {"name": "mixed_toys"}

    def losses(self, since: float) -> list[tuple[float, str, float]]:
        return []

    def devices(self) -> Devices:
        return Devices([{"name": "toy", "compute_capability": None}], 7)


def main(folder: str, script: str, *window: str) -> None:
    """Run a script under the probe, with Toy as its framework."""
    sys.path.insert(0, str(Path(script).parent))
    start, stop = map(int, window) if len(window) == 2 else (None, None)
    config = Config(folder + "/probe", folder + "/raw", "script", script, [], window != ("none",))
    config = config._replace(iter_start=start, iter_stop=stop)
    toys: list[Toy] = []

    def make(core: Core) -> Toy:
        toys.append(Toy(core))
        return toys[-1]

    probe = Probe(config, make)
    probe.start()
    try:
        runpy.run_path(script)
    finally:
        probe.finish()
    toy = toys[0]
    print(
        json.dumps(
            {
                "profiler": toy.profiler.told,
                "layers": toy.told,
                "paces": toy.paces,
                "began": toy.began,
                "closed": toy.closed,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
