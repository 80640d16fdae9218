"""Entry point when run by path: ``python FOLDER orders.json``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Carry out the orders; the package is named after its folder, whose neighbours are no modules of anybody's."""
    here = Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    record = importlib.import_module(here.name + ".record")
    del sys.path[0]
    record.carry_out(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
