"""``python -m tests.fuzz.guided TARGET SECONDS FILE``: let atheris choose what to change by the code that it reaches.

The mutators are ours; what reaches new code is kept in memory and changed on. Each finding is a line of FILE, and the
last line says how many inputs there were. Needs ``pip install -e '.[fuzz]'``.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["tcprobe"]):
    from tests.fuzz.inputs import Input, kept
    from tests.fuzz.mutate.chance import Chance
    from tests.fuzz.runner import LIMITS, Tally, TooSlow, Trial, scratch
    from tests.fuzz.targets import TARGETS, Target


def packed(made: Input) -> bytes:
    """Return an input as one text of bytes."""
    return json.dumps({name: content.decode("latin-1") for name, content in made.files.items()}).encode()


def unpacked(data: bytes) -> Input | None:
    """Return the input of a text; None if it is none."""
    try:
        return Input({name: text.encode("latin-1") for name, text in json.loads(data).items()})
    except (ValueError, AttributeError, RecursionError):
        return None


def main(name: str, seconds: str, file: str) -> None:
    """Fuzz a target for some time; does not return, for libFuzzer ends the process."""
    target, until, tally = TARGETS[name], time.time() + float(seconds), Tally()
    home = scratch()
    trial = Trial(target, home, LIMITS)

    def tell() -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        with Path(file).open("a", encoding="utf-8") as out:
            print(json.dumps([tally.inputs, tally.seconds, tally.slowest_s, "", peak]), file=out)

    def one(data: bytes) -> None:
        made = unpacked(data)
        if made is None:
            return
        began = time.process_time()
        try:
            found = trial.problems(made)
        except TooSlow:
            found = [("too slow", "")]
        taken = time.process_time() - began
        tally.add(Tally(1, taken, taken, made.digest))
        with Path(file).open("a", encoding="utf-8") as out:
            for kind, detail in found:
                made.write(Path(file).parent / made.digest)
                print(json.dumps([made.digest, kind, detail]), file=out)
        if tally.inputs % 50 == 0:
            tell()

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate([*target.seeds(), *kept(name).values()]):
            (Path(corpus) / str(number)).write_bytes(packed(seed))
        options = [
            f"-max_total_time={max(1, int(until - time.time()))}",
            "-max_len=2000000",
            "-timeout=60",
            "-rss_limit_mb=0",
        ]
        atheris.Setup([sys.argv[0], *options, "-verbosity=0", corpus], one, custom_mutator=_mutator(target))
        atheris.Fuzz()


def _mutator(target: Target):  # type: ignore[no-untyped-def]
    seeds = [*target.seeds(), *kept(target.name).values()]

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        made = target.mutated(unpacked(data) or seeds[0], seeds, Chance(str(seed)))
        content = packed(made)
        return content if len(content) <= most else data

    return mutated


if __name__ == "__main__":
    main(*sys.argv[1:])
