"""Say how well a training run uses the Tensor Cores, why not better, and what to change."""

from __future__ import annotations

import sys
from types import TracebackType

_API = (
    *("Comparison", "Finding", "KerasCallback", "NoTable", "Profile", "TcprobeError"),
    *("audit_shapes", "compare", "profile", "read"),
)
_MAGIC = "load_ipython_extension"  # IPython asks for it at %load_ext tcprobe
__all__ = ["Comparison", "Finding", "KerasCallback", "NoTable", "Profile", "TcprobeError", "__version__",
           "audit_shapes", "compare", "profile", "read", "step"]  # fmt: skip

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Workloads import this module in any interpreter; what reports need is loaded when it is asked for.
    if name not in (*_API, _MAGIC):
        raise AttributeError(f"module 'tcprobe' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("tcprobe.api.here" if name == _MAGIC else "tcprobe.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class step:  # noqa: N801
    """Marks one training step where tcprobe does not find the loop: ``with tcprobe.step(): train(batch)``.

    Under `tcprobe profile` these steps are counted and no others; anywhere else it does nothing.
    """

    def __enter__(self) -> None:
        # The probe runs as a package of its own and registers itself with this module.
        self._probe = sys.modules.get("tcprobe_running")
        if self._probe is not None:
            self._probe.begin_step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._probe is not None:
            self._probe.end_step()
