"""Derive what a recorded profile says of Tensor Core use: tables in, tables out; nothing is read or printed here."""

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.options import Options

__all__ = ["Options", "analyse"]
