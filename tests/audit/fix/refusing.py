"""Get the reason for a refusal as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tcprobe.audit.fix.links import NotCertain
from tcprobe.report.audit.phrases.statements import sentence_of


@contextmanager
def refuses(match: str) -> Iterator[None]:
    """See that a fix is refused for a reason whose words match."""
    with pytest.raises(NotCertain) as raised:
        yield
    assert re.search(match, sentence_of(raised.value.why))
