"""Fill the text columns of a profile's tables from their kinds."""

from __future__ import annotations

from collections.abc import Callable

from tcprobe.report.run.advice import advice_sentence
from tcprobe.report.run.words import advice_of, blocker_of
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Profile


def with_texts(profile: Profile) -> Profile:
    """Fill ``tc_blocker`` of ops and products, ``advice`` of sizes, and ``text`` of what to do.

    Text that the profile already has is kept.
    """
    texts = {"ops": ("tc_blocker", blocker_of), "gemms": ("tc_blocker", blocker_of), "bad_sizes": ("advice", advice_of)}
    known = [(profile.table(name), *how) for name, how in texts.items()]
    filled = [_filled(table, column, words) for table, column, words in known if table is not None]
    if (advice := profile.table("advice")) is not None:
        filled.append(advice.with_columns(text=[advice_sentence(item) for item in profile.advice]))
    return profile.with_tables(*filled)


def _filled(table: Table, column: str, words: Callable[[Row], str | None]) -> Table:
    return table.with_columns(**{column: [words(row) for row in table.rows()]})
