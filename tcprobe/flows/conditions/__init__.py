"""Conditions under which a command fails (`--fail-if`): read them, and hold runs against them."""

from tcprobe.flows.conditions.judge import exit_code, judge_comparison, judge_run
from tcprobe.flows.conditions.parse import parse_conditions

__all__ = ["exit_code", "judge_comparison", "judge_run", "parse_conditions"]
