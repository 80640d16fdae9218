"""Hold two or more analysed profiles side by side, and say what differs and whether noise explains it."""

from tcprobe.analysis.compare.flow import compare

__all__ = ["compare"]
