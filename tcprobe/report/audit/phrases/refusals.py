"""The sentences for why a finding has no fix."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Says

SAYS: Final[Says] = {
    "not_literal": "{argument} is neither a number in the layer's own call nor a name that the file assigns once",
    "used_otherwise": "{number} stands for something else in the file as well",
    "set_elsewhere": "the size is no layer's to choose",
    "linked_unknown": "what '{layer}' makes of another size is unknown",
    "not_split": "where a layer behind it would stand is unknown",
    "layers_counted": "the code takes layers of the model by number or name",
    "unproven": "the edited file could not be shown to make the same models",
}
