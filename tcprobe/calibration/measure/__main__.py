"""Entry point when run by path: ``python FOLDER orders.json``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Carry out the orders; the package is named after its folder."""
    here = Path(__file__).absolute().parent  # not resolved: a link gives the package its name
    sys.path[0] = str(here.parent)
    package = __package__ or here.name
    importlib.import_module(package + ".work").carry_out(sys.argv[1])


if __name__ == "__main__":
    main()
