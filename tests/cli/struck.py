"""Makes an interpreter signal itself at a moment that is not left to chance: an event of Python's own audit hooks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOOK = """import os, sys
seen = 0
def hook(event, args):
    global seen
    if event == os.environ["STRIKE_EVENT"] and (seen or str(args[0]).startswith(os.environ["STRIKE_FROM"])):
        seen += 1
        if seen == int(os.environ["STRIKE_AT"]):
            os.kill(os.getpid(), int(os.environ["STRIKE_SIGNAL"]))
sys.addaudithook(hook)
"""
WAYS = {"-m": [sys.executable, "-m", "tcprobe"], "script": [str(Path(sys.executable).with_name("tcprobe"))]}
"""How tcprobe is started: by its module, and by the script that pip makes."""


def struck(folder: Path, number: int, event: str, at: int, start: str = "") -> dict[str, str]:
    """Return an environment in which Python sends itself a signal.

    Args:
        folder: where to put the hook.
        number: the signal.
        event: name of the audit event.
        at: at the how-manieth such event, from 1.
        start: the first that counts is the one whose argument begins with this.
    """
    (folder / "sitecustomize.py").write_text(HOOK)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    paths = [str(folder), *filter(None, [kept.get("PYTHONPATH")])]
    strike = {"EVENT": event, "FROM": start, "AT": str(at), "SIGNAL": str(int(number))}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **{f"STRIKE_{name}": value for name, value in strike.items()}}
