"""The documentation names everything there is: verbs, options, environment variables, links, modules, rooms."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from tcprobe.cli.app import application
from tcprobe.probe.ranks import RANKS
from tcprobe.readers import READERS
from tcprobe.schema.tables import TABLES
from tests.pages.__main__ import PARTS, page
from tests.support import ROOT

PAGES = sorted(p.name for p in ROOT.glob("*.md"))
FOLDER = ROOT / "docs"
DOCS = {str(p.relative_to(FOLDER)): p.read_text(encoding="utf-8") for p in sorted(FOLDER.rglob("*.md"))}
COMMAND = typer.main.get_command(application())
OF_EVERY_VERB = ("--color", "--json", "--show-config")
VERBS = sorted(COMMAND.commands)  # type: ignore[attr-defined]
WORKLOADS = {name for name in DOCS if name.startswith("workloads/")}
FILES = {"csv", "json", "py", "npy"}
"""Endings of files, which may be called as a table."""


def options(verb: str) -> list[str]:
    """Return every option of a verb, as typed."""
    parameters = COMMAND.commands[verb].params  # type: ignore[attr-defined]
    return [o for p in parameters for o in (*p.opts, *p.secondary_opts) if o.startswith("--") and o != "--help"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page_and_every_option_stands_in_the_reference(verb: str) -> None:
    assert f"tcprobe {verb}" in DOCS[f"{verb}.md"]
    section = DOCS["commands.md"].partition(f"## tcprobe {verb}\n")[2].partition("\n## ")[0]
    assert not [o for o in options(verb) if f"`{o}" not in section and o not in OF_EVERY_VERB]


def test_options_of_every_verb_are_documented() -> None:
    assert all(set(options(verb)) >= set(OF_EVERY_VERB) for verb in VERBS)
    assert not [o for o in OF_EVERY_VERB if f"`{o}" not in DOCS["options.md"]]


def read_variables() -> set[str]:
    """Return the variables of the environment that the package reads by name, as far as the code spells them."""
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "tcprobe").rglob("*.py")]
    constants = dict(pair for text in texts for pair in re.findall(r'(?m)^(\w+)(?:: [^=]+)? = "([^"]*)"', text))
    asked = set()
    for node in (node for text in texts if "environ" in text for node in ast.walk(ast.parse(text))):
        match node:
            case (
                ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get"), args=[key, *_])
                | ast.Subscript(value=ast.Attribute(attr="environ"), slice=key)
                | ast.Compare(left=key, ops=[ast.In()], comparators=[ast.Attribute(attr="environ")])
            ):
                name = ast.unparse(key).rpartition(".")[2]
                asked.add(key.value if isinstance(key, ast.Constant) else constants.get(name))
    return {str(name) for name in asked if name}


def test_every_environment_variable_is_documented() -> None:
    read = read_variables()
    assert {"CUDA_VISIBLE_DEVICES", "TCPROBE_PROGRESS_SECONDS", "XDG_CONFIG_HOME", *RANKS} - read == set(RANKS)
    shared = {p.envvar for verb in VERBS for p in COMMAND.commands[verb].params if p.envvar}  # type: ignore[attr-defined]
    assert not [name for name in {*read, *shared, *RANKS} if f"`{name}`" not in DOCS["environment.md"]]


def test_every_code_of_an_error_is_documented() -> None:
    files = (p.read_text(encoding="utf-8") for p in (ROOT / "tcprobe").rglob("*.py"))
    codes = {code for text in files for code in re.findall(r'(?m)^    code = "(E\d+)"$', text)}
    assert codes and codes == set(re.findall(r"(?m)^\| (E\d+) \|", DOCS["errors.md"]))


def anchors(text: str) -> set[str]:
    """Return what links to headings of a page are called, as GitHub does."""
    headings = re.findall(r"(?m)^#{1,6} +(.+)$", re.sub(r"(?ms)^```.*?^```", "", text))
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {slug + (f"-{before}" if (before := slugs[:at].count(slug)) else "") for at, slug in enumerate(slugs)}


@pytest.mark.parametrize("name", [*PAGES, *(f"docs/{name}" for name in DOCS)])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{link}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    assert not [name for name in DOCS if f"({name})" not in DOCS["index.md"] and name not in ("index.md", *WORKLOADS)]


def commands() -> list[str]:
    """Return every command of ours in a block of the documentation, without what the shell does with it."""
    pages = [*DOCS.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    blocks = [block for page in pages for block in re.findall(r"(?ms)^```[a-z]*\n(.*?)^```$", page)]
    lines = [line for block in blocks for line in block.splitlines() if "[OPTIONS]" not in line]
    begin = rf"(?:\$ |[\w -]*: |\s*- )?\s*(?:[A-Z_]+=\S+ )*(?=tcprobe (?:{'|'.join(VERBS)})(?: |$))"
    typed = sorted({line[found.end() :] for line in lines if (found := re.match(begin, line))})
    return [re.split(r" (?:>|2>|<|\||&&) ", line)[0] for line in typed]


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_documentation_can_be_typed(line: str) -> None:
    """Its verb has these options, and they take these values."""
    _, name, *words = shlex.split(line, comments=True)
    verb = COMMAND.commands[name]  # type: ignore[attr-defined]
    context = COMMAND.context_class(verb, info_name=name, **verb.context_settings)
    values, _, given = verb.make_parser(context).parse_args(words)
    for param in given:
        param.type_cast_value(context, values.get(param.name))


def test_columns_are_named_as_they_are_called() -> None:
    spelled = re.compile(rf"`({'|'.join(TABLES)})\.([a-z_]+)`")
    others = {("ops", "conv"), ("ops", "max_pool"), ("ops", "average_pool"), ("ops", "shape")}  # of Keras
    others |= {("steps", "period")}  # of probe.json
    named = {(name, *found) for name, text in DOCS.items() for found in spelled.findall(text) if found not in others}
    assert len(named) > 30
    assert not [one for one in named if one[2] not in {c.name for c in TABLES[one[1]].columns} | FILES]


def test_every_workload_has_a_page() -> None:
    pages = {f"workloads/{p.stem}.md" for p in (ROOT / "workloads").glob("*.py") if p.stem != "__init__"}
    assert pages == WORKLOADS == set(re.findall(r"workloads/\w+\.md", DOCS["workloads.md"]))


def test_every_page_is_in_the_source_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(PAGES) <= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_formats_are_listed_as_their_readers_name_them() -> None:
    *most, last = dict.fromkeys(reader.WHAT for reader in READERS)
    command = COMMAND.commands["report"].help or ""  # type: ignore[attr-defined]
    for text in ((ROOT / "README.md").read_text(encoding="utf-8"), DOCS["formats.md"], command):
        assert f"{', '.join(most)} and {last}." in " ".join(text.replace("`", "").split())


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


@pytest.mark.parametrize("name", PARTS)
def test_what_is_made_from_the_code_is_up_to_date(name: str) -> None:
    assert DOCS[name] == page(name), "run python -m tests.pages"


def test_number_formats_are_what_their_bits_make_them() -> None:
    page = DOCS["number-formats.md"]
    rows = re.findall(r"(?m)^\| (?:\w+ )?(\w+) \| (\d), (\d+) \| (\S+) \| (\S+) \| (\S+) \| (?:1 \+ )?(\S+) \|$", page)
    assert len(rows) == 6
    for name, *told in rows:
        exponent, mantissa, largest, normal, smallest, step = (float(text.replace(",", "")) for text in told)
        bias = 2.0 ** (exponent - 1) - 1
        top = 448 if name == "E4M3" else (2 - 2**-mantissa) * 2**bias  # E4M3 has no infinity: its top exponent counts
        made = (top, 2 ** (1 - bias), 2 ** (1 - bias - mantissa), 2**-mantissa + (step > 1))
        assert (largest, normal, smallest, step) == pytest.approx(made, rel=0.05), name


def test_pictures_are_small_and_shown() -> None:
    files = {p.name: p.stat().st_size for p in (FOLDER / "pictures").iterdir()}
    assert set(files) == set(re.findall(r"\(pictures/([\w-]+\.png)\)", DOCS["gallery.md"]))
    assert sum(files.values()) < 300_000


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
