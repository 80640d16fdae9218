"""No regular expression of tcprobe can take a time that grows faster than a small power of its text."""

from __future__ import annotations

import re

import pytest

from tcprobe.flows.report import nests
from tests.linear.patterns import all_patterns

EXCEPTIONS = {
    "tcprobe.probe.tensorflow.profiler": "lines: each ends in a line feed, which nothing else in it matches",
    "tcprobe.audit.suppress": "codes in a comment of a source file: a letter, a digit and a blank begin parts",
}
"""Modules with a nested repeat that is left: why no text makes it try one thing twice."""
ONLY_WHEN_RUN = {
    "tcprobe.analysis.kernels.rule: pattern": "builds the rules for names, which are found in their table",
    "tcprobe.analysis.waits.tuning: pattern": "compiles a tuple of its own, which is found in the module",
    (
        "tcprobe.capture.program: "
        "f'^\\\\s*(?:-\\\\w,\\\\s*)?{flag}(?![\\\\w-]).*(?:\\\\n(?!\\\\s*-{{1,2}}[A-Za-z]).*)*'"
    ): "a profiler's help",
    "tcprobe.analysis.kernels.details: pattern": "compiles a tuple of its own, which is found in the module",
    "tcprobe.capture.program: profiler.option": "a profiler's help",
    "tcprobe.capture.environment: f'<([01]{{{len(paths)}}})>'": "a number",
    (
        "tcprobe.analysis.summary.rates: "
        "'|'.join((*(f'(?:^|/){re.escape(n)}(?:_\\\\d+)?/' for n in names), *[_BRANCH] * dynamic))"
    ): "names of optimizers, escaped",
    "tcprobe.analysis.ranges.steps: pattern": "what a user asks for, which flows.report has looked at",
    "tcprobe.flows.report: text": "what a user asks for, which is looked at before it is used",
    "tcprobe.probe.core.lines: generated": "the probe's own orders",
    "tcprobe.probe.script.tee: text": "what a user asks for: it runs on lines of 4,096 characters at most",
    "tcprobe.report.run.about: f'^{name}\\\\b'": "names of frameworks",
    "tcprobe.audit.fix.wants: f'\\\\b{re.escape(name)}\\\\b'": "a name, escaped",
}
"""Calls whose pattern is not known before they run: where it comes from."""


def test_no_pattern_nests_open_repeats() -> None:
    found, open_ = all_patterns()
    assert len(found) > 200
    assert {one.module for one in found if nests(one.pattern)} == set(EXCEPTIONS)
    assert set(open_) == set(ONLY_WHEN_RUN)


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        (r"(a+)+b", True),
        (r"(?:\w+\.)*x", True),
        (r"(?:a|(?:b*c)*)d", True),
        (r"(?=(x*y)+)", True),
        (r"(?:\w++\.)*x", False),
        (r"(?:a{1,3}b)*", False),
        (r"(?>\w*a)*", False),
        (r"a*b*", False),
        (r"(?:\w+ )*loss=(?P<loss>[\d.]+)", True),
        (r"[\w ]*loss=(?P<loss>[\d.]+)", False),
        (r"(?:\w+\d)*x", True),
        (r"(?:(?:a+)+,)*x", True),
    ],
)
def test_tells_a_nested_repeat(text: str, nested: bool) -> None:
    assert nests(re.compile(text)) is nested
