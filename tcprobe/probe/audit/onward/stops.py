"""What ends a part of a script, or all of it; no `except Exception` of the user's catches it."""

from __future__ import annotations


class Stopped(BaseException):
    """The training step is known; what trains need not run on."""


class Ended(Stopped):
    """Nothing of the script runs any more; the text says why."""


class NotDone(PermissionError):
    """What the script asks for would change something outside it."""

    __module__ = "builtins"  # messages name it without one
