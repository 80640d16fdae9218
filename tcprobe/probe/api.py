"""`tcprobe.step()` inside the workload: begins steps of the running probe, with tcprobe installed there or not."""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any, Optional

from .core.gaps import Gaps
from .core.ranges import Ranges
from .core.stepper import Stepper

# The package's own `tcprobe.step` looks for the probe under this name.
RUNNING = "tcprobe_running"


class Marker:
    """Begins and ends the steps that the script marks."""

    def __init__(self, stepper: Stepper, ranges: Ranges, gaps: Gaps) -> None:
        self._stepper = stepper
        self._ranges = ranges
        self._gaps = gaps

    def install(self) -> None:
        """Make the probe known to `tcprobe.step`, and provide that where no package tcprobe is installed."""
        running = types.ModuleType(RUNNING)
        running.__dict__.update(begin_step=self.begin_step, end_step=self.end_step)
        sys.modules[RUNNING] = running
        sys.meta_path.append(Stub(self))

    def begin_step(self) -> None:
        """Begin a step."""
        self._gaps.run("tcprobe.step", self._stepper.step)

    def end_step(self) -> None:
        """End its range; the step itself lasts until the next begins."""
        self._gaps.run("tcprobe.step", self._ranges.end_step)


class Stub:
    """Finds module `tcprobe` where nothing else does."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Optional[ModuleSpec]:
        """Return a spec for `tcprobe` alone."""
        return importlib.util.spec_from_loader(name, self) if name == "tcprobe" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module its one name."""
        marker = self._marker

        class step:  # noqa: N801
            """One training step, as a context manager."""

            def __enter__(self) -> None:
                marker.begin_step()

            def __exit__(self, *error: Any) -> None:
                marker.end_step()

        module.__dict__["step"] = step
