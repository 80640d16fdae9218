"""The profile formats: one module each, listed here, richest first.

Of two formats found side by side the earlier one is read; the order therefore says which knows more.
"""

from __future__ import annotations

from tcprobe.readers.base import Reader
from tcprobe.readers.dlprof import database as dlprof_database
from tcprobe.readers.dlprof.reader import CSV as DLPROF_CSV
from tcprobe.readers.dlprof.reader import JSON as DLPROF_JSON
from tcprobe.readers.kineto import trace as kineto
from tcprobe.readers.ncu import csv as ncu_csv
from tcprobe.readers.nsys import database as nsys_database
from tcprobe.readers.nsys_stats import csv as nsys_stats
from tcprobe.readers.run_folder import folder as run_folder
from tcprobe.readers.xspace import xplane

READERS: tuple[Reader, ...] = (
    *(run_folder, xplane, dlprof_database, nsys_database, kineto),
    *(DLPROF_CSV, DLPROF_JSON, nsys_stats, ncu_csv),
)
