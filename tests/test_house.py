"""The rules of the house, held by reading the code: arrows, sizes, annotations, excepts, imports, words."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

SIBLINGS = {"capture", "readers", "analysis", "audit", "report"}
LOW = {"gemm", "rules", "tables", "columns", "profile", "errors", "hardware"}
ABOVE = {"cli", "flows"}
GENERATED = re.compile(r"_pb2\.py$")


def sources(*folders: str) -> list[Path]:
    """Return the project's own Python files below `folders`."""
    return sorted(p for f in folders for p in (ROOT / f).rglob("*.py") if not GENERATED.search(p.name))


PACKAGE = sources("tcprobe", "workloads")


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imported(path: Path) -> Iterator[str]:
    """Yield every module of tcprobe that a file imports, relative imports resolved."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(p for p in (base, node.module or "") if p)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def rooms(path: Path) -> set[str]:
    return {m.split(".")[1] for m in imported(path) if m.startswith("tcprobe.")}


@pytest.mark.parametrize("path", sources("tcprobe"), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_one_way(path: Path) -> None:
    here = path.relative_to(ROOT / "tcprobe").parts[0].removesuffix(".py")
    if here in SIBLINGS:
        assert not rooms(path) & ((SIBLINGS | ABOVE) - {here})
    if here in LOW:
        assert not rooms(path) & (SIBLINGS | ABOVE)
    if here == "flows":
        assert "cli" not in rooms(path)
    if here == "probe":
        assert not rooms(path) - {"probe"}


def test_functions_are_small() -> None:
    sizes = {f"{p.relative_to(ROOT)}:{f.lineno} {f.name}": length(f) for p in PACKAGE for f in functions(p)}
    assert not {name: n for name, n in sizes.items() if n > 60}
    assert statistics.median(sizes.values()) <= 10
    assert statistics.quantiles(sizes.values(), n=10)[8] <= 35


def test_files_are_small() -> None:
    lines = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").count("\n") for p in PACKAGE}
    assert not {name: n for name, n in lines.items() if n > 350}
    tests = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").count("\n") for p in sources("tests")}
    assert not {name: n for name, n in tests.items() if n > 600}


def test_everything_is_annotated() -> None:
    bare = []
    for path in PACKAGE:
        for node in functions(path):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            named = [a for a in arguments if a.arg not in ("self", "cls")]
            if node.returns is None or not all(a.annotation for a in named):
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not bare


def test_only_the_way_in_and_the_probe_catch_everything() -> None:
    broad = []
    for path in PACKAGE:
        relative = path.relative_to(ROOT)
        if relative == Path("tcprobe/__main__.py") or relative.is_relative_to("tcprobe/probe"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                caught = "" if node.type is None else ast.unparse(node.type)
                if re.search(r"\b(Base)?Exception\b", caught) or node.type is None:
                    broad.append(f"{relative}:{node.lineno}")
    assert not broad


@pytest.mark.parametrize("path", sources("tcprobe/probe"), ids=lambda p: p.name)
def test_the_probe_needs_only_the_standard_library(path: Path) -> None:
    late = {"tensorflow", "keras", "tf_keras", "nvtx", "numpy"}
    for module in imported(path):
        top = module.split(".")[0]
        assert top in sys.stdlib_module_names | {"tcprobe", ""} | late, f"{path.name} imports {module}"
    top_level = [n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.Import)]
    assert not {a.name.split(".")[0] for n in top_level for a in n.names} & late


@pytest.mark.parametrize("path", sources("tcprobe/probe", "workloads"), ids=lambda p: p.name)
def test_the_probe_and_workloads_parse_as_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv=['tcprobe','--help']\n"
        "from tcprobe.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'tensorflow', 'google.protobuf', 'rich', 'nvtx'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_project_speaks_of_itself_alone() -> None:
    leak = re.compile(r"/work/|/opt/v\b|/root/|\bTODO\b|\bFIXME\b|pypi\.org|deb\.debian\.org|registry\.npmjs")
    found = []
    for path in [
        *sources("tcprobe", "workloads", "bench", "tests"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]:
        if path.name == "test_house.py":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if leak.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}")
    assert not found
