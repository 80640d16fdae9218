"""Finds out what one training step of a file's models multiplies, and writes graph.json and audit.json.

The file is imported and its models get a step of tcprobe's own, or it is run as a script until its own step is
known. Either way a training function is traced, not run.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Dict, Set

from ..config import Config
from ..script import script
from ..tensorflow.graph.records import write_json
from .calls import Stopped
from .document import AuditRecord
from .find import NothingToAudit
from .models import ModelTracer
from .script import audit_step, ended
from .watch import Watch

STOPPED_IMPORT = "the import of %s trains (it has no __main__ guard); it was stopped there and that step is audited"


class Audit:
    """One audit in one process."""

    def __init__(self, config: Config) -> None:
        os.makedirs(config.out, exist_ok=True)
        self._config = config
        self._orders: Dict[str, Any] = config.audit
        self._ran = bool(self._orders.get("run"))
        self._document = AuditRecord(os.path.abspath(config.name))
        self._watch = Watch(config.out, self._orders.get("batch"))
        self._watch.calls.on_stop = self._swallowed

    def start(self) -> None:
        """Watch for TensorFlow and Keras."""
        self._watch.start()

    def go(self) -> None:
        """Run or import the file, and audit what it makes."""
        document = self._document
        try:
            if self._ran:
                script.run_script(self._config.kind, self._config.name, self._config.argv)
                ended(None, self._ran, self._watch, document)
            else:
                self._import()
        except Stopped:
            if not self._ran:
                document.notes.append(STOPPED_IMPORT % os.path.basename(document.path))
            audit_step(self._watch, document)
        except SystemExit as error:
            ended(error, self._ran, self._watch, document)
        except NothingToAudit as error:
            document.fail(error.kind, str(error), error.hint)
        except BaseException as error:  # the user's own, KeyboardInterrupt included
            ended(error, self._ran, self._watch, document)

    def finish(self) -> None:
        """Write both files."""
        self._watch.finish()
        content = self._document.content(self._watch.facts(), self._watch.gaps.gaps)
        write_json(os.path.join(self._config.out, "audit.json"), content)

    def _import(self) -> None:
        module = script.load_file(self._document.path)
        if module is None:
            raise NothingToAudit("input", "not a Python file")
        ModelTracer(self._watch, self._document, self._orders).audit(module)

    def _swallowed(self) -> None:
        """Leave although the script catches every exception."""
        audit_step(self._watch, self._document)
        self.finish()
        leave()


def run_audit(config: Config, before: Set[str]) -> None:
    """Audit, write what was found, and leave the interpreter.

    Args:
        config: the probe's orders, those of the audit among them.
        before: modules that were loaded before the probe's own.
    """
    audit = Audit(config)
    audit.start()
    script.set_path(config.kind, config.name)
    script.unshadow(script.folder_of(config.kind, config.name), before)
    audit.go()
    audit.finish()
    leave()


def leave() -> None:
    """End the process; threads of the script that still run are not waited for."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)
