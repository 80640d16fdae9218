"""Which outermost calls train: those of the names that hold the launches."""

from __future__ import annotations

import pytest

from tcprobe.analysis.waits.idle import training_calls
from tests.analysis import builders as b
from tests.analysis.waits.test_gaps import events

CALL = 100


def trains(calls: list[str], launches: dict[int, int]) -> list[bool]:
    """Return which calls train.

    Args:
        calls: names, one after the other, each `CALL` ns long.
        launches: of each call, by its place, how many kernels it launches.
    """
    found = events(*(("call", name, place * CALL, CALL) for place, name in enumerate(calls)))
    times = [place * CALL + 1.0 for place, count in launches.items() for _ in range(count)]
    made = b.launches(*((b.TC, -1, None, n, 1) for n in range(len(times)))).with_columns(launch_ns=times)
    return training_calls(found, made).tolist()


@pytest.mark.parametrize(
    ("calls", "launches", "expected"),
    [
        # metrics hold 1 of 200 launches; a call that launches nothing is of the training name all the same
        (["train", "metrics", "train"], {0: 199, 1: 1}, [True, False, True]),
        (["disc", "gen", "log"], {0: 60, 1: 40}, [True, True, False]),
        (["a"], {}, [False]),
        # op by op: 30 names of a thirtieth each: every call that launches
        ([f"op{n}" for n in range(30)] + ["idle"], dict.fromkeys(range(30), 1), [True] * 30 + [False]),
        # launched after the call had ended
        (["dispatch"], {5: 10}, [False]),
        ([], {0: 1}, []),
    ],
)
def test_which_calls_train(calls: list[str], launches: dict[int, int], expected: list[bool]) -> None:
    assert trains(calls, launches) == expected
