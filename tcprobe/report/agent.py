"""The page for assistants: which command answers which question, and how to read its JSON."""

from __future__ import annotations

from typing import Final

AGENT: Final = """\
# tcprobe for assistants

Every verb takes `--json`: one object on standard output, also of a failure. Nothing asks questions.
Talk is on standard error.

## Which command answers which question

| question | command |
|---|---|
| how good is this run or profile, why, what first | `tcprobe report PATH --json` |
| how good was the last run but two | `tcprobe report --last 3 --json` |
| one table of it (kernels, ops, layers, waits, ...) | `tcprobe report PATH --by kernel --format csv --width 0` |
| run a script and measure it | `tcprobe profile train.py -- ARGS` |
| which layers have bad sizes, without running anything | `tcprobe audit-shapes train.py --json` |
| the same of the model that the script builds | `tcprobe audit-shapes --run train.py --json -- ARGS` |
| did a change help | `tcprobe compare BEFORE AFTER --json` |
| which settings are fastest | `tcprobe sweep --precision tf32,mixed_float16 --xla on,off --json train.py` |
| keep the figures of a run to compare with later | `tcprobe baseline main PATH`; `compare baseline:main OTHER` |
| can this machine record a profile, and why not | `tcprobe doctor --json` |
| fail a build | `tcprobe report PATH --fail-if 'tc_kernel_time_pct<30'`; `compare ... --fail-if 'step_time>+5%'` |
| what a code, a figure, a column or an error means | `tcprobe explain TC301 --json` |

## What to read first in the JSON

- `report`: `verdict.word` (one of ten words), `verdict.text`, `verdict.limits`; `bar.rows`, which add up to
  `bar.total_ns`; `advice`, most important first, each with `code`, `text`, and what it saves: `saving_ns` is
  likely, `at_most_ns` a bound, and it is unknown where both are null. Savings do not add up where `beside` names
  other items. `summary` has the figures.
- `compare`: `verdicts` of the runs, `figures`, `conditions`.
- `sweep` (and `report SWEEP`): `verdict`, `fastest`, `combinations` with `times_as_fast`, `changes`, `strays`.
- `audit-shapes`: `summary`, and in `audited` each file's `findings`: `code`, `severity`, `place`, `saving_ns`.
- `doctor`: `problems`, and in `checks` each `state` (`ok`, `warning`, `problem`), `text`, `remedy`.
- a failure: `error` with `code`, `message`, `hint`.

Times are in ns, shares 0-100. null means unknown: do not take it for 0. `schema` changes when a key changes its
meaning or goes.

## Exit codes

| code | meaning |
|---|---|
| 0 | done, whatever the figures |
| 1 | a condition of `--fail-if` holds, `audit-shapes` has findings that fail, or `doctor` found a problem |
| 2 | the input cannot be used (see `error.hint`), or a condition cannot be told (0 with `--allow-unknown`) |
| 3 | a bug of tcprobe |

## What not to conclude

- Nothing about a GPU from the times of a run on a CPU (`NOT MEASURED`): what is predicted is called so.
- Nothing from `CANNOT TELL`, but to record again as the first item says.
- No sum of two savings, and no saving from a bound: change one thing, run again, `compare`.
"""
