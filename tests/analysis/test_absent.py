"""Whatever a source lacks, the verbs that read profiles tell the rest, and sums are those of its launches."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.compare import compare
from tcprobe.analysis.iterations import counted
from tcprobe.analysis.key_node import find_key_nodes
from tcprobe.errors import TcprobeError
from tcprobe.readers.open import open_profile
from tcprobe.report import DocumentKind, RenderSpec, renderers
from tcprobe.report.compare.document import CompareDocument
from tcprobe.report.document import Document, ReportSpec
from tcprobe.report.key_node import KeyNodeDocument
from tcprobe.report.run.advice import with_texts
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import DERIVED
from tests.fixtures.gpu_run.make import RUN
from tests.fuzz.mutate.chance import Chance
from tests.fuzz.mutate.tables import NOBODY, mutated
from tests.fuzz.targets import TARGETS
from tests.support import SHARED

FORMATS: Final = ("xspace", "dlprof-csv", "dlprof-json", "ncu-csv", "nsys", "nsys-stats", "run-folder")
SAMPLES: Final = ("nsys/*.sqlite", "xplane/*.pb", "dlprof/*/", "ncu/*.raw.csv", "nsys_stats/*.csv")
SPREAD: Final = 37  # no divisor of how many there are: each has its turn, and small and large ones take turns


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the profiles that can be had: seeds of the fuzzer, a run of the fixtures, and real samples."""
    home, found = tmp_path_factory.mktemp("seeds"), [RUN]
    for name in FORMATS:
        for number, seed in enumerate(TARGETS[name].seeds()):
            found.append(home / f"{name}-{number}")
            seed.write(found[-1])
    return [*found, *(path for pattern in SAMPLES for path in sorted((SHARED / "samples").glob(pattern)))]


@cache
def opened(path: Path) -> tuple[Profile, Profile] | None:
    """Return a profile as read and as analysed; None where it cannot be, as it is."""
    try:
        profile = open_profile(path)
        return profile, with_texts(analyse(profile))
    except TcprobeError:
        return None


def cases(paths: list[Path]) -> Iterator[tuple[int, Path]]:
    turns = ((number, paths[number * SPREAD % len(paths)]) for number in count())
    return ((number, path) for number, path in turns if opened(path) is not None)


@pytest.mark.parametrize("tries", [10, pytest.param(2000, marks=pytest.mark.long)])
def test_what_is_absent_breaks_nothing_and_changes_no_sum(paths: list[Path], tries: int) -> None:
    for number, path in islice(cases(paths), tries):
        try:
            check(path, Chance(f"{number}"))
        except Exception as error:
            error.add_note(f"number {number}, {path.name}")
            raise


def check(path: Path, chance: Chance) -> None:
    """Report a changed profile, compare it with the original, and search it for a key node: none may refuse it."""
    profile, original = opened(path) or ()
    changed = mutated(profile, chance)
    analysed = with_texts(analyse(changed))
    assert_sums(profile, original, analysed)
    # what ranges take on the host is told of all ranges, also of what no launch knows
    of_launches = [spec.name for spec in DERIVED if spec.name != "range_times"]
    assert not [name for name in of_launches if NOBODY in texts(analysed.require(name))]
    shown(RunDocument(analysed, ReportSpec(chance.choice((None, 0)))), "run", chance)
    pair = chance.sample((original, analysed), 2)
    shown(CompareDocument(compare(pair, ("a", "b")), ReportSpec()), "compare", chance)
    nodes = find_key_nodes(changed)
    assert (nodes.best is None) == (nodes.why_none is not None)
    if nodes.best is not None:
        shown(KeyNodeDocument(nodes, "a"), "key_node", chance)


def assert_sums(profile: Profile, original: Profile, analysed: Profile) -> None:
    """Hold sums against the launches as they were read; where the source has none, against those of the original."""
    launches, window = profile.require("launches"), analysed.metadata.window
    kernels = analysed.require("kernels")
    if not len(launches):
        for name in ("calls", "sum_ns"):
            assert np.nansum(kernels.numbers(name)) == np.nansum(original.require("kernels").numbers(name))
        return
    if analysed.start_up is not None:
        left = analysed.require("launches").numbers("start_ns")
        launches = launches.take(launches.numbers("start_ns") >= left.min())
        assert len(launches) == len(left)
    inside = counted(window, analysed.require("launches").numbers("iteration"))
    assert inside.all() if original.metadata.window.basis == "whole capture" else inside.any()
    expected = sums(launches.take(inside), None, "duration_ns")
    assert sums(kernels, "calls", "sum_ns") == expected
    devices = analysed.require("devices")
    here = set(devices.numbers("device").tolist())
    assert sums(devices, "launches", "sum_ns") == {d: s for d, s in expected.items() if d in here}
    ranges = analysed.table("range_kernels")
    assert ranges is None or ranges.numbers("sum_ns").sum() == launches.numbers("duration_ns")[inside].sum()


def sums(table: Table, calls: str | None, spent: str) -> dict[int, tuple[int, int]]:
    """Return launches and kernel time of each GPU that ran some; a row is one launch where no column counts them."""
    device = table.numbers("device").astype(np.int64)
    columns = [np.ones(len(table)) if calls is None else table.numbers(calls), table.numbers(spent)]
    counts, times = (np.bincount(device, weights=np.nan_to_num(c)).astype(np.int64).tolist() for c in columns)
    return {d: pair for d, pair in enumerate(zip(counts, times, strict=True)) if pair != (0, 0)}


def texts(table: Table) -> str:
    """Return all strings of a table."""
    return "\n".join({str(t) for data in table.columns.values() if isinstance(data, Names) for t in data.tolist()})


def shown(document: Document, kind: DocumentKind, chance: Chance) -> None:
    """Render a document in one of its formats."""
    offered = [one for one in renderers(kind) if one.name != "perfetto"]  # a trace needs times
    chance.choice(offered).render(document, RenderSpec(width=chance.choice((None, 80))), io.StringIO())
