"""Where inputs come from: a seed, a number, and the seeds of a target and what is kept of it."""

from __future__ import annotations

from tests.fuzz.inputs import Input, kept
from tests.fuzz.mutate.chance import LONG_SCALE, Chance
from tests.fuzz.runner import Source
from tests.fuzz.targets import Target


def generated(target: Target, seed: str, long: bool) -> Source:
    """Return what gives the inputs of a seed: the same number gives the same input."""
    seeds = target.seeds()
    grown = [*seeds, *kept(target.name).values()]

    def source(number: int) -> tuple[str, Input]:
        chance = Chance(f"{seed}:{target.name}:{number}", LONG_SCALE if long else 1)
        return str(number), target.mutated(chance.choice(seeds if chance.random() < 0.7 else grown), grown, chance)

    return source
