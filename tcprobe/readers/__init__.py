"""The profile formats: one module each, listed here, richest first.

Of two formats found side by side the earlier one is read; the order therefore says which knows more.
"""

from __future__ import annotations

from tcprobe.readers.base import Reader
from tcprobe.readers.dlprof import csv as dlprof_csv
from tcprobe.readers.dlprof import json as dlprof_json
from tcprobe.readers.ncu import csv as ncu_csv
from tcprobe.readers.nsys import database as nsys
from tcprobe.readers.run_folder import folder as run_folder
from tcprobe.readers.xspace import xplane

READERS: tuple[Reader, ...] = (run_folder, xplane, nsys, dlprof_csv, dlprof_json, ncu_csv)
