"""The output formats: one module each, listed here; each renders an analysed Profile."""

from __future__ import annotations

from tcprobe.report import json_, markdown, tables_csv, terminal
from tcprobe.report.base import Reporter

REPORTERS: tuple[Reporter, ...] = (terminal, tables_csv, json_, markdown)
