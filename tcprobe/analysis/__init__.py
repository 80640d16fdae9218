"""Derive what a recorded profile says of Tensor Core use: tables in, tables out; nothing is read or printed here."""

from tcprobe.analysis.context import Options
from tcprobe.analysis.flow import analyse

__all__ = ["Options", "analyse"]
