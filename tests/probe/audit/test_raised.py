"""What is in_one_line of an error that a file raised."""

from __future__ import annotations

import pytest

from tcprobe.probe.audit.document import telling_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ValueError: bad units", "ValueError: bad units"),
        ("", ""),
        (
            'ValueError: in user code:\n\n    File "m.py", line 3, in call\n        raise ValueError("no")\n\n'
            "    ValueError: no\n",
            "ValueError: no",
        ),
        (
            "ValueError: Exception encountered when calling Net.call().\n\n\x1b[1mno such axis\x1b[0m\n\n"
            "Arguments received by Net.call():\n  • x=1",
            "ValueError: no such axis",
        ),
        (
            'TypeError: in user code:\n\n    File "m.py", line 3, in f  *\n        g(x)\n\n    TypeError: Exception'
            ' encountered when calling layer "net" (type Net).\n\n    no such axis\n\n    Call arguments received',
            "TypeError: no such axis",
        ),
        (
            "ValueError: in user code:\n\n    ValueError: Exception encountered when calling layer 'net' (type N).\n\n"
            '    in user code:\n\n        File "m.py", line 3, in call  *\n            raise ValueError("no")\n\n'
            "        ValueError: no\n\n\n    Call arguments received by layer 'net'",
            "ValueError: no",
        ),
        ("ValueError: in user code:\n\n    something", "something"),
    ],
)
def test_of_an_error_the_line_is_told_that_says_what_is_wrong(text: str, line: str) -> None:
    assert telling_line(text.splitlines()) == line
