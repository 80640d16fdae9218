"""Change settings in TOML: the values of keys, the keys, the tables."""

from __future__ import annotations

import json
import re
from typing import Final

from tests.fuzz.mutate.chance import Chance, encoded

VALUES: Final = (
    "true", "[]", "{}", "1", "-1", "0.5", "nan", "inf", '"5 %"', '["TC1", 3]', '"all"', "[[1]]", "1979-05-27",
    '"error"', '"../x"', "0x10", '"TC101"', '["**"]', '"float16"', '"h100"', "100", '"' + "a" * 5000 + '"',
    "9" * 5000, "[" * 200 + "]" * 200,
)  # fmt: skip
KEYS: Final = (
    "target-gpu", "batch-size", "mode", "fail-on", "fail-over", "select", "ignore", "exclude", "dtype", "library",
    "xla", "baseline", "x",
)  # fmt: skip


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return other settings."""
    lines = content.decode("utf-8", "replace").split("\n")
    at = chance.randrange(len(lines))
    value = chance.choice(VALUES) if chance.random() < 0.6 else json.dumps(chance.text())
    kind = chance.random()
    if kind < 0.5:
        lines[at] = re.sub(r"=.*", lambda _: f"= {value}", lines[at])
    elif kind < 0.7:
        lines.insert(at, f"{chance.choice(KEYS)} = {value}")
    elif kind < 0.85:
        del lines[at]
    else:
        lines.insert(
            at,
            chance.choice((f"[tool.{json.dumps(chance.text())}]", "[tool.tcprobe]", "[[tool.tcprobe]]", chance.text())),
        )
    return encoded("\n".join(lines))
