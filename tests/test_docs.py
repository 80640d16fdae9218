"""The documentation names everything there is: verbs, options, environment variables, links, modules, rooms."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from tcprobe.cli.app import application
from tcprobe.readers import READERS
from tests.pages import reliability
from tests.support import ROOT

PAGES = sorted(p.name for p in ROOT.glob("*.md"))
DOCS = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md")}
COMMAND = typer.main.get_command(application())
OF_EVERY_VERB = ("--color", "--json", "--show-config")
VERBS = sorted(COMMAND.commands)  # type: ignore[attr-defined]


def options(verb: str) -> list[str]:
    """Return every option of a verb, as typed."""
    parameters = COMMAND.commands[verb].params  # type: ignore[attr-defined]
    return [o for p in parameters for o in (*p.opts, *p.secondary_opts) if o.startswith("--") and o != "--help"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_documented(verb: str) -> None:
    page = DOCS[f"{verb}.md"]
    assert f"tcprobe {verb}" in page
    assert not [o for o in options(verb) if o not in page and o not in OF_EVERY_VERB]


def test_options_of_every_verb_are_documented() -> None:
    assert all(set(options(verb)) >= set(OF_EVERY_VERB) for verb in VERBS)
    assert not [o for o in OF_EVERY_VERB if f"`{o}" not in DOCS["options.md"]]


@pytest.mark.parametrize("verb", VERBS)
def test_every_environment_variable_is_documented(verb: str) -> None:
    names = [p.envvar for p in COMMAND.commands[verb].params if p.envvar]  # type: ignore[attr-defined]
    assert not [n for n in names if n not in DOCS[f"{verb}.md"]]


@pytest.mark.parametrize("name", [*PAGES, *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_page_is_in_the_index() -> None:
    assert not [name for name in DOCS if name != "index.md" and f"({name})" not in DOCS["index.md"]]


def test_every_workload_has_a_page() -> None:
    pages = {f"(workloads/{p.stem}.md)" for p in (ROOT / "workloads").glob("*.py") if p.stem != "__init__"}
    assert pages == set(re.findall(r"\(workloads/\w+\.md\)", DOCS["workloads.md"]))


def test_every_page_is_in_the_source_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(PAGES) <= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_formats_are_listed_as_their_readers_name_them() -> None:
    *most, last = dict.fromkeys(reader.WHAT for reader in READERS)
    command = COMMAND.commands["report"].help or ""  # type: ignore[attr-defined]
    for page in ((ROOT / "README.md").read_text(encoding="utf-8"), DOCS["formats.md"], command):
        assert f"{', '.join(most)} and {last}." in " ".join(page.replace("`", "").split())


def imports() -> list[str]:
    """Return every import of ours that an example of the documentation makes."""
    pages = [*DOCS.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    return sorted({line for page in pages for line in re.findall(r"(?m)^(?:from|import) tcprobe\b.*$", page)})


@pytest.mark.parametrize("line", imports())
def test_what_examples_import_is_there(line: str) -> None:
    exec(line, {})


def architecture() -> list[str]:
    """Return the files, folders and modules that the page on the architecture names."""
    return sorted(set(re.findall(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*\w+\.(?:py|csv|md))`", DOCS["architecture.md"])))


@pytest.mark.parametrize("name", architecture())
def test_the_architecture_names_what_is_there(name: str) -> None:
    assert (ROOT / "tcprobe" / name).exists() or (ROOT / name).exists()


def test_the_architecture_names_every_room() -> None:
    rooms = {p.name + "/" * p.is_dir() for p in (ROOT / "tcprobe").iterdir() if p.is_dir() or p.suffix == ".py"}
    assert rooms - {"__init__.py", "__pycache__/"} <= set(architecture())


def test_the_page_on_reliability_is_made_from_the_tests() -> None:
    assert reliability.page(DOCS["reliability.md"]) == DOCS["reliability.md"], "python -m tests.pages.reliability"


MODEL = """
import keras
from keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

def make():
    inputs = keras.Input((512,))
    x = layers.Dense(4090, activation="relu")(inputs)
    x = layers.Dense(4090, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))
"""


SHOWN = re.compile(r"(?ms)(?<=^```\n)model\.py:\d.*?(?=\n```)")


@pytest.mark.parametrize("page", ["README.md", "docs/audit-shapes.md"])
def test_the_audit_that_a_page_shows_is_what_is_printed(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A page shows the first lines of what is printed; `--update-golden` writes as many anew."""
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    command = [sys.executable, "-m", "tcprobe", "audit-shapes", "--mode", "source", "--batch-size", "8192", "model.py"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout.splitlines()
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    (shown,) = SHOWN.findall(text)
    expected = "\n".join(printed[: shown.count("\n") + 1])
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text.replace(shown, expected), encoding="utf-8")
        return
    assert shown == expected


@pytest.mark.parametrize("name", ["README.md", "docs/report.md"])
def test_the_screen_that_a_page_shows_is_what_is_printed(name: str, request: pytest.FixtureRequest) -> None:
    """It is what a terminal shows: a pipe has the tables below it."""
    page = (ROOT / name).read_text(encoding="utf-8")
    command, shown = re.findall(r"(?ms)^```\n\$ tcprobe (report .*?)\n(.*?)^```$", page)[0]
    run = [sys.executable, "-m", "tcprobe", *command.split()]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if request.config.getoption("--update-golden", default=False):
        screen = printed.partition("\n\nprofile  ")[0]
        (ROOT / name).write_text(page.replace(shown, f"{screen}\n"), encoding="utf-8")
        return
    assert printed.startswith(shown)
