"""Make an input that broke something as small as it goes, and keep it in the corpus."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fuzz.inputs import CORPUS, Input, load
from tests.fuzz.runner import run
from tests.fuzz.targets import Target

TRIES: Final = 400


def kinds(target: Target, made: Input, **limits: Any) -> set[str]:
    """Return the classes of what an input breaks."""
    tally = run(target, lambda _: ("0", made), [0], time.time() + 120, **limits)
    return {finding.kind for finding in tally.findings}


def smaller(target: Target, made: Input, tries: int = TRIES, **limits: Any) -> Input:
    """Return the smallest input found that breaks the same; the same one if it breaks nothing."""
    wanted = kinds(target, made, **limits)
    if not wanted:
        return made
    until = time.time() + tries
    shrunk = True
    while shrunk and time.time() < until:
        shrunk = False
        for candidate in _candidates(made):
            if time.time() > until:
                break
            if wanted <= kinds(target, candidate, **limits):
                made, shrunk = candidate, True
                break
    return made


def _candidates(made: Input) -> Iterator[Input]:
    """Yield smaller inputs: without a file, and without parts of one, large parts first."""
    for name in made.files:
        if len(made.files) > 1:
            yield Input({n: c for n, c in made.files.items() if n != name})
    for name, content in made.files.items():
        size = len(content) // 2
        while size:
            for at in range(0, len(content), size):
                yield made.changed(name, content[:at] + content[at + size :])
            size //= 2 if size > 8 else size


def keep(target: Target, folder: Path, name: str | None) -> int:
    """Keep an input under a name; say what it breaks."""
    made = smaller(target, load(folder))
    into = CORPUS / target.name / (name or made.digest)
    if into.exists():
        shutil.rmtree(into)
    made.write(into)
    print(f"{into}: {made.size:,} bytes; breaks: {', '.join(sorted(kinds(target, made))) or 'nothing'}")
    return 0
