"""How a flow tells its user what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]
"""Takes one line of progress."""
