"""What the shell completes beside options and their choices: GPUs, rules, workloads, tables and columns."""

from __future__ import annotations


def gpus(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids of GPUs, each with its name."""
    from tcprobe.hardware import load_gpus

    return [(gpu.id, gpu.name) for gpu in load_gpus() if gpu.id.startswith(incomplete.lower())]


def rules(incomplete: str) -> list[tuple[str, str]]:
    """Return the codes of rules of an audit, each with its name."""
    return [(code, name) for code, name in _rules(incomplete) if not code.startswith("TC3")]


def words_of_explain(incomplete: str) -> list[tuple[str, str]]:
    """Return what `tcprobe explain` explains: rules, errors, tables."""
    from tcprobe.flows.explain import AGENT, ERRORS, GPUS
    from tcprobe.schema.tables import TABLES

    others = [
        (GPUS, "the GPUs to predict for"),
        (AGENT, "a page for assistants"),
        *((e.code, e.__name__) for e in ERRORS),
    ]
    others += [(table.name, table.row) for table in TABLES.values()]
    return [*_rules(incomplete), *(pair for pair in others if pair[0].lower().startswith(incomplete.lower()))]


def workloads(incomplete: str) -> list[tuple[str, str]]:
    """Return the workloads that come with tcprobe."""
    from tcprobe.flows.workloads import packaged_workloads

    return [(w.name, w.description) for w in packaged_workloads() if w.name.startswith(incomplete)]


def baselines(incomplete: str) -> list[tuple[str, str]]:
    """Return the baselines that are kept, each with its file."""
    from tcprobe.flows.baselines import baseline_files

    return [(file.stem, str(file)) for file in baseline_files() if file.stem.startswith(incomplete)]


def _rules(incomplete: str) -> list[tuple[str, str]]:
    from tcprobe.rules.registry import RULES, RUN_RULES

    return [(rule.code, rule.name) for rule in (*RULES, *RUN_RULES) if rule.code.startswith(incomplete.upper())]
