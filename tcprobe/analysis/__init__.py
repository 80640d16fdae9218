"""Tables in, tables out: what a recorded profile says of Tensor Core use. No reading, no printing."""

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.options import Options

__all__ = ["Options", "analyse"]
