"""The application of a command line loads the verb that it names, and all of them where it names none."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.main

from tcprobe.cli.app import VERBS, application


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_stands_alone(verb: str) -> None:
    alone, every = (typer.main.get_command(application(a)) for a in ([verb, "--help"], []))
    assert list(alone.commands) == [verb]  # type: ignore[attr-defined]
    ours, theirs = (c.commands[verb] for c in (alone, every))  # type: ignore[attr-defined]
    assert [p.name for p in ours.params] == [p.name for p in theirs.params]
    assert [p.name for p in alone.params] == [p.name for p in every.params]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["audit"], ["--", "audit-shapes"]])
def test_all_verbs_where_none_is_named(arguments: list[str]) -> None:
    assert tuple(typer.main.get_command(application(arguments)).commands) == VERBS  # type: ignore[attr-defined]


def test_other_verbs_are_not_loaded() -> None:
    code = (
        "import sys; sys.argv = ['tcprobe', 'workloads']\n"
        "from tcprobe.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m.startswith('tcprobe.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = ("app", "ending", "explain", "options", "progress")
    assert done.stderr.strip() == str([f"tcprobe.cli.{name}" for name in loaded])


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_help_on_all_verbs_needs_no_option_of_theirs(word: str) -> None:
    ours, full = (typer.main.get_command(application(arguments)) for arguments in ([word], []))
    texts = [command.get_help(typer.Context(command, info_name="tcprobe")) for command in (ours, full)]
    assert texts[0] == texts[1] and all(verb in texts[0] for verb in VERBS)
    assert [command.params for command in ours.commands.values()] == [[] for _ in VERBS]  # type: ignore[attr-defined]
