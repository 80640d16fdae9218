"""The Python API: what `tcprobe` exports is defined here, and loaded when it is first used."""

from __future__ import annotations

from tcprobe.api.audit import Finding, audit_shapes
from tcprobe.api.compare import Comparison, compare
from tcprobe.api.here import KerasCallback, profile
from tcprobe.api.profile import NoTable, Profile, read
from tcprobe.errors import TcprobeError

__all__ = [
    "Comparison",
    "Finding",
    "KerasCallback",
    "NoTable",
    "Profile",
    "TcprobeError",
    "audit_shapes",
    "compare",
    "profile",
    "read",
]
