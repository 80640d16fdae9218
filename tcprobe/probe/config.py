"""Reads the probe's orders: `config.json` in the run folder."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from .constants import SKIPPED_STEPS, WINDOW_BYTES, WINDOW_SECONDS, WINDOW_STEPS


class Config(NamedTuple):
    """The keys of config.json; docs/run-folder.md says what each means."""

    out: str
    raw: str
    kind: str
    name: str
    argv: List[str]
    profile: bool = True
    nvtx: bool = True
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


def load_config(path: str) -> Config:
    """Read `path`; unknown keys are ignored, missing ones take their defaults.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON.
        KeyError: ``out``, ``raw`` or ``target`` is missing.
    """
    with open(path, encoding="utf-8") as file:
        return parse_config(json.load(file), os.environ.get("TCPROBE_STEP_FUNCTION"))


def parse_config(data: Dict[str, Any], step_function: Optional[str] = None) -> Config:
    """Turn the decoded file into a Config; `step_function` is the environment's, the file's stands before it."""
    kind, name = data["target"]
    optional = {key: data[key] for key in Config._fields if data.get(key) is not None}
    optional.setdefault("argv", [])
    optional.setdefault("step_function", step_function or None)
    optional.update(out=os.path.abspath(data["out"]), raw=os.path.abspath(data["raw"]), kind=kind, name=name)
    return Config(**optional)
