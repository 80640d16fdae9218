"""The sentences of all kinds that rules yield, collected from the modules that define them."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Says
from tcprobe.rules.registry import RULES
from tcprobe.rules.sizes import unaligned, words

LINKS: Final[Says] = {
    "feeder_open": "which of the layers that feed '{layer}' changes is open",
    "two_sizes": "'{layer}' would have to fit two sizes",
    "input_unknown": "what '{layer}' takes is unknown",
    "join_unknown": "how '{layer}' joins what it takes is unknown",
    "grouped": "'{layer}' is a grouped convolution",
    "reshaped": "'{layer}' gives it the shape {shape!s}",
    "output_unknown": "the output of '{layer}' is unknown",
    "does_not_follow": "{size} does not follow from {of}",
    "image_channels": "{channels} channels are an image's",
}
"""Sentences for `tcprobe.rules.model.links`, which itself holds none."""
SAYS: Final[Says] = {
    kind: said
    for part in (LINKS, words.SAYS, unaligned.SAYS, *(rule.SAYS for rule in RULES))
    for kind, said in part.items()
}
