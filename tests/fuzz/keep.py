"""Make an input that broke something as small as it goes, and keep it in the corpus."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from tests.fuzz.inputs import CORPUS, Input, load
from tests.fuzz.runner import LIMITS, Limits, run
from tests.fuzz.targets import Target

SECONDS: Final = 120.0
FINEST: Final = 8
"""The shortest stretch that is left out is one in 2 to the power of so many."""


def kinds(target: Target, made: Input, limits: Limits = LIMITS) -> set[str]:
    """Return the classes of what an input breaks."""
    tally = run(target, lambda _: ("0", made), [0], time.time() + 120, limits)
    return {finding.kind for finding in tally.findings}


def smaller(target: Target, made: Input, seconds: float = SECONDS, limits: Limits = LIMITS) -> Input:
    """Return the smallest input found in some time that breaks the same; the same one if it breaks nothing."""
    wanted, until = kinds(target, made, limits), time.time() + seconds
    while wanted and time.time() < until:
        cuts = _cuts(made)
        tally = run(
            target, lambda n, made=made, cuts=cuts: (str(n), _without(made, cuts[n])), range(len(cuts)), until, limits
        )  # type: ignore[misc]
        broken = {key: {f.kind for f in tally.findings if f.key == key} for key in {f.key for f in tally.findings}}
        same = [_without(made, cuts[int(key)]) for key, found in broken.items() if wanted <= found]
        if not same:
            break
        made = min(same, key=lambda one: (one.size, one.digest))
    return made


def _cuts(made: Input) -> list[tuple[str, int, int]]:
    """Return what to leave out by turns: files as a whole (from -1), and stretches of them, long ones first."""
    found = [(name, -1, 0) for name in made.files if len(made.files) > 1]
    for name, content in made.files.items():
        for size in (len(content) >> shift for shift in range(1, FINEST)):
            found += [(name, at, at + size) for at in range(0, len(content), size)] if size else []
    return found


def _without(made: Input, cut: tuple[str, int, int]) -> Input:
    name, start, stop = cut
    if start < 0:
        return Input({n: c for n, c in made.files.items() if n != name})
    return made.changed(name, made.files[name][:start] + made.files[name][stop:])


def keep(target: Target, folder: Path, name: str | None) -> int:
    """Keep an input under a name; say what it breaks."""
    made = smaller(target, load(folder))
    into = CORPUS / target.name / (name or made.digest)
    if into.exists():
        shutil.rmtree(into)
    made.write(into)
    print(f"{into}: {made.size:,} bytes; breaks: {', '.join(sorted(kinds(target, made))) or 'nothing'}")
    return 0
