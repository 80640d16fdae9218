"""One `--fix` ends clean: audited again, nothing it changed is to be changed once more."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tcprobe.flows.audit.fix import fixed, fixes_of
from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tests.support import ROOT, examples, mostly_long

FOLDERS = ("tests/rules/golden", "tests/styles", "tests/audit/fix/fixes")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).iterdir()) if path.suffix in (".py", ".before")]
SHRINKS = """import keras
from keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")
inputs = keras.Input(({0},))
x = layers.Dense({2}, activation="relu")(layers.Dense({1}, activation="relu")(inputs))
model = keras.Model(inputs, layers.Dense(64)(layers.Dense({3}, activation="relu")(x)))
"""


def ended(path: Path, **options: object) -> tuple[AuditOutcome, AuditOutcome]:
    """Return what an audit finds before all fixes are made, and what it finds behind them."""
    given = AuditOptions((str(path),), mode="source", **options)  # type: ignore[arg-type]
    before = audit(given, lambda _: None)
    return before, fixed(given, lambda _: None)


def changed(outcome: AuditOutcome) -> set[tuple[str | None, int | None]]:
    """Return the dimension and new size of what has a fix."""
    return {(f.dimension, f.suggested) for f in outcome.report.findings() if f.fix is not None}


def is_clean(before: AuditOutcome, after: AuditOutcome) -> bool:
    """Say whether nothing is left to fix, and no size that was changed is to be another one still."""
    again = [f for f in after.report.findings() if f.suggested is not None and (f.dimension, f.size) in changed(before)]
    return not fixes_of(after) and not again


@pytest.mark.parametrize(
    ("path", "dtype"),
    mostly_long(product(FILES, (None, "float16")), lambda case: FILES.index(case[0]) % 2 == (case[1] is None)),
    ids=lambda value: f"{value.parent.name}/{value.stem}" if isinstance(value, Path) else value,
)
def test_one_fix_leaves_nothing_to_fix(path: Path, dtype: str | None, tmp_path: Path) -> None:
    copy = Path(shutil.copy(path, tmp_path / f"{path.stem}.py"))
    assert is_clean(*ended(copy, batch_size=4096, dtype=dtype))


@settings(
    max_examples=examples(25),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # each example is two audits: shrinking one takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(sizes=(5633, 7169, 5929, 1153), batch=256)
@example(sizes=(7169, 7169, 1793, 1000), batch=256)  # one number twice: no fix of that
@example(sizes=(2049, 2049, 2049, 3406), batch=4096)
@given(
    sizes=st.tuples(*[st.integers(1000, 9000) | st.integers(7, 35).map(lambda n: 256 * n + 1) for _ in range(4)]),
    batch=st.sampled_from([256, 4096, 8192]),
)
def test_sizes_settle_at_once(tmp_path: Path, sizes: tuple[int, ...], batch: int) -> None:
    path = tmp_path / "model.py"
    path.write_text(SHRINKS.format(*sizes), encoding="utf-8")
    before, after = ended(path, batch_size=batch)
    if len(set(sizes)) < len(sizes):  # what is left beside a size that has no fix is judged anew, and settles then
        before, after = ended(path, batch_size=batch)
    assert is_clean(before, after)


def test_a_size_just_past_a_tile_goes_back_to_it(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SHRINKS.format(1024, 2049, 1024, 1024), encoding="utf-8")
    ended(path, batch_size=4096)
    assert "layers.Dense(2048" in path.read_text(encoding="utf-8")
