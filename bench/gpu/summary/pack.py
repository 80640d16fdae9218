"""Make a folder ready to be sent: ``python -m bench.gpu.summary.pack DIR``, on the machine that recorded it.

Copies DIR to bench/gpu/results/GPU-DATE without what is no result (logs, what was cut off), writes its summary anew and
checks it, for this machine's and user's names too. Exits 0 if it may be sent, also where counters contradict names; 1
if not, with each reason; 2 if there is nothing to copy, or a folder of that name is there already.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from bench.gpu.day import LOG
from bench.gpu.private import own_names
from bench.gpu.summary.__main__ import write
from bench.gpu.summary.check import place_of, problems

RESULTS: Final = Path(__file__).parents[1] / "results"
LEAST_NAME: Final = 3
"""Letters of a name that is looked for; a shorter one is a word of many texts."""
NEWS: Final = frozenset({"contradiction", "precision"})
"""Problems that are tcprobe's, not the folder's."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.summary.pack", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of results, of bench.gpu.record")
    asked = parser.parse_args()
    name = place_of(asked.folder)
    if name is None:
        print(f"error: {asked.folder}: its provenance.json names no GPU of gpus.csv and date", file=sys.stderr)
        return 2
    place = RESULTS / name
    if place.exists():
        print(f"error: {place} is there already; remove it to pack anew", file=sys.stderr)
        return 2
    shutil.copytree(asked.folder, place, ignore=shutil.ignore_patterns("killed", LOG, ".*"))
    write(place)
    found = list(problems(place, [name for name in own_names() if len(name) >= LEAST_NAME]))
    for problem in found:
        print(f"{problem.kind}: {problem.text}")
    news = sum(problem.kind in NEWS for problem in found)
    said = f"; contradictions that tcprobe has to learn from: {news}" if news else ""
    print(f"{place}: {'not to be sent as it is' if len(found) > news else 'ready to be sent'}{said}")
    return 1 if len(found) > news else 0


if __name__ == "__main__":
    sys.exit(main())
