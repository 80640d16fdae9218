"""How far the work is, as reading and analysing say it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tcprobe.flows.compare import make_comparison
from tcprobe.progress import now
from tcprobe.readers.open import open_profile
from tests.support import ROOT

FIXTURES = ROOT / "tests/fixtures/h100"
PROFILE = FIXTURES / "jax_tf32.xplane.pb"


def test_reading_says_how_many_of_the_bytes_are_read() -> None:
    open_profile(PROFILE)
    assert now.what == "reading jax_tf32.xplane.pb"
    assert now.of is not None and 0.9 * now.of < now.done <= now.of


def test_it_is_shown_once_however_deep_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[str]()

    @contextmanager
    def show() -> Iterator[None]:
        yield
        shown.append(now.what)

    monkeypatch.setattr(now, "show", show)
    make_comparison([PROFILE, next(p for p in sorted(FIXTURES.glob("*.xplane.pb")) if p != PROFILE)])
    assert shown == ["comparing"] and now.show is show
