"""Starts the probe, runs the workload whatever became of the probe, and finishes."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, Callable, List, Set

from .config import Config, SecretsGoneError, load_config
from .constants import OTHERS
from .core.framework import Core, Framework
from .probe import Probe
from .script import script
from .tensorflow.framework import TensorFlow

FRAMEWORK: Callable[[Core], Framework] = TensorFlow  # what the probe trains with: the one place that says so


def run_probed(arguments: List[str], before: Set[str]) -> None:
    """Run the workload of a configuration.

    Args:
        arguments: path of config.json.
        before: modules that were loaded before the probe's own.
    """
    if len(arguments) != 1:
        sys.exit("usage: python tcprobe_probe config.json")
    try:
        config = load_config(arguments[0])
    except SecretsGoneError as error:
        sys.exit(
            "tcprobe: the workload was not started: its command line has secrets, which are passed in a file that "
            "lasts as long as the run and cannot be read here: %s" % error
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit("tcprobe: %s: not a configuration of the probe (%s: %s)" % (arguments[0], type(error).__name__, error))
    if config.audit:
        from .audit.run import run_audit

        run_audit(config, before)
        return
    if config.umask is not None:
        os.umask(config.umask)
    probe = _start(_apart(config, arguments[0]))
    script.set_path(config.kind, config.name)
    script.unshadow(script.folder_of(config.kind, config.name), before)
    try:
        script.run_script(config.kind, config.name, config.argv, config.source)
        _ended(probe, 0)
    except BaseException as error:
        _ended(probe, script.exit_code(error))
        raise
    finally:
        # Threads of the script may still train; the interpreter waits for them before `atexit`.
        if probe is not None and threading.active_count() <= 1 + _daemons():
            probe.finish()


def _apart(config: Config, path: str) -> Config:
    """Return the orders as they are for the first process of a run; one beside it writes apart and profiles nothing.

    The first holds a lock on the file of the orders as long as it lives.
    """
    try:
        import fcntl

        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return config._replace(out=os.path.join(config.out, OTHERS, str(os.getpid())), profile=False)
    except (ImportError, OSError):
        pass  # a file system without locks: nothing tells that there are several
    return config


def _ended(probe: Any, code: int) -> None:
    if probe is not None:
        probe.exit_code = code


def _daemons() -> int:
    return sum(thread.daemon for thread in threading.enumerate())


def _start(config: Config) -> Any:
    """Return the probe, started; None where it failed, and the workload runs without."""
    try:
        probe = Probe(config, FRAMEWORK)
        probe.start()
        atexit.register(probe.finish)
    except Exception as error:
        print("tcprobe: the probe could not start (%s: %s)" % (type(error).__name__, error), file=sys.stderr)
        return None
    return probe
