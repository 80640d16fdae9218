"""Starts the command of one rank: below a profiler in a folder of its own, or the workload plain."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any, Dict, List, Optional

from .config import load_config
from .constants import RANKS, WORDS
from .ranks import rank_of


def launch(path: str) -> None:
    """Become the command of the rank that this process is.

    Args:
        path: the file with what to start: ``folder``, the run folder; ``command``, with paths of that folder;
            ``ranks``, those to profile, null for all.
    """
    with open(path, encoding="utf-8") as file:
        orders: Dict[str, Any] = json.load(file)
    folder, command, rank = orders["folder"], list(orders["command"]), rank_of(os.environ)
    profiled: Optional[List[int]] = orders["ranks"]
    if rank is not None and profiled is not None and rank not in profiled:
        _become(_plain(orders))
    if rank is not None:
        place = _place(os.path.join(folder, RANKS), rank)
        command = [_moved(word, folder, place) for word in command]
        _write_orders(folder, place)
    _become(command)


def _become(command: List[str]) -> None:
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit("tcprobe: %s: cannot be started: %s" % (command[0], error.strerror))


def _plain(orders: Dict[str, Any]) -> List[str]:
    """Return the workload's own command line, whose words config.json may have masked."""
    config = load_config(os.path.join(orders["folder"], "probe", "config.json"))
    return [orders["python"]] + ["-m"] * (config.kind == "module") + [config.name] + config.argv


def _place(ranks: str, rank: int) -> str:
    """Make the folder of a rank; another process of the same number has one of its own."""
    os.makedirs(ranks, exist_ok=True)
    name = "rank-%d" % rank
    for place in (name, "%s-%s-%d" % (name, socket.gethostname(), os.getpid())):
        try:
            os.mkdir(os.path.join(ranks, place))
            return os.path.join(ranks, place)
        except FileExistsError:
            pass
    sys.exit("tcprobe: %s: exists already" % os.path.join(ranks, place))


def _moved(word: str, folder: str, place: str) -> str:
    """Return a word with the paths of the run folder that are a rank's own; a profiler may double % in them."""
    for old, new in ((folder, place), (folder.replace("%", "%%"), place.replace("%", "%%"))):
        raw, orders = os.path.join(old, "raw"), os.path.join(old, "probe", "config.json")
        word = word.replace(raw, os.path.join(new, "raw")).replace(orders, os.path.join(new, "probe", "config.json"))
    return word


def _write_orders(folder: str, place: str) -> None:
    """Write the orders of the probe of a rank, and make the folders that its profiler expects."""
    os.makedirs(os.path.join(place, "probe"))
    os.makedirs(os.path.join(place, "raw"))
    for name in os.listdir(os.path.join(folder, "raw")):
        if os.path.isdir(os.path.join(folder, "raw", name)):
            os.mkdir(os.path.join(place, "raw", name))
    with open(os.path.join(folder, "probe", "config.json"), encoding="utf-8") as file:
        orders = json.load(file)
    own = {"out": os.path.join(place, "probe"), "raw": os.path.join(place, "raw")}
    own["words"] = os.path.join(folder, "probe", WORDS)
    with open(os.path.join(place, "probe", "config.json"), "w", encoding="utf-8") as file:
        json.dump(dict(orders, **own), file, indent=1)
