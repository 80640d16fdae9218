"""The targets: for each kind of input its seeds, how it is changed, and the command lines that read it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.dlprof import make as dlprof_fixtures
from tests.fixtures.gpu_run import make as gpu_run
from tests.fixtures.ncu import make as ncu_fixtures
from tests.fixtures.nsys_stats import make as stats
from tests.fixtures.xplane import make as xplane
from tests.fuzz import names, recordings
from tests.fuzz.door import Call, Said, call
from tests.fuzz.inputs import Input, load
from tests.fuzz.mutate import bytewise, cells, database, protobuf, python, toml, trees
from tests.fuzz.mutate import names as name_mutator
from tests.fuzz.mutate.chance import Chance, encoded
from tests.readers.kineto import made as traces
from tests.support import ROOT, notebook_text

Mutator = Callable[[bytes, Chance], bytes]
DLPROF: Final = Path(dlprof_fixtures.__file__).parent
RUN_FORMATS: Final = ("text", "text", "markdown", "csv")
AUDIT_FORMATS: Final = ("text", "text", "markdown", "csv", "sarif", "github", "junit", "diff", "fix")
MOST: Final = 500_000
"""Bytes of an input that is not changed any more, so that what doubles and doubles again stays small."""
LARGEST: Final = 64 << 20
"""Bytes of an input: what is deep, repeated and indented would fill the disk; limits of readers are tested apart."""
MUTATORS: Final[Mapping[str, Mutator]] = {
    ".pb": protobuf.mutated,
    ".csv": cells.mutated,
    ".sqlite": database.mutated,
    ".json": trees.mutated,
    ".ipynb": trees.mutated,
    ".py": python.mutated,
    ".toml": toml.mutated,
    ".names": name_mutator.mutated,
}
"""What knows a kind of file, by its ending; others are changed as bytes."""


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes:
        name: what `--only` calls it.
        what: what is fuzzed, in a few words.
        seeds: valid inputs to begin with.
        calls: the command lines for an input that lies in a folder.
        place: how an input gets there, where it is not written as it is.
        door: what makes a call and takes what it leaves.
    """

    name: str
    what: str
    seeds: Callable[[], list[Input]]
    calls: Callable[[Input, Path], Iterator[Call]]
    place: Callable[[Input, Path], None] = Input.write
    door: Callable[..., Said] = call

    def mutated(self, seed: Input, others: list[Input], chance: Chance) -> Input:
        """Return a changed input; a part of `others` may get into it."""
        made = seed
        for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3, 6))):
            made = self._once(made, others, chance) if made.size < MOST * chance.scale else made
        return made

    def _once(self, made: Input, others: list[Input], chance: Chance) -> Input:
        if len(made.files) > 1 and chance.random() < 0.06:
            return _other_files(made, others, chance)
        name = chance.choice(sorted(made.files)) if made.files else "x"
        content = made.files.get(name, b"")
        known = MUTATORS.get(Path(name).suffix)
        if known is None or chance.random() < 0.12:
            return made.changed(name, bytewise.mutated(content, chance))
        try:
            changed = made.changed(name, known(content, chance))
        except (RecursionError, MemoryError):  # what is too much for a mutator is so for a test
            return made
        return changed if changed.size < LARGEST else made


def _other_files(made: Input, others: list[Input], chance: Chance) -> Input:
    """Drop, rename or exchange a file, or add one of another input."""
    files, name = dict(made.files), chance.choice(sorted(made.files))
    kind = chance.randrange(4)
    if kind == 0:
        del files[name]
    elif kind == 1:
        files[name] = files[chance.choice(sorted(files))]
    elif kind == 2:
        files = {**chance.choice(others).files, **files}
    else:
        files[name + chance.choice(("~", ".bak", ".pb", "\x1b[2J", "\u202e", "\udcff", " ", "\n"))] = files.pop(name)
    return Input(files)


def _files(*paths: Path) -> list[Input]:
    return [Input({path.name: path.read_bytes()}) for path in paths]


def report(made: Input, folder: Path) -> Iterator[Call]:
    """Report the only file of an input, or the folder: as text, Markdown or CSV in turn, half of them also as JSON."""
    turn = made.digest_number
    found = [path for path in folder.rglob("*") if path.is_file()]
    path = str(found[0] if len(found) == 1 and found[0].parent == folder else folder)
    shown = RUN_FORMATS[turn % 4]
    options = (
        (),
        (),
        ("--top", "0"),
        ("--width", "40"),
        (),
        (),
        ("--by", "kernel", "--by", "advice"),
        ("--iter-stop", "2"),
    )
    yield Call(("report", path, "--format", shown, *options[turn // 4 % 8]), shown)
    if turn // 32 % 2:
        yield Call(("report", path, "--format", "json"), "json")


def audit(made: Input, folder: Path) -> Iterator[Call]:
    """Audit what an input holds, from source alone; some calls also fix it."""
    turn = made.digest_number
    file = next((n for n in made.files if n.endswith((".py", ".ipynb"))), "model.py")
    base = ("audit-shapes", str(folder / file), "--mode", "source", "--verbose"[: 9 * (turn // 8 % 2)])
    base = tuple(word for word in base if word)
    yield Call((*base, "--format", "json"), "json")
    shown = AUDIT_FORMATS[turn % 8]
    yield Call((*base, *((f"--{shown}",) if shown in ("diff", "fix") else ("--format", shown))), shown)


def calibrate(made: Input, folder: Path) -> Iterator[Call]:
    """List the user's constants, predict with them, and fit a CSV of measured products."""
    if "raw.csv" in made.files:
        yield Call(("calibrate", "--from", str(folder / "raw.csv"), "--force"), "show")
        return
    yield Call(("calibrate", "--show"), "show")
    yield Call(
        ("audit-shapes", str(folder / "model.py"), "--mode", "source", "--target-gpu", "h200-sxm", "--format", "json"),
        "json",
    )


def place_module(made: Input, folder: Path) -> None:
    """Write a profile around the HLO module of an input."""
    for name, content in made.files.items():
        space = xplane.XSpace()
        space.ParseFromString(_XLA)
        for plane in space.planes:
            if plane.name == "/host:metadata":
                plane.event_metadata[36].stats[0].bytes_value = content
        Input({Path(name).with_suffix(".xplane.pb").name: space.SerializeToString(deterministic=True)}).write(folder)


def place_names(made: Input, folder: Path) -> None:
    """Write the profile that holds the names of an input."""
    (content,) = made.files.values()
    Input({"names.xplane.pb": names.profile(content)}).write(folder)


_XLA: Final = xplane.serialise("xla")


def _xspace() -> list[Input]:
    made = [Input({f"{name}.xplane.pb": xplane.serialise(name)}) for name in xplane.FIXTURES]
    return [*made, *_files(Path(xplane.__file__).parent / "cpu_graph.xplane.pb")]


def _dlprof(ending: str) -> list[Input]:
    """Return each report of DLProf by itself, and those of one run together."""
    found = sorted(DLPROF.glob(f"*/*.{ending}"))
    folders = {path.parent for path in found}
    return [*_files(*found), *(Input({p.name: p.read_bytes() for p in found if p.parent == f}) for f in folders)]


def _ncu() -> list[Input]:
    return [Input({name: content}) for name, content in ncu_fixtures.FIXTURES.items()]


def _traces() -> list[Input]:
    """Return a trace of a training, and one in the spelling of 2021."""
    made = traces.training(2).text()
    old = made.replace('"cpu_op"', '"Operator"').replace('"kernel"', '"Kernel"').replace("Input Dims", "Input dims")
    return [Input({"worker.pt.trace.json": text.encode()}) for text in (made, old)]


def _stats() -> list[Input]:
    """Return reports of nsys stats, old and new, each by itself and those of one recording together."""
    made = {
        "run_gputrace.csv": stats.trace(old=True),
        "run_cuda_gpu_trace.csv": stats.trace(unit="us"),
        "run_gpukernsum.csv": stats.kernels(grids=True),
        "run_cuda_gpu_kern_sum.csv": stats.kernels(),
        "printed.csv": stats.processing("cuda_gpu_trace", stats.trace()) + stats.SKIPPED,
    }
    both = {name: encoded(made[name]) for name in ("run_cuda_gpu_trace.csv", "run_cuda_gpu_kern_sum.csv")}
    return [*(Input({name: encoded(text)}) for name, text in made.items()), Input({**both, "run_nvtx_sum.csv": b""})]


def _modules() -> list[Input]:
    return [Input({"module.pb": xplane.hlo_module().SerializeToString(deterministic=True)})]


def _runs() -> list[Input]:
    """Return a run folder with a small profile, one with a report of DLProf, and one that was cut off."""
    whole = {n: c for n, c in load(gpu_run.RUN).files.items() if not n.startswith("raw/")}
    graph = json.loads(whole["probe/graph.json"])
    for function in graph["functions"]:
        del function["ops"][4:]
    whole["probe/graph.json"] = json.dumps(graph).encode()
    raw = {"raw/plugins/profile/2026_11_21_05_01_02/node1.xplane.pb": xplane.serialise("two_gpus")}
    kernels = {"raw/dlprof_kernel.csv": (DLPROF / "tf2_1.8/dlprof_kernel.csv").read_bytes()}
    partial = json.dumps({**json.loads(whole["run.json"]), "partial": True, "exit_code": 1, "gaps": []}).encode()
    return [Input({**whole, **raw}), Input({**whole, **kernels}), Input({**whole, "run.json": partial}), Input(whole)]


def _scripts() -> list[Input]:
    """Return small programs of many styles."""
    found = [*(ROOT / "tests/styles").glob("*.py"), *(ROOT / "tests/audit/fix/fixes").glob("*.before")]
    return [Input({"model.py": p.read_bytes()}) for p in sorted(found) if p.stat().st_size < 2500]


def _notebooks() -> list[Input]:
    texts = [made.files["model.py"].decode() for made in _scripts()[::4]]
    cells_ = [notebook_text(*text.split("\n\n")) for text in texts]
    magic = notebook_text(
        "%pip install x\n!ls\n", ["import keras\n", "x = 3"], "%%bash\nls", texts[0], nbformat_minor=4
    )
    return [Input({"model.ipynb": encoded(text)}) for text in (*cells_, magic)]


MODEL: Final = b"""import keras
from keras import layers

model = keras.Sequential([keras.Input((784,)), layers.Dense(63, activation="relu"), layers.Dense(10)])
model.compile("adam", "mse")
"""
SETTINGS: Final = b"""[tool.tcprobe]
target-gpu = "a100-sxm-40"
batch-size = 32
fail-on = "error"
fail-over = "5 %"
select = ["TC1"]
ignore = ["TC205"]
exclude = ["old/*.py"]
dtype = "mixed_float16"
baseline = "baseline.json"

[tool.tcprobe.per-file-ignores]
"tests/*.py" = ["TC101"]
"""
BASELINE: Final = {
    "version": 1,
    "findings": [
        {"file": "model.py", "code": "TC101", "layer_class": "Dense", "dimension": "units", "size": 63, "count": 2},
        {"file": "gone.py", "code": "TC205"},
    ],
}


def _settings() -> list[Input]:
    baseline = json.dumps(BASELINE, indent=1).encode()
    return [Input({"model.py": MODEL, "pyproject.toml": SETTINGS, "baseline.json": baseline})]


def _calibrations() -> list[Input]:
    from tcprobe.calibration.plan import cases_for
    from tcprobe.cost.measured import csv_of
    from tcprobe.hardware import find_gpu
    from tests.calibration.made import H200, timed, truth

    constants = truth(find_gpu("h200-sxm")).to_json().encode()
    with tempfile.TemporaryDirectory() as folder:
        rows = timed(cases_for(H200, "cublas12", "tensorflow")[:16], H200, truth(), Path(folder) / "raw.csv")
    user = "config/tcprobe/calibration/h200-sxm.json"
    return [Input({user: constants, "model.py": MODEL}), Input({"raw.csv": csv_of(rows).encode()})]


def _names() -> list[Input]:
    return [Input({"x.names": encoded(json.dumps(names.PLAIN, indent=1))})]


TARGETS: Final = {
    target.name: target
    for target in (
        Target("xspace", "XSpace profiles", _xspace, report),
        Target("dlprof-csv", "DLProf's CSV reports", lambda: _dlprof("csv"), report),
        Target("dlprof-json", "DLProf's JSON reports", lambda: _dlprof("json"), report),
        Target("ncu-csv", "Nsight Compute's CSV", _ncu, report),
        Target("nsys", "SQLite exports of Nsight Systems", recordings.databases, report),
        Target("kineto", "traces of PyTorch's profiler", _traces, report),
        Target("nsys-stats", "CSV of nsys stats", _stats, report),
        Target("run-folder", "run folders, whole, partial and mixed", _runs, report),
        Target("hlo", "HLO modules in a profile", _modules, report, place_module),
        Target("names", "names of kernels, ops, GPUs and shapes", _names, report, place_names),
        Target("source", "Python files", _scripts, audit),
        Target("notebook", "notebooks", _notebooks, audit),
        Target("settings", "pyproject.toml and baselines", _settings, audit),
        Target("calibration", "calibrated constants and raw measurements", _calibrations, calibrate),
    )
}
"""All targets, by name."""
