"""Run by path: ``python FOLDER orders.json``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Do what the orders say; the folder's own name is the package's."""
    here = Path(__file__).absolute().parent  # not resolved: its name may be that of a link
    sys.path[0] = str(here.parent)
    package = __package__ or here.name
    importlib.import_module(package + ".work").run(sys.argv[1])


if __name__ == "__main__":
    main()
