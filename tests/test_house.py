"""The rules of the house, held by reading the code: arrows, sizes, annotations, excepts, imports, words."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support import ROOT

ORDER = (
    *(
        {"schema", "errors", "masking", "visible", "progress"},
        {"foreign"},
        {"jsonfile", "grouping"},
        {"bypath", "formatting", "hardware", "forest", "gemm", "tensor_metrics"},
        {"cost", "keras", "identify"},
        {"source"},
        {"rules", "calibration"},
    ),
    *({"capture", "readers", "analysis", "audit", "report"}, {"flows"}, {"cli", "api"}, {"__main__"}),
)
"""The rooms from the ground up: a room imports only rooms further down, never one of its own floor."""
LEAVES = {"probe": set[str](), "": set[str]()}
"""Rooms that stand by themselves, and what they may import."""
WITHIN = {
    "analysis": (
        *(
            {"host", "phases"},
            {"context", "scaling"},
            {"capability"},
            {"kernels"},
            {"iterations"},
            {"ops", "ranges", "window"},
        ),
        *(
            {"summary", "units", "waits"},
            {"chains", "sizes", "stretches", "validity", "key_node"},
            {"whatif"},
            {"causes"},
            {"screen"},
            {"timeline"},
            {"compare", "flow", "ranks"},
            {"sweep"},
        ),
    ),
    "audit": ({"settings", "severity", "suppress"}, {"fix", "source", "trace"}),
    "capture": (
        {"base", "program", "smi"},
        {"environment", "gpu_state"},
        {"folder", "launchers", "signals"},
        {"process"},
        {"probed", "run_record"},
        {"dlprof", "here", "nsys", "tensorflow"},
        {"choice", "ncu"},
        {"doctor"},
    ),
    "flows": (
        {"conditions", "job", "more_runs", "runs", "workloads", "write"},
        {"redact", "report"},
        {"audit", "profile"},
        {"doctor", "key_node"},
        {"sweep"},
    ),
    "keras": ({"row"}, {"classes"}, {"catalogue"}, {"settings"}, {"images"}, {"shapes"}, {"products"}),
    "probe": (
        {"constants", "ranks"},
        {"config"},
        {"core"},
        {"script", "tensorflow"},
        {"audit"},
        {"api", "sessions"},
        {"probe"},
        {"way_in"},
    ),
    "readers": (
        {"base", "merge", "one_run", "protobuf"},
        {"arrays"},
        {"borrow", "host_work", "rows"},
        {"hlo", "ncu", "nsys", "nsys_stats", "run_folder"},
        {"dlprof", "kineto", "xspace"},
        {"open"},
    ),
    "report": (
        {"agent", "drawn", "sentences"},
        {"curves", "document", "roofline"},
        {"fields"},
        {"grid"},
        {"audit", "doctor", "key_node", "redact", "run", "csv", "html", "json", "markdown", "text"},
        {"compare", "perfetto", "sweep"},
    ),
    "rules": ({"model", "words"}, {"base"}, {"precision", "run", "sizes"}, {"registry"}, {"docs", "says"}),
}
"""Rooms with rooms in them, or files beside those, likewise: each imports only what stands further down."""
DATA = {"tcprobe/schema/tables.py", "tcprobe/keras/classes.py", "tcprobe/analysis/kernels/names.py"}
PRINTS = re.compile(
    r"print\(|(sys\.)?(__)?std(out|err)(__)?\.(buffer\.)?write|os\.write\([12],|(typer|click)\.(se)?cho"
    r"|traceback\.print|warnings\.warn|logging\."
)
"""Calls that write to the terminal, as source."""
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
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    """Return the room that a module stands in, ``""`` for the package itself."""
    return module.split(".")[1] if "." in module else ""


def module_of(name: str) -> list[str]:
    """Return the module behind an imported name: the name itself, or the one that it stands in; none of ours: empty."""
    return [m for m in (name, name.rpartition(".")[0]) if m in modules()][:1]


@cache
def modules() -> dict[str, Path]:
    """Return the package's modules by dotted name."""
    found = {p.relative_to(ROOT).with_suffix("").parts: p for p in sources("tcprobe")}
    return {".".join(parts).removesuffix(".__init__"): path for parts, path in found.items()}


@cache
def arrows() -> dict[str, set[str]]:
    """Return what each module of the package imports of the package; a submodule does not import its own packages."""
    names = {name: {m for i in imported(path) for m in module_of(i)} for name, path in modules().items()}
    return {name: found - {name} for name, found in names.items()}


def test_arrows_point_one_way() -> None:
    floor = {name: number for number, names in enumerate(ORDER) for name in names}
    wrong = []
    for name, found in arrows().items():
        here = room(name)
        for other in {room(m) for m in found} - {here, ""}:
            below = LEAVES.get(here, {*LEAVES, *(n for n, at in floor.items() if at < floor.get(here, 0))})
            if other not in below:
                wrong.append(f"{name} -> {other}")
    assert {room(name) for name in modules()} <= set(floor) | set(LEAVES)
    assert not wrong


@pytest.mark.parametrize("name", WITHIN)
def test_arrows_within_a_room_point_one_way(name: str) -> None:
    floor = {part: number for number, parts in enumerate(WITHIN[name]) for part in parts}
    inside = {m: m.split(".")[2] for m in modules() if room(m) == name and m.count(".") > 1}
    assert {inside[m] for m in inside if m.count(".") > 2} <= set(floor)
    wrong = [
        f"{module} -> {other}"
        for module, here in inside.items()
        for other in arrows()[module] & inside.keys()
        if here in floor and inside[other] != here and floor.get(inside[other], len(floor)) >= floor[here]
    ]
    assert not wrong


def test_no_circle() -> None:
    order = TopologicalSorter(arrows())
    order.prepare()  # raises CycleError, which names the modules of a circle


def test_a_room_can_be_taken_in_at_a_glance() -> None:
    folders = Counter(p.parent.relative_to(ROOT) for p in sources("tcprobe") if p.name != "__init__.py")
    most = {f: n for f, n in folders.items() if n > 18}
    assert not most


def test_functions_are_small() -> None:
    sizes = {f"{p.relative_to(ROOT)}:{f.lineno} {f.name}": length(f) for p in PACKAGE for f in functions(p)}
    assert not {name: n for name, n in sizes.items() if n > 60}
    assert statistics.median(sizes.values()) <= 10
    assert statistics.quantiles(sizes.values(), n=10)[8] <= 35


def test_files_are_small() -> None:
    """Files are cut where the meaning changes; past these lengths it certainly has. Tables of data may be longer."""
    lines = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").count("\n") for p in PACKAGE}
    assert not {name: n for name, n in lines.items() if n > 450 and name not in DATA}
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


def test_everything_printed_passes_the_door() -> None:
    """Nothing prints but tcprobe/visible.py, nor makes text visible but what prints: text is raw until then."""
    printers = {f"report/{name}.py" for name in ("blocks", "csv", "github", "junit", "sarif")}
    printers |= {"cli/app.py", "cli/progress.py"}
    wrong = []
    for path in set(sources("tcprobe")) - set(sources("tcprobe/probe")) - {ROOT / "tcprobe/visible.py"}:
        name, text = str(path.relative_to(ROOT / "tcprobe")), path.read_text(encoding="utf-8")
        if PRINTS.search(text):
            calls = [ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            wrong += [f"{name}: {call}" for call in calls if PRINTS.match(call)]
        if name not in printers and re.search(r"\bvisible\(", text):
            wrong.append(f"{name}: visible(...)")
    assert not wrong


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
        "import sys; sys.argv=['tcprobe','--version']\n"
        "from tcprobe.__main__ import main\n"
        "main(); assert 'typer' not in sys.modules; sys.argv=['tcprobe','--help']\n"
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


OPENS: dict[str, str] = {
    "tcprobe/foreign.py": "it is the door",
    "tcprobe/bypath.py": "a temporary folder of its own, which the child writes",
    "tcprobe/calibration/measure/work.py": "likewise, from the child's side; it has no tcprobe around it",
    "tcprobe/capture/environment.py": "a file of the kernel's by a name of ours",
    "tcprobe/capture/doctor/machine.py": "files of the kernel's by names of ours",
    "tcprobe/capture/folder.py": "it changes the modes of its own folder and opens nothing",
    "tcprobe/capture/probed.py": "a file of the kernel's by a name of ours",
    "tcprobe/capture/signals.py": "files of the kernel's",
    "tcprobe/capture/process.py": "the terminal, and what our own probe is writing",
    "tcprobe/cli/ending.py": "a standard stream that is open already",
    "tcprobe/flows/workloads.py": "the scripts that come with tcprobe",
    "tcprobe/readers/kineto/events.py": "a member of an archive that the door opened",
}
"""Files of the package that open files past `tcprobe.foreign`, and why they may: nobody else makes what they open."""


def opened_past_the_door(path: Path) -> Iterator[str]:
    """Yield the calls with which a file reads files, or walks folders, by itself; to write one is no such call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name, words = ast.unparse(node.func), [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
        last = name.rpartition(".")[2]
        writes = any(re.fullmatch(r"'[wxa]b?'|os\.devnull", word) or "os.O_WRONLY" in word for word in words)
        of_files = name in ("open", "os.open", "os.walk") or ("." in name and last == "open")
        if (last in ("read_text", "read_bytes", "rglob") and name != last) or (of_files and not writes):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def test_foreign_files_are_opened_through_one_door() -> None:
    package = [p for p in sources("tcprobe") if "probe" not in p.relative_to(ROOT / "tcprobe").parts[:1]]
    found = {str(p.relative_to(ROOT)): list(opened_past_the_door(p)) for p in package}
    assert not [call for name, calls in found.items() if name not in OPENS for call in calls]
    assert not [name for name in OPENS if not found[name]], "an exception that is none any more"


def test_names_of_users_pass_the_door() -> None:
    """`Path` takes "" for the current folder, and `Path.resolve` raises on links in a circle what is no OSError."""
    of_options = [*sources("tcprobe/cli"), *sources("tcprobe/api")]
    typed = re.compile(r"\bPath \| None,$|Annotated\[(?:list\[)?Path\b|else Path\(", re.MULTILINE)
    assert not [str(p) for p in of_options if typed.search(p.read_text(encoding="utf-8"))]
    package = [p for p in sources("tcprobe") if not {"probe", "capture"} & set(p.relative_to(ROOT).parts[1:2])]
    resolved = [str(p.relative_to(ROOT)) for p in package if ".resolve()" in p.read_text(encoding="utf-8")]
    assert resolved == ["tcprobe/flows/workloads.py"], "tcprobe's own file; else foreign.real_path"


def test_no_script_hides_a_module_of_python() -> None:
    """A script's folder comes first where it looks for modules: beside a `html.py` no script can import `html`."""
    scripts = {path.stem for folder in ("bench", "workloads") for path in (ROOT / folder).glob("*.py")}
    assert not scripts & sys.stdlib_module_names
