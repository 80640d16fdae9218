"""Reads the probe's orders: `config.json` in the run folder."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from .constants import SECRET_WORDS, SKIPPED_STEPS, WINDOW_BYTES, WINDOW_SECONDS, WINDOW_STEPS


class Config(NamedTuple):
    """The keys of config.json; docs/run-folder.md says what each means."""

    out: str
    raw: str
    kind: str
    name: str
    argv: List[str]
    profile: bool = True
    nvtx: bool = True
    tool: bool = False
    iter_start: Optional[int] = None
    iter_stop: Optional[int] = None
    window_steps: int = WINDOW_STEPS
    window_seconds: float = WINDOW_SECONDS
    window_bytes: int = WINDOW_BYTES
    precision: Optional[str] = None
    xla: Optional[bool] = None
    step_function: Optional[str] = None
    metric_patterns: List[str] = []
    steps_min_skip: int = SKIPPED_STEPS
    audit: Dict[str, Any] = {}
    secrets: List[str] = []  # what no file may hold; from the environment

    def mask(self, text: str) -> str:
        """Return `text` without the secrets of the command line."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class SecretsGoneError(Exception):
    """Words of the workload's command line that config.json has masked are not in the environment."""


def load_config(path: str) -> Config:
    """Read `path`; unknown keys are ignored, missing ones take their defaults.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON.
        KeyError: ``out``, ``raw`` or ``target`` is missing.
        SecretsGoneError: words of the command line are masked, and the environment does not hold them.
    """
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    config = parse_config(data, os.environ.get("TCPROBE_STEP_FUNCTION"))
    masked = data.get("masked")
    return _revealed(config, masked, os.environ.get(SECRET_WORDS, "")) if masked else config


def _revealed(config: Config, masked: List[int], carried: str) -> Config:
    """Return the orders with the workload's real words; every process takes them anew, a restarted one too."""
    try:
        held = json.loads(base64.urlsafe_b64decode(carried.encode("ascii")))
        words = {int(place): str(word) for place, word in held["words"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        words = {}
    if words.keys() != set(masked):
        raise SecretsGoneError
    argv = [words.get(place, word) for place, word in enumerate(config.argv)]
    return config._replace(argv=argv, secrets=[str(secret) for secret in held["secrets"]])


def parse_config(data: Dict[str, Any], step_function: Optional[str] = None) -> Config:
    """Turn the decoded file into a Config; `step_function` is the environment's, the file's stands before it."""
    kind, name = data["target"]
    optional = {key: data[key] for key in Config._fields if data.get(key) is not None}
    optional.setdefault("argv", [])
    optional.setdefault("step_function", step_function or None)
    optional.update(out=os.path.abspath(data["out"]), raw=os.path.abspath(data["raw"]), kind=kind, name=name)
    return Config(**optional)
