"""The profile formats: one module each, listed here, richest first.

Of two formats found side by side the earlier one is read; the order therefore says which knows more.
"""

from __future__ import annotations

from tcprobe.readers import dlprof_csv, dlprof_json, run_folder, xplane
from tcprobe.readers.base import Reader

READERS: tuple[Reader, ...] = (run_folder, xplane, dlprof_csv, dlprof_json)
