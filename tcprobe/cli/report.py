"""`tcprobe report`: read any profile and say what it shows."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("report")(report)


def report() -> None:
    """Read a profile and report its Tensor Core use."""
