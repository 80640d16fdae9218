"""Runs a workload with the probe in it: ``python FOLDER config.json``, FOLDER being this package under any name.

The package is copied into the run folder (``probe/src/tcprobe_probe``) and run by path in the workload's own
interpreter, ``python RUN/probe/src/tcprobe_probe RUN/probe/config.json``; ``-m tcprobe.probe`` does the same
from an installed package. Exit code, output and traceback are the workload's own.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    """Load the configuration, start the probe if it can start, run the workload."""
    before = set(sys.modules)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(here)
    package = __package__ or os.path.basename(here)
    if os.path.basename(sys.argv[-1]) == importlib.import_module(package + ".constants").LAUNCH:
        importlib.import_module(package + ".launch").launch(sys.argv[-1])
    importlib.import_module(package + ".way_in").run_probed(sys.argv[1:], before)


if __name__ == "__main__":
    main()
