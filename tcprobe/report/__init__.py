"""The output formats: one module each, listed here; each renders an analysed Profile."""

from __future__ import annotations

from tcprobe.report.base import Reporter

REPORTERS: tuple[Reporter, ...] = (
    Reporter("text", (".txt",), "terminal"),
    Reporter("csv", (".csv",), "tables_csv"),
    Reporter("json", (".json",), "json_"),
    Reporter("markdown", (".md", ".markdown"), "markdown"),
)
