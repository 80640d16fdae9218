"""The command line: one verb per file; a verb parses, calls a flow and prints."""

from __future__ import annotations

from tcprobe.cli.app import app

__all__ = ["app"]
