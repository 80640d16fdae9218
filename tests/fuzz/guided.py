"""``python -m tests.fuzz.guided TARGET UNTIL FOLDER NUMBER``: let atheris choose what to change.

The mutators are ours; what reaches new code is kept in FOLDER/corpus and changed on, also by the process that comes
after this one: caches that hold names grow, so that each tries so many inputs and no more. In FOLDER, `told-NUMBER` has
a line for each finding and after each input a sum, `tries` is the input that is tried, and `board` its number. Needs
``pip install -e '.[fuzz]'``.
"""

from __future__ import annotations

import json
import mmap
import resource
import struct
import sys
import time
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["tcprobe"]):
    from tests.fuzz.inputs import kept, packed, unpacked
    from tests.fuzz.mutate.chance import Chance
    from tests.fuzz.runner import LIMITS, Tally, Trial, scratch, tried
    from tests.fuzz.targets import TARGETS, Target


RUNS = 5000
"""Inputs that a process tries, besides what is in the corpus when it begins."""


def main(name: str, until: str, folder: str, number: str) -> None:
    """Fuzz a target for some time; does not return, for libFuzzer ends the process."""
    target, tally, place = TARGETS[name], Tally(), Path(folder)
    trial = Trial(target, scratch(place), LIMITS)
    out = (place / f"told-{number}").open("w", encoding="utf-8")
    with (place / "board").open("r+b") as file:
        board = mmap.mmap(file.fileno(), 8)

    def one(data: bytes) -> None:
        made = unpacked(data)
        if made is None:
            return
        (place / "tries").write_bytes(data)
        board[:] = struct.pack("q", tally.inputs)
        began = time.process_time()
        for kind, detail in tried(trial, made):
            made.write(place / made.digest)
            print(json.dumps([made.digest, kind, detail]), file=out)
        taken = time.process_time() - began
        tally.add(Tally(1, taken, taken, made.digest))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([tally.inputs, tally.seconds, tally.slowest_s, "", peak]), file=out, flush=True)

    corpus = _corpus(target, place)
    runs = len(list(corpus.iterdir())) + RUNS
    options = [
        *(f"-max_total_time={max(1, int(float(until) - time.time()))}", f"-runs={runs}", "-max_len=2000000"),
        *("-timeout=60", "-rss_limit_mb=0", f"-artifact_prefix={place}/", "-verbosity=0"),
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, custom_mutator=_mutator(target))
    atheris.Fuzz()


def _corpus(target: Target, place: Path) -> Path:
    """Return the folder of what libFuzzer changes: at first the seeds, and the inputs that are kept."""
    corpus = place / "corpus"
    if not corpus.exists():
        corpus.mkdir()
        for number, seed in enumerate([*target.seeds(), *kept(target.name).values()]):
            (corpus / str(number)).write_bytes(packed(seed))
    return corpus


def _mutator(target: Target):  # type: ignore[no-untyped-def]
    seeds = [*target.seeds(), *kept(target.name).values()]

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        made = target.mutated(unpacked(data) or seeds[0], seeds, Chance(str(seed)))
        content = packed(made)
        return content if len(content) <= most else data

    return mutated


if __name__ == "__main__":
    main(*sys.argv[1:])
