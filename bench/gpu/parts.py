"""The parts of the day, most valuable first: a module each, with the four names of `day.Part`."""

from __future__ import annotations

from bench.gpu.classification import part as classification
from bench.gpu.costs import part as costs
from bench.gpu.day import Part
from bench.gpu.profiles import part as profiles
from bench.gpu.runs import part as runs

PARTS: tuple[Part, ...] = (classification, costs, profiles, runs)
