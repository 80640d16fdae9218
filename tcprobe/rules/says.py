"""The sentences of all kinds that rules yield, collected from the modules that define them."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Says
from tcprobe.rules.registry import RULES
from tcprobe.rules.sizes import findings

LINKS: Final[Says] = {
    "feeder_open": lambda layer: f"which of the layers that feed '{layer}' changes is open",
    "two_sizes": lambda layer: f"'{layer}' would have to fit two sizes",
    "input_unknown": lambda layer: f"what '{layer}' takes is unknown",
    "join_unknown": lambda layer: f"how '{layer}' joins what it takes is unknown",
    "grouped": lambda layer: f"'{layer}' is a grouped convolution",
    "reshaped": lambda layer, shape: f"'{layer}' gives it the shape {shape!s}",
    "output_unknown": lambda layer: f"the output of '{layer}' is unknown",
    "does_not_follow": lambda size, of: f"{size} does not follow from {of}",
    "image_channels": lambda channels: f"{channels} channels are an image's",
}
"""Sentences for `tcprobe.rules.model.links`, which itself holds none."""
SAYS: Final[Says] = {
    kind: said for part in (LINKS, findings.SAYS, *(rule.load().SAYS for rule in RULES)) for kind, said in part.items()
}
