"""Write the summary of a folder of results: ``python -m bench.gpu.summary DIR [--check]``, after every recording.

summary.md and summary.json come from the tables in DIR alone. With --check it says what keeps DIR from standing among
bench/gpu/results, and exits with 1 if something does.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.gpu.summary.check import problems
from bench.gpu.summary.whole import DATA, PAGE, page, summarise
from tcprobe.errors import cannot_write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.summary", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of results, of bench.gpu.record")
    parser.add_argument("--check", action="store_true", help="say what keeps DIR from being committed; write nothing")
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        print(f"error: there is no folder {asked.folder}", file=sys.stderr)
        return 2
    if asked.check:
        found = list(problems(asked.folder))
        for problem in found:
            print(f"{problem.kind}: {problem.text}")
        print(f"{asked.folder}: problems: {len(found)}")
        return 1 if found else 0
    try:
        write(asked.folder)
    except OSError as error:
        refused = cannot_write(error.filename or asked.folder, error)
        print(f"error: {refused.message}\nhint: {refused.hint}", file=sys.stderr)
        return 2
    return 0


def write(folder: Path) -> None:
    """Write summary.json and summary.md into a folder of results."""
    data = summarise(folder)
    (folder / DATA).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(page(data), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
