"""Compare what two checkouts print: every report, audit and explanation of the samples and fixtures.

`python bench/same_output.py BEFORE [AFTER]` runs the same commands with the packages of both checkouts (AFTER: this
one) and compares standard output, standard error, exit codes and written files. Text must be equal to the byte; JSON
may gain keys and CSV columns, which are listed. `--traced` adds audits that start TensorFlow. Exits 1 if anything
differs. The output of BEFORE is kept in `--keep` and reused.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT.parent / "shared" / "samples"
BY = ("kernel", "op", "layer", "iteration", "device")
VARIANTS = (
    *("no_kernels", "refused", "dropped", "tail_lost", "without_launches", "second_gpu", "v100", "gtx1650"),
    *("tf32_off", "cut_off", "xla_alone", "xla"),
)
SHOWN = 300  # characters of a differing line that are printed


def stage(inputs: Path) -> None:
    """Copy every input to one place, so that both checkouts get the same paths."""
    sys.path.insert(0, str(ROOT))
    from tests.fixtures.gpu_run import make, variants

    for name in ("xplane", "dlprof"):
        if (SAMPLES / name).is_dir():
            (inputs / "samples").mkdir(parents=True, exist_ok=True)
            (inputs / "samples" / name).symlink_to(SAMPLES / name)
        ignore = shutil.ignore_patterns("*.py", "__pycache__")
        shutil.copytree(ROOT / "tests/fixtures" / name, inputs / "fixtures" / name, ignore=ignore)
    shutil.copytree(ROOT / "tests/fixtures/gpu_run/run", inputs / "runs/recorded")
    for name in VARIANTS:
        run = make.load()
        getattr(variants, name)(run)
        run.write(inputs / "runs" / name)
    for name, folder in (("styles", "styles"), ("source", "audit/source/scripts"), ("fixes", "audit/fix/fixes")):
        shutil.copytree(ROOT / "tests" / folder, inputs / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "workloads", inputs / "workloads", ignore=shutil.ignore_patterns("__pycache__"))


def profiles(inputs: Path) -> list[str]:
    """Return the paths to pass to `report`, relative to the inputs."""
    files = [*inputs.glob("samples/xplane/*.xplane.pb"), *inputs.glob("fixtures/xplane/*.pb")]
    dlprof = [p for place in ("samples", "fixtures") for p in inputs.glob(f"{place}/dlprof/*") if p.suffix != ".sql"]
    simple = inputs.glob("samples/dlprof/simple_0.16_json/*.json")
    found = [*files, *dlprof, *simple, *inputs.glob("runs/*")]
    return sorted(str(p.relative_to(inputs)) for p in found)


def commands(inputs: Path, traced: bool) -> Iterator[list[str]]:
    """Yield every command line; ``OUT`` stands for a folder of its own."""
    for path in profiles(inputs):
        for extra in (
            ["--top", "0"],
            ["--width", "80"],
            ["--format", "json"],
            ["--format", "markdown"],
            ["-o", "OUT/"],
        ):
            yield ["report", path, *extra]
        for by in BY:
            yield ["report", path, "--by", by]
    sources = sorted(
        str(p.relative_to(inputs)) for n in ("styles", "source", "fixes") for p in (inputs / n).glob("*.py")
    )
    source = ["audit-shapes", "--mode", "source"]
    for path in [*sources, "workloads/train_gan.py"]:
        for format_ in ("text", "json", "csv", "markdown", "sarif", "github"):
            yield [*source, path, "--format", format_]
        yield [*source, path, "--dtype", "float16", "--target-gpu", "h100-sxm", "-v", "--batch-size", "512"]
        yield [*source, path, "--dtype", "float16", "--library", "cublas10", "--target-gpu", "v100-sxm2"]
        yield [*source, path, "--diff"]
    yield [*source, *sources]
    yield [*source, "styles", "--format", "json", "--fail-on", "note", "--xla"]
    for rule in (*(f"TC{n}" for n in range(101, 110)), *(f"TC{n}" for n in range(201, 211)), "gpus", ""):
        yield ["explain", *([rule] if rule else [])]
    for verb in ("", "profile", "sweep", "report", "audit-shapes", "calibrate", "doctor", "explain", "workloads"):
        yield [*([verb] if verb else []), "--help"]
    yield ["report", "nosuch"]
    yield ["report", "styles"]
    yield ["audit-shapes", "nosuch.py"]
    for path in profiles(inputs):
        for by in ("gap", "advice"):
            yield ["report", path, "--by", by]
    for rule in (f"TC{n}" for n in range(301, 310)):
        yield ["explain", rule]
    if traced:
        for path in (p for p in sources if p.startswith("styles")):
            yield ["audit-shapes", "--mode", "traced", path]
        yield ["audit-shapes", "--run", "workloads/train_gan.py", "--format", "json", "--", "--sizes", "bad"]


DRIVER = """
import contextlib, io, json, os, sys, traceback
import numpy, pandas, typer, ast, dataclasses
orders = json.load(open(sys.argv[1])); root = sys.argv[2]
sys.path.insert(0, root)
import tcprobe
assert tcprobe.__file__.startswith(root), tcprobe.__file__
first, every = int(sys.argv[4]), int(sys.argv[5])
for number, argv in list(enumerate(orders))[first::every]:
    place = os.path.join(sys.argv[3], str(number)); os.makedirs(place)
    pid = os.fork()
    if pid == 0:
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT); os.dup2(file, fd)
        sys.stdout = open(1, "w", closefd=False); sys.stderr = open(2, "w", closefd=False)
        sys.argv = ["tcprobe", *[a.replace("OUT", os.path.join(place, "files")) for a in argv]]
        from tcprobe.__main__ import main
        try:
            code = main()
        except SystemExit as stopped:
            code = stopped.code
        except BaseException:
            traceback.print_exc(); code = 99
        with contextlib.suppress(OSError):
            sys.stdout.flush(); sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)
    _, status = os.waitpid(pid, 0)
    open(os.path.join(place, "code"), "w").write(str(os.waitstatus_to_exitcode(status)))
"""


def record(root: Path, inputs: Path, orders: list[list[str]], out: Path) -> None:
    """Run the commands with a checkout's package, each in its own folder."""
    orders_file = out.with_suffix(".orders.json")
    orders_file.write_text(json.dumps(orders))
    driver = out.with_suffix(".driver.py")
    driver.write_text(DRIVER)
    home = out.with_suffix(".home")
    env = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "80", "XDG_CONFIG_HOME": str(home)}
    env["PYTHONSAFEPATH"] = "1"
    command = [sys.executable, str(driver), str(orders_file), str(root), str(out)]
    workers = len(os.sched_getaffinity(0))
    running = [subprocess.Popen([*command, str(n), str(workers)], cwd=inputs, env=env) for n in range(workers)]
    if any(worker.wait() for worker in running):
        sys.exit(f"{root}: its commands could not be run")


def gained(before: Any, after: Any, where: str, news: set[str]) -> bool:
    """Return whether `after` equals `before` except for added keys, which go into `news`."""
    if isinstance(before, dict) and isinstance(after, dict):
        news.update(f"{where}.{key}" for key in after.keys() - before.keys())
        return all(k in after and gained(v, after[k], f"{where}.{k}", news) for k, v in before.items())
    if isinstance(before, list) and isinstance(after, list):
        alike = zip(before, after, strict=False)
        return len(before) == len(after) and all(gained(a, b, f"{where}[]", news) for a, b in alike)
    return bool(before == after) and type(before) is type(after)


def same_csv(before: str, after: str, where: str, news: set[str]) -> bool:
    """Return whether a CSV has the rows of another, with at most added columns."""
    old, new = (list(csv.DictReader(io.StringIO(text))) for text in (before, after))
    if len(old) != len(new):
        return False
    heads = [list(csv.reader(io.StringIO(text)))[:1] for text in (before, after)]
    kept = [c for c in (heads[1][0] if heads[1] else []) if not heads[0] or c in heads[0][0]]
    if heads[0] and kept != heads[0][0]:
        return False
    news.update(f"{where}: {c}" for c in (heads[1][0] if heads[1] else []) if heads[0] and c not in heads[0][0])
    return all(a[k] == b.get(k) for a, b in zip(old, new, strict=True) for k in a)


def same(old: Path, new: Path, argv: list[str], news: set[str]) -> str:
    """Return how two files differ; empty if they are equal."""
    if not old.exists() or not new.exists():
        news.add(f"file {new.name}" if new.exists() else f"lost {old.name}")
        return "" if new.exists() else "missing"
    before, after = (p.read_bytes().decode("utf-8", "backslashreplace") for p in (old, new))
    before, after = before.replace(str(old.parent.resolve()), "OUT"), after.replace(str(new.parent), "OUT")
    if before == after:
        return ""
    what = f"{argv[0]} {new.name if new.suffix else ''}"
    if "json" in argv or new.suffix == ".json":
        try:
            if gained(json.loads(before), json.loads(after), what, news):
                return ""
        except ValueError:
            pass
    if ("csv" in argv or new.suffix == ".csv") and same_csv(before, after, what, news):
        return ""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", n=0, lineterm="")
    return "\n".join(line[:SHOWN] for _, line in zip(range(8), lines, strict=False))


def compare(before: Path, after: Path, orders: list[list[str]]) -> int:
    """Print the differences; return how many commands differ."""
    differing, news = 0, set[str]()
    for number, argv in enumerate(orders):
        old, new = before / str(number), after / str(number)
        names = sorted({p.relative_to(f) for f in (old, new) for p in f.rglob("*") if p.is_file()})
        found = {str(name): same(old / name, new / name, argv, news) for name in names}
        if any(found.values()):
            differing += 1
            print(f"DIFFERS: tcprobe {' '.join(argv)}")
            for name, text in found.items():
                print("".join(f"  {name}: {line}\n" for line in text.splitlines()), end="")
    for line in sorted(news):
        print(f"gained: {line}")
    print(f"{len(orders) - differing} of {len(orders)} commands the same")
    return differing


def main() -> None:
    """Record both checkouts, compare them, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="checkout to compare with")
    parser.add_argument("after", type=Path, nargs="?", default=ROOT, help="checkout to compare (default: this one)")
    parser.add_argument("--traced", action="store_true", help="audit the styles traced as well (starts TensorFlow)")
    parser.add_argument("--keep", type=Path, help="folder in which inputs and what BEFORE printed are kept")
    parser.add_argument("--only", help="commands that contain this text")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = args.keep or Path(temporary)
        inputs, old, new = kept / "inputs", kept / f"before{'-traced' * args.traced}", Path(temporary) / "after"
        if not inputs.exists():
            inputs.mkdir(parents=True)
            stage(inputs)
        orders = list(commands(inputs, args.traced))
        if not old.exists():
            record(args.before.resolve(), inputs, orders, old)
        if args.only:
            wanted = [n for n, argv in enumerate(orders) if args.only in " ".join(argv)]
            (Path(temporary) / "chosen").mkdir()
            for at, n in enumerate(wanted):
                (Path(temporary) / "chosen" / str(at)).symlink_to(old / str(n))
            old, orders = Path(temporary) / "chosen", [orders[n] for n in wanted]
        record(args.after.resolve(), inputs, orders, new)
        sys.exit(1 if compare(old, new, orders) else 0)


if __name__ == "__main__":
    main()
