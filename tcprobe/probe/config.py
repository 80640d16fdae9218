"""Reads the probe's orders: `config.json` in the run folder."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from .constants import SKIPPED_STEPS, WINDOW_BYTES, WINDOW_SECONDS, WINDOW_STEPS, WORDS


class Config(NamedTuple):
    """The keys of config.json; docs/run-folder.md says what each means."""

    out: str
    raw: str
    kind: str
    name: str
    argv: List[str]
    source: Optional[str] = None
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
    numerics: bool = False
    umask: Optional[int] = None
    aside: Optional[int] = None
    secrets: List[str] = []  # what no file may hold; from words.json

    def mask(self, text: str) -> str:
        """Return `text` without the secrets of the command line."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class SecretsGoneError(Exception):
    """The file with the words of the workload's command line that config.json has masked cannot be read."""


def load_config(path: str) -> Config:
    """Read `path`; unknown keys are ignored, missing ones take their defaults.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON.
        KeyError: ``out``, ``raw`` or ``target`` is missing.
        SecretsGoneError: words of the command line are masked, and words.json is missing or damaged.
    """
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    config = parse_config(data)
    words = data.get("words") or os.path.join(os.path.dirname(path), WORDS)  # of ranks all have one file
    return _revealed(config, words) if data.get("masked") else config


def _revealed(config: Config, path: str) -> Config:
    """Return the orders with the workload's real words; every process reads them anew, a restarted one too.

    They come in a file, not in the environment or on the command line, which Nsight Systems writes into its reports.
    """
    try:
        with open(path, encoding="utf-8") as file:
            held = json.load(file)
        return config._replace(argv=list(map(str, held["argv"])), secrets=list(map(str, held["secrets"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SecretsGoneError("%s (%s)" % (path, getattr(error, "strerror", None) or type(error).__name__))


def parse_config(data: Dict[str, Any]) -> Config:
    """Turn the decoded file into a Config."""
    kind, name = data["target"]
    optional = {key: data[key] for key in Config._fields if data.get(key) is not None}
    optional.setdefault("argv", [])
    optional.update(out=os.path.abspath(data["out"]), raw=os.path.abspath(data["raw"]), kind=kind, name=name)
    return Config(**optional)
